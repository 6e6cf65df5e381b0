"""Plug-ins: files and installed packages that register components."""

import hashlib
import importlib
import inspect
import sys
import traceback

import pytest

from initbench import plugins
from initbench.errors import InitbenchError
from initbench.registry import INITIALIZERS
from suites import the_trial

pytestmark = pytest.mark.usefixtures("scratch_registry", "scratch_modules")

SOURCE = '''\
import initbench

RUNS = []
RUNS.append(1)

@initbench.register_initializer("from_file")
def from_file(std: float = 1):
    """From a file."""
    def apply(model, context):
        raise RuntimeError("applied")
    return apply
'''


@pytest.fixture
def scratch_modules():
    """Plug-ins that a test imports are forgotten after it."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("initbench_plugin_", "zoo_")):
            del sys.modules[name]
    plugins.load_entry_points.cache_clear()


def load(path):
    plugin = plugins.read_file(path)
    plugins.load_file(plugin)
    return sys.modules[plugin.module_name]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my plug-in.v2.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


# --- files


def test_a_file_is_imported_once(file):
    module = load(file)
    assert load(file) is module
    assert module.RUNS == [1]
    assert INITIALIZERS.get("from_file").resolve({}) == {"std": 1.0}


def test_reading_a_file_does_not_import_it(file):
    plugin = plugins.read_file(file)
    assert (plugin.path, plugin.text) == (str(file), SOURCE)
    assert plugin.module_name not in sys.modules
    assert "from_file" not in INITIALIZERS.names()


def test_the_text_is_enough(file):
    """A worker on another machine has no such file; sources and tracebacks work there as well."""
    plugin = plugins.read_file(file)
    file.unlink()
    plugins.load_file(plugin)
    factory = INITIALIZERS.get("from_file").factory
    assert inspect.getsource(factory).endswith("    return apply\n")
    with pytest.raises(RuntimeError, match="applied") as caught:
        factory()(None, None)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.line) == (str(file), 10, 'raise RuntimeError("applied")')
    assert list(file.parent.iterdir()) == []


def test_a_failed_import_leaves_no_module(file):
    file.write_text("x = 1\nraise OSError('no')\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(
            InitbenchError, match=f"^--plugin {file}: importing it raised OSError on line 2: no$"
        ) as caught:
            load(file)
        assert isinstance(caught.value.__cause__, OSError)


def test_ctrl_c_is_no_fault_of_the_plugin(file):
    file.write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    with pytest.raises(KeyboardInterrupt):
        load(file)


def test_a_name_that_another_file_has_taken(file, tmp_path):
    load(file)
    other = tmp_path / "other.py"
    other.write_text(SOURCE + "# another text\n", encoding="utf-8")
    message = f"^--plugin {other}: initializer 'from_file' is already registered by {file}$"
    with pytest.raises(InitbenchError, match=message):
        load(other)


def test_where_a_component_comes_from(file):
    assert plugins.origin(load(file).__name__) == str(file)
    assert plugins.origin("initbench.initializers.kaiming") == "initbench.initializers.kaiming"


def test_the_source_of_a_file_is_part_of_a_trials_id(file):
    load(file)
    source = INITIALIZERS.get("from_file").source
    assert source == hashlib.sha256(SOURCE.encode()).hexdigest()
    assert the_trial(initializers=["from_file"]).initializer.source == source


# --- the hash of a package


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write a package into a folder of its own and import it; return its hash."""
    count = iter(range(100))

    def write(files):
        root = tmp_path / str(next(count))
        for name, text in files.items():
            path = root / "zoo_hash" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for name in [n for n in sys.modules if n.partition(".")[0] == "zoo_hash"]:
            del sys.modules[name]
        monkeypatch.syspath_prepend(root)
        importlib.import_module("zoo_hash.animals")
        return plugins.source_hash("zoo_hash.animals")

    return write


FILES = {"__init__.py": "", "animals.py": "LEGS = 4\n", "sub/__init__.py": "", "sub/birds.py": "LEGS = 2\n"}


def test_the_hash_of_a_package_is_that_of_its_sources(package):
    first = package(FILES)
    assert package(FILES) == first  # another folder
    assert package(FILES | {"data.txt": "no source"}) == first
    changed = [
        FILES | {"animals.py": "LEGS = 5\n"},
        FILES | {"sub/birds.py": "LEGS = 3\n"},
        FILES | {"new.py": ""},
        {"sub/bats.py" if name == "sub/birds.py" else name: text for name, text in FILES.items()},
        FILES | {"sub/__init__.py": "LEGS = 2\n", "sub/birds.py": ""},  # the same texts in other files
    ]
    assert len({first, *map(package, changed)}) == 1 + len(changed)


def test_the_hash_of_a_module_of_one_file(tmp_path, monkeypatch):
    (tmp_path / "zoo_single.py").write_text("A = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("zoo_single")
    assert plugins.source_hash("zoo_single") == hashlib.sha256(b"A = 1\n").hexdigest()


# --- installed packages


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Make a module look installed, with an entry point; the plug-ins are then looked for afresh."""

    def install(source):
        (tmp_path / "zoo_installed.py").write_text(source, encoding="utf-8")
        info = tmp_path / "zoo_plugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zoo-plugin\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_text("[initbench.plugins]\nzoo = zoo_installed\n", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        plugins.load_entry_points.cache_clear()

    return install


def test_an_installed_plugin_is_found_by_name(installed):
    installed(SOURCE)
    component = INITIALIZERS.get("from_file")
    assert component.module == "zoo_installed"
    assert "from_file" in INITIALIZERS.names()
    assert sys.modules["zoo_installed"].RUNS == [1]


def test_built_ins_need_no_plugin(installed):
    """A plug-in that is broken does not keep the library from working."""
    installed("raise ValueError('broken')\n")
    assert INITIALIZERS.get("kaiming").name == "kaiming"
    message = r"^plug-in zoo-plugin \(zoo_installed\): importing it raised ValueError: broken$"
    with pytest.raises(InitbenchError, match=message):
        INITIALIZERS.get("unknown")
    with pytest.raises(InitbenchError, match=message):  # told each time
        INITIALIZERS.names()

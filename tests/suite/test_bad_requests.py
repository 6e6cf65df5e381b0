"""Command lines that cannot be met: one line that says which option, what is wrong and what would be right."""

import os
import time

import pytest

from suites import VALID, edited

CLOSED = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "recipe.epochs"], "--set recipe.epochs: write --set KEY=VALUE, such as --set recipe.epochs=1"),
        (["--set", "recipe..lr=1"], "--set recipe..lr=1: write --set KEY=VALUE, such as --set recipe.epochs=1"),
        (["--set", "recipe.epochs=-1"], "--set recipe.epochs=-1: recipe.epochs: must be at least 0, got -1"),
        (["--set", "recipe.epochs="], "--set recipe.epochs=: recipe.epochs: must be an integer, got null"),
        (["--set", "recipe.lr=-.inf"], "--set recipe.lr=-.inf: recipe.lr: must be finite, got -.inf"),
        (["--set", "recipe.lr=[0.1, 0.1]"], "--set recipe.lr=[0.1, 0.1]: recipe.lr[1]: 0.1 is given twice"),
        (
            ["--set", "recipe={epoch: 1}"],
            "--set recipe={epoch: 1}: recipe.epoch: is an unknown key (did you mean 'epochs'?)",
        ),
        (["--set", "recpie.epochs=1"], "--set recpie.epochs=1: recpie: is an unknown key (did you mean 'recipe'?)"),
        (
            ["--set", "dataset.trainsize=9"],
            (
                "--set dataset.trainsize=9: nothing in dataset has the name or an argument 'trainsize' "
                "(did you mean 'train_size'?)"
            ),
        ),
        (
            ["--set", "dataset=digit"],
            "--set dataset=digit: dataset: unknown dataset 'digit' (did you mean 'digits'?); is a --plugin missing?",
        ),
        (["--set", "seeds=[1, 1]"], "--set seeds=[1, 1]: seeds: the seed 1 is given twice"),
        (["--set", "resources.gpus=-1"], "--set resources.gpus=-1: resources.gpus: must be at least 0, got -1"),
        (
            ["--set", "resources.gpus=4"],
            "--set resources.gpus=4: resources.gpus: must be at most 1, as a trial uses one GPU, got 4",
        ),
        (
            ["--set", "resources.minutes=0"],
            "--set resources.minutes=0: resources.minutes: must be greater than 0, got 0",
        ),
        (
            ["--set", "initializers.metaint.steps=2"],
            (
                "--set initializers.metaint.steps=2: nothing in initializers has the name or an argument 'metaint' "
                "(did you mean 'metainit'?)"
            ),
        ),
        (
            ["--set", "initializers.kaiming.steps=2"],
            (
                "--set initializers.kaiming.steps=2: kaiming has no argument 'steps' "
                "(valid: classifier_std, distribution, embedding_std, gain, mode)"
            ),
        ),
        (
            ["--set", "initializers.metainit.base.std=2"],
            ("--set initializers.metainit.base.std=2: metainit has no base.std (valid: embedding_std, gain)"),
        ),
        (
            ["--set", "initializers.metainit.base.gian=2"],
            "--set initializers.metainit.base.gian=2: metainit has no base.gian (did you mean 'gain'?)",
        ),
        (
            ["--set", "initializers.metainit.base=[delta_orthogonal, kaimng]"],
            (
                "--set initializers.metainit.base=[delta_orthogonal, kaimng]: initializers[1].base[1]: "
                "must be a registered name: unknown initializer 'kaimng' (did you mean 'kaiming'?)"
            ),
        ),
        (
            ["--set", "initializers.metainit=2"],
            (
                "--set initializers.metainit=2: say which argument of metainit it is: "
                "--set initializers.metainit.ARGUMENT=VALUE"
            ),
        ),
        (
            ["--set", "architectures.width=0"],
            "--set architectures.width=0: architectures[0].width: must be at least 1, got 0",
        ),
        (
            ["--set", "rules.recipe=2"],
            (
                "--set rules.recipe=2: rules is not a mapping; --set reaches the top level, recipe, resources and the "
                "arguments in architectures, dataset, initializers, probes"
            ),
        ),
        (
            ["--set", "compare=initializr"],
            "--set compare=initializr: compare: no trial has initializr (did you mean 'initializer'?)",
        ),
        (
            ["--set", "recipe.lr=[1"],
            "--set recipe.lr=[1: not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
        ),
        (
            ["--set", "recipe.lr=!!python/name:os.system"],
            (
                "--set recipe.lr=!!python/name:os.system: the tag 'tag:yaml.org,2002:python/name:os.system' "
                "is not allowed; a suite is plain data"
            ),
        ),
        (
            ["--only", "initializer"],
            "--only initializer: write --only KEY=VALUE,VALUE such as --only initializer=metainit,kaiming",
        ),
        (
            ["--only", "initializer="],
            "--only initializer=: write --only KEY=VALUE,VALUE such as --only initializer=metainit,kaiming",
        ),
        (
            ["--only", "initializer=kaimng"],
            "--only initializer=kaimng: initializer: no trial has 'kaimng' (did you mean 'kaiming'?)",
        ),
        (
            ["--only", "inizializer=kaiming"],
            "--only inizializer=kaiming: inizializer: is an unknown key (did you mean 'initializer'?)",
        ),
        (["--only", "depth=10,28"], "--only depth=10,28: depth: no trial has 28 (valid: 3, 10, 16)"),
        (["--only", "seed=2"], "--only seed=2: seed: no trial has 2 (valid: 0, 1)"),
        (
            ["--only", "architecture=mlp", "--only", "depth=10"],
            "--only architecture=mlp --only depth=10: no trial meets all of them",
        ),
        (
            ["--only", "depth=[1"],
            "--only depth=[1: not YAML: while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
        ),
        (["--plugin", "plugin.y"], "--plugin plugin.y: no such file (did you mean 'plugin.py'?)"),
        (["--plugin", "."], "--plugin .: is a folder; did you mean plugin.py?"),
        (
            ["--plugin", "suite.yaml"],
            "--plugin suite.yaml: importing it raised SyntaxError: invalid syntax (suite.yaml, line 3)",
        ),
    ],
)
def test_option(options, message, refused):
    assert refused("plan", "suite.yaml", *options, suite_yaml=VALID, plugin_py="") == message


@pytest.mark.parametrize(
    ("command", "beginning"),
    [
        (["plan", "suite.yaml", "--seeds", "0"], "Invalid value for '--seeds': "),
        (["plan", "suite.yaml", "--seeds", "two"], "Invalid value for '--seeds': "),
        (["plan", "suite.yaml", "--sedes", "2"], "No such option: --sedes"),
        (["plan", "suite.yaml", "second.yaml"], "Got unexpected extra argument"),
        (["plan"], "Missing argument 'SUITE'"),
        (["pln", "suite.yaml"], "No such command 'pln'"),
        (["run", "suite.yaml", "--executor", "slurm"], "Invalid value for '--executor': "),
        (["run", "suite.yaml", "--workers", "0"], "Invalid value for '--workers': "),
        (["describe"], "Missing argument 'NAME'"),
    ],
)
def test_usage(command, beginning, refused):
    """The words after the beginning are the parser's own and change with its version."""
    assert refused(*command, suite_yaml=VALID).startswith(beginning)


PLUGINS = {
    "raises": (
        "import initbench\n\nraise ValueError('no\\nway')\n",
        "importing it raised ValueError on line 3: no",
    ),
    "raises within": (
        "def f():\n    return 1 / 0\n\nf()\n",
        "importing it raised ZeroDivisionError on line 2: division by zero",
    ),
    "without a message": ("raise KeyError\n", "importing it raised KeyError on line 1"),
    "is no Python": ("def f(:\n", "importing it raised SyntaxError: invalid syntax (plugin.py, line 1)"),
    "exits": ("import sys\nsys.exit(0)\n", "importing it raised SystemExit on line 2: 0"),
    "lacks a module": (
        "import no_such_module\n",
        "importing it raised ModuleNotFoundError on line 1: No module named 'no_such_module'",
    ),
    "takes a name": (
        "import initbench\n@initbench.register_initializer('xavier')\ndef mine():\n    pass\n",
        "initializer 'xavier' is already registered by initbench.initializers.xavier",
    ),
    "takes a family's name": (
        "import initbench\n@initbench.register_architecture('timm/mine')\ndef mine():\n    pass\n",
        "architecture 'timm/mine' is already registered by initbench.architectures.timm",
    ),
    "does not say what its dataset asks": (
        "import initbench\ninitbench.register_dataset('mine')\n",
        "dataset 'mine': declare inputs and outputs, or describe",
    ),
}


@pytest.mark.parametrize("case", PLUGINS)
@pytest.mark.parametrize("command", [["plan", "suite.yaml"], ["list"], ["describe", "kaiming"]], ids=lambda c: c[0])
def test_plugin_that_cannot_be_imported(command, case, refused):
    source, message = PLUGINS[case]
    assert (
        refused(*command, "--plugin", "plugin.py", suite_yaml=VALID, plugin_py=source)
        == f"--plugin plugin.py: {message}"
    )


def test_plugin_with_annotations_that_cannot_be_read(refused):
    source = (
        "from __future__ import annotations\nimport initbench\n"
        "@initbench.register_initializer('mine')\ndef mine(std: Size = 1.0):\n    pass\n"
    )
    message = refused(
        "plan", "suite.yaml", "--plugin", "plugin.py", suite_yaml=edited(("- kaiming", "- mine")), plugin_py=source
    )
    assert message == (
        "initializer 'mine' (plugin.py): the annotations of its arguments cannot be read: "
        "name 'Size' is not defined; import it outside `if TYPE_CHECKING`"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kaimng", "unknown name 'kaimng' (did you mean 'kaiming'?)"),
        ("gradient_nrom", "unknown name 'gradient_nrom' (did you mean 'gradient_norm'?)"),
        ("timm/resnet81", "unknown architecture 'timm/resnet81' (did you mean 'timm/resnet18'?)"),
    ],
)
def test_describe_an_unknown_name(name, message, refused):
    assert refused("describe", name) == message


@pytest.mark.parametrize("command", ["report", "sync", "ui"])
def test_a_folder_without_trials(command, refused, tmp_path):
    (tmp_path / "results").mkdir()
    assert refused(command, "results") == "results: has no trials; give a suite's folder, such as runs/quickstart"
    assert refused(command) == "which suite's folder? there is none in ./runs"


def run_within(seconds, refused, text, *options):
    """Run a suite in process and return its message, which must come soon."""
    begun = time.monotonic()
    message = refused("run", "suite.yaml", "--executor", "in-process", *options, suite_yaml=text)
    assert time.monotonic() - begun < seconds
    return message


CIFAR = edited(("digits", "cifar10"), ("depth: [10, 16]", "depth: 10"))


def test_missing_data_without_network(refused, monkeypatch, tmp_path):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, CLOSED)  # every download ends there
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "data"))
    message = run_within(20, refused, CIFAR)
    assert message.startswith("suite.yaml:2: dataset: cifar10 is missing and cannot be downloaded (")
    assert "cifar-10" in message.rpartition("):")[2]  # what to put where
    assert str(tmp_path / "data") in message.rpartition("):")[2]


def test_data_root_below_a_file(refused, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("INITBENCH_DATA", str(tmp_path / "file" / "data"))
    message = run_within(20, refused, CIFAR)
    assert message.startswith(f"suite.yaml:2: dataset: cifar10: the data root {tmp_path}/file/data cannot be written (")
    assert "set INITBENCH_DATA to a writable folder" in message


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser writes everywhere")
def test_data_root_that_is_not_writable(refused, monkeypatch, tmp_path):
    root = tmp_path / "data"
    root.mkdir(mode=0o500)
    monkeypatch.setenv("INITBENCH_DATA", str(root))
    message = run_within(20, refused, CIFAR)
    assert message.startswith(f"suite.yaml:2: dataset: cifar10: the data root {root} cannot be written (")


def test_dataset_argument_that_the_data_refuse(refused):
    message = run_within(20, refused, edited(("dataset: digits", "dataset: {name: digits, train_size: 2000}")))
    assert message == "suite.yaml:2: dataset.train_size: must be at most 1297, got 2000"


def test_tracking_uri_of_an_unknown_kind(refused):
    message = run_within(20, refused, VALID, "--tracking-uri", "ftp://host")
    assert message.startswith("tracking URI ftp://host: unknown scheme 'ftp'; use sqlite:///PATH, http://HOST:PORT")


def test_address_without_ray(refused):
    message = run_within(20, refused, VALID, "--address", "auto")
    assert message == "--address is for --executor ray"

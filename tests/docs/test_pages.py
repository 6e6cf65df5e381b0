"""Every page of the documentation does what it says: all of it is run here, but for what the two tables below name."""

import doctest
import os
import re
import subprocess

import pytest
from environments import virtual_environment
from pages import DOCS, PAGES, ROOT, blocks, commands
from plugin_options import OPTIONS

# Lines that a page's own test leaves out → the file that runs them, and what stands in it.
ELSEWHERE = {
    "python -m venv .venv": (".ci/run", 'python3 -m venv "$environment"'),
    ". .venv/bin/activate": (".ci/run", '. "$environment/bin/activate"'),
    "pip install -e '.[suite]'": (".ci/run", "pip install -q -e '.[dev,docs,test]'"),
    "initbench ui runs/depth": ("tests/tracking/test_ui.py", '"-m", "initbench", "ui"'),
}
# Pages that are not run here → the languages of all their blocks, and why.
EXCEPTIONS = {
    "benchmarks.md": (["", ""], "it takes an idle machine; tests/benchmarks runs each benchmark at a tiny size"),
    "claims.md": ([], "there is no block; tests/docs/test_claims_page.py makes the page anew"),
    "design.md": (["", "", "yaml"], "two diagrams, and one line of a suite"),
    "how_to/run_on_a_ray_cluster.md": (["yaml", "python", *["sh"] * 5], "test_ray_cluster.py runs it on two hosts"),
    "glossary.md": ([], "there is no block"),
    "index.md": ([], "there is no block"),
    "initializers_on_gpt.md": ([], "there is no block; tests/initializers/test_on_gpt.py asserts it"),
    "initializers_on_models.md": (["", "python"], "minutes of models; tests/docs/test_initializers_on_models.py"),
    "reading-a-report.md": (["", "", "", "python"], "its runs take 20 minutes; tests/reporting run such commands"),
    "reference.md": ([], "there is no block"),
    "results/cifar_depth.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/digits_initializers.md": ([""] * 2, "it takes too long; CI smoke-runs the suite"),
    "results/digits_normalization.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/fair_digits.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/gpt_defaults.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/images_and_text.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/language_modelling.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/gradinit_appendix_c.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/gradinit_postnorm.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/gradinit_postnorm_multi30k.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/gradinit_postnorm_bleu.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/completep_transfer.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/metainit_correlation.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/mup_transfer.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "results/papers/metainit_figure3.md": ([""] * 2, "it takes too long; CI smoke-runs the suite"),
    "results/quickstart.md": ([""], "CI runs it by itself"),
    "results/fashion_depth.md": ([""], "it takes too long; CI smoke-runs the suite"),
    "transformer_initializers.md": ([""], "tests/docs/test_transformer_initializers.py makes its table anew"),
    "statistics.md": ([""], "a minute of simulations, which are slow tests themselves"),
}
PROMPT = "end of block"


@pytest.fixture
def environment(tmp_path):
    """The variables of a shell whose `python`, `pip`, `pytest` and `initbench` are those of a new environment."""
    python = virtual_environment(tmp_path / "environment")
    for module in ("initbench", "pip", "pytest"):
        script = python.parent / module
        script.write_text(f'#!/bin/sh\nexec "{python}" -m {module} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("INITBENCH_", "MLFLOW_"))}
    return variables | {
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTEST_ADDOPTS": " ".join(OPTIONS),
        # `pip install -e ./package` as it stands, without a download: all that it needs is in the environment.
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say --no-build-isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def name(page):
    return page.relative_to(DOCS).as_posix()


def here(text):
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() not in ELSEWHERE)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="the pages' commands are a POSIX shell's")
@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in EXCEPTIONS], ids=name)
def test_a_page_does_what_it_says(page, environment, tmp_path):
    folder = tmp_path / "reader"
    folder.mkdir()
    script, expected = ["set -eu"], []
    for number, block in enumerate(blocks(page)):
        if block.title is not None:
            source = tmp_path / f"{number}-{block.title}"
            source.write_text(block.text, encoding="utf-8")
            script.append(f"cp '{source}' '{block.title}'")
        elif block.language == "sh":
            script += [here(block.text), f"echo '{PROMPT}'"]
            expected.append(None)
        elif block.language == "text":
            assert expected[-1] is None, "two outputs of one block"
            expected[-1] = block.text
    done = subprocess.run(
        ["sh", "-c", "\n".join(script)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout.split(f"{PROMPT}\n")[:-1]
    assert len(printed) == len(expected)
    checker = doctest.OutputChecker()
    for got, want in zip(printed, expected, strict=True):
        assert want is None or checker.check_output(want, got, doctest.ELLIPSIS), f"{want}\nis not\n{got}"


def test_what_is_run_elsewhere_is_on_a_page_and_run_there():
    said = {line for page in PAGES for line in commands(page)}
    for command, (place, there) in ELSEWHERE.items():
        assert command in said
        lines = (ROOT / place).read_text("utf-8").splitlines()
        assert any(there in line for line in lines if not line.lstrip().startswith("#")), f"{place} lacks {command!r}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_read(page):
    """One that is indented, or that has options, would be skipped."""
    fences = [line for line in page.read_text("utf-8").splitlines() if line.lstrip().startswith(("```", "~~~"))]
    assert len(fences) == 2 * len(blocks(page)), fences


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in EXCEPTIONS], ids=name)
def test_every_file_that_a_page_shows_has_a_name_and_every_command_is_run(page):
    """A block without a title, or in a language that is not read, would be an example that nothing checks."""
    assert commands(page), "nothing is run"
    for block in blocks(page):
        named = block.title is not None
        assert named == (block.language in {"yaml", "python"}), block.text
        assert named or block.language in {"sh", "text"}, block.text


@pytest.mark.parametrize("page", EXCEPTIONS)
def test_a_page_that_is_not_run_has_no_block_but_what_excepts_it(page):
    languages, why = EXCEPTIONS[page]
    assert [block.language for block in blocks(DOCS / page)] == languages, f"{page} is not run because {why}"


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_of_the_repositorys_pages(file):
    """Those of docs/ are checked by `mkdocs build --strict`, which does not read these."""
    links = re.findall(r"\]\(([^)#]+)", (ROOT / file).read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


def test_a_page_of_results_is_made_from_a_suite_that_ci_smoke_runs():
    """The runs themselves take minutes to hours."""
    pages = sorted((DOCS / "results").glob("*.md"))
    assert pages
    for page in pages:
        texts = [block.text.replace("\\\n", " ") for block in blocks(page) if block.language == ""]
        (run, report), *others = map(str.splitlines, texts)
        # A suite that is cut down is cut down by --set alone.
        suite, *changes = re.split(r" +--set +", run.removeprefix("initbench run "))
        assert all("=" in change and " --" not in change for change in changes)
        assert (ROOT / suite).parent == ROOT / "suites"
        assert (ROOT / suite).is_file()
        folder = f"runs/{page.stem.replace('_', '-')}"
        assert report == f"initbench report {folder} --format md --out docs/results/{page.name}"
        # What else a page speaks of are parts of the same suite, in folders of their own.
        assert all(line.startswith(f"{run} --only ") and " --out runs/" in line for lines in others for line in lines)


def test_a_page_of_a_twin_is_made_from_it_and_stands_beside_its_ledger():
    pages = sorted((DOCS / "results" / "papers").glob("*.md"))
    assert pages
    for page in pages:
        assert page.with_suffix(".tar.xz").exists()
        run, report = next(block.text for block in blocks(page) if block.language == "").splitlines()
        assert run == f"initbench run suites/papers/twins/{page.stem}.yaml"
        assert (ROOT / run.removeprefix("initbench run ")).is_file()
        folder = f"runs/{page.stem.replace('_', '-')}-twin"
        assert report == f"initbench report {folder} --format md --out docs/results/papers/{page.name}"

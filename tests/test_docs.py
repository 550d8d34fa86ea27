"""Documentation is part of the build: README blocks run, the reference is the code's, numbers come from results."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import zygote
from tests.conftest import picture

ROOT = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/tutorial.md",
    "docs/howto.md",
    "docs/runtime.md",
    "docs/trust.md",
    "docs/report.md",
    "docs/federated.md",
    "docs/serve.md",
]
if os.environ.get("ALL_PAGES") == "1":  # 'make test-docs': their commands have tests of their own
    PAGES += ["docs/export.md", "docs/orbit.md"]


def blocks(file: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / file).read_text(), re.S)


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    for c, name in enumerate(("cup", "keys", "plant")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        (tmp_path / "more" / name).mkdir(parents=True)
        for i in range(5):
            picture(c, 10 * c + i).save(tmp_path / "photos" / name / f"{i}.jpg")
            picture(c, 100 + 10 * c + i).save(tmp_path / "more" / name / f"{i}.jpg")
    picture(1, 999).save(tmp_path / "new.jpg")
    return tmp_path


@pytest.fixture(scope="module")
def commands(tmp_path_factory) -> Iterator[Path]:
    """A folder with ``fit`` and ``python`` that begin at once (tests/zygote.py)."""
    place = tmp_path_factory.mktemp("z")
    process = zygote.start(place / "door")
    zygote.install(place / "bin", place / "door")
    yield place / "bin"
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def environment(commands: Path | None = None) -> dict[str, str]:
    places = [*([str(commands)] if commands else []), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.environ | {"PATH": os.pathsep.join(places)}


@pytest.mark.process(seconds=50)
@pytest.mark.parametrize("file", PAGES)
def test_every_block_runs(file, workplace, commands):
    """In order, in one folder with photos/; make's own blocks are what runs this test.

    README's and the service's are run as they are, with a Python of their own each; the others' share one that has imported all.
    """
    text = (ROOT / file).read_text()
    found = re.findall(r"```(bash|python)\n(.*?)```", text, re.S)
    assert found, file
    around = environment(None if file in ("README.md", "docs/serve.md") else commands)
    for language, code in found:
        if code.lstrip().startswith("make "):
            continue
        words = ["bash", "-euo", "pipefail", "-c", code] if language == "bash" else ["python", "-c", code]
        done = subprocess.run(
            ["env", *words], cwd=workplace, env=around, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{file}:\n{code}\n{done.stderr}"


def test_the_readme_opens_with_the_two_commands():
    first = blocks("README.md", "bash")[0].split("\n")
    assert first[0].startswith("make demo")
    assert first[1].startswith("make test")


def test_the_reference_is_the_codes_own():
    from scripts.make_reference import TARGET, reference

    assert TARGET.read_text() == reference(), "run 'make docs'"


def test_the_reference_lists_each_method_once():
    from scripts.make_reference import reference

    for part in re.split(r"^### ", reference(), flags=re.M):
        methods = re.findall(r"^- `(\w+)\(", part, re.M)
        assert len(methods) == len(set(methods)), part.splitlines()[0]


def test_a_method_without_a_docstring_has_that_of_the_method_it_overrides():
    from scripts.make_reference import reference

    part = reference().partition("### filmtransfer.heads.LDA\n")[2].partition("\n### ")[0]
    assert "\n- `updateable(cls, classes: 'int', features: 'int') -> 'int'`: " in part


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("README.md", "accuracy"),
        ("README.md", "engine_targets"),
        ("docs/presets.md", "splits"),
        ("docs/performance.md", "engine"),
        ("docs/performance.md", "film_from"),
        ("docs/runtime.md", "startup"),
        ("docs/trust.md", "trust"),
        ("docs/scale.md", "serving"),
        ("docs/scale.md", "serving_million"),
        ("docs/export.md", "export"),
        ("docs/orbit.md", "cnaps"),
        ("docs/orbit.md", "orbit_sample/table"),
        ("docs/benchmarks.md", "observations"),
        ("docs/benchmarks.md", "few_shot_small/table"),
        ("docs/benchmarks.md", "few_shot_small/table_2"),
        ("docs/benchmarks.md", "splits_small/table"),
        ("docs/federated.md", "federated_cifar10_small/table"),
        ("docs/federated.md", "federated_quickdraw_small/table"),
        ("docs/federated.md", "federated_ways_small/table"),
        ("docs/federated.md", "federated_ways_small/table_2"),
    ],
)
def test_measured_tables_are_the_committed_results(page, name):
    result = (ROOT / f"benchmarks/results/{name}.md").read_text()
    assert "\n|" in "\n" + result
    assert f"<!-- {name} -->\n{result}<!-- /{name} -->" in (ROOT / page).read_text(), "run 'make docs'"


@pytest.mark.process
def test_no_path_of_one_machine_is_committed():
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split("\n")
    pattern = re.compile(r"(^|[^\w.])/(work|home|root)/\w")
    for name in filter(None, listed):
        file = ROOT / name
        if file.suffix in (".py", ".md", ".toml", ".json", ".txt", "") and file.is_file():
            hits = [line for line in file.read_text(errors="ignore").splitlines() if pattern.search(line)]
            assert not hits, f"{name}: {hits[0]}"

"""``fit bench`` as a user types it: one clear line for each mistake, and the rest of the sweep goes on."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from filmtransfer.bench.datasets import DATASETS
from filmtransfer.bench.recipe import recipe_names
from filmtransfer.cli import main
from tests.bench.tiny import RECIPE, HereWorkers, make_recipe, make_set


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


@pytest.fixture
def root(tmp_path) -> Path:
    return make_set(tmp_path / "data")


@pytest.fixture
def recipe(tmp_path) -> Path:
    """Two runs: one shot, two seeds, nothing learned."""
    text = RECIPE.replace("[1, 2]", "[2]").replace('["Frozen-LDA", "FiT-LDA"]', '["Frozen-LDA"]')
    return make_recipe(tmp_path, text)


@pytest.fixture
def here(monkeypatch) -> list[HereWorkers]:
    """Runs are computed in this process; real workers have their own tests."""
    made: list[HereWorkers] = []

    def make(slots: int, root: Path, threads: int | None) -> HereWorkers:
        del slots, threads
        made.append(HereWorkers(root))
        return made[-1]

    monkeypatch.setattr("filmtransfer.bench.workers.LocalWorkers", make)
    return made


@pytest.fixture
def arguments(recipe, root, tmp_path) -> list[str]:
    return ["run", str(recipe), "--data-root", str(root), "--out", str(tmp_path / "out")]


# Data and recipes.


def test_data_says_what_is_present_and_what_is_missing(tmp_path, capsys):
    root = make_set(tmp_path, "cifar10")
    code, out, _ = run(capsys, "data", "--data-root", str(root))
    assert code == 0
    assert f"1 of {len(DATASETS)} datasets are present" in out
    assert re.search(r"^cifar10 +10  yes *$", out, re.MULTILINE)
    assert re.search(r"^svhn +10  no *$", out, re.MULTILINE)
    assert re.search(r"^cifar10: npz: .*cifar10\.npz$", out, re.MULTILINE)
    assert re.search(r"^svhn: Download .*http.* and put .*$", out, re.MULTILINE)
    assert max(len(line) - len(line.rstrip()) for line in out.splitlines()) < 10, "no padding"

    code, out, _ = run(capsys, "data", "--data-root", str(root), "--json")
    assert code == 0
    document = {row["name"]: row for row in json.loads(out)["sets"]}
    assert document.keys() == DATASETS.keys()
    assert [name for name, row in document.items() if row["present"]] == ["cifar10"]
    assert all(row["source"] or row["why_missing"] for row in document.values())


def test_data_lists_what_to_get_also_without_a_folder(tmp_path, capsys):
    """'fit bench run' sends a user without a data folder to this command."""
    missing = tmp_path / "none"
    code, out, err = run(capsys, "data", "--data-root", str(missing))
    assert code == 0
    assert re.search(r"^svhn: Download .*http.* and put ", out, re.MULTILINE)
    assert f"0 of {len(DATASETS)} datasets are present in {missing}." in out
    assert f"There is no folder {missing} yet. Create it" in err.replace("\n", " ")
    assert not missing.exists()


def test_a_set_that_cannot_be_fetched(root, capsys):
    code, _, err = run(capsys, "data", "--data-root", str(root), "--fetch", "mnist9")
    assert code == 2
    assert "cifar10" in err


@pytest.mark.slow
def test_recipes_are_listed(capsys):
    code, out, _ = run(capsys, "recipes")
    assert code == 0
    for name in recipe_names():
        assert re.search(rf"^{name} +\d+ ", out, re.MULTILINE)
    code, out, _ = run(capsys, "recipes", "--json")
    document = json.loads(out)["recipes"]
    assert [row["name"] for row in document] == recipe_names()
    assert all(row["runs"] > 0 for row in document)


# Runs.


def test_a_run_writes_everything_and_does_not_repeat_itself(arguments, here, capsys, tmp_path):
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    assert "| drawings | 2 |" in out
    assert "[2/2] drawings 2 shots Frozen-LDA seed 1: " in err
    folder = tmp_path / "out"
    for name in ("results.jsonl", "table.md", "table.csv", "table.tex", "shots.png", "index.html"):
        assert (folder / name).stat().st_size > 0
        assert name in out or name == "results.jsonl"
    first = (folder / "results.jsonl").read_bytes()
    table = (folder / "table.md").read_bytes()
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0
    document = json.loads(out)
    assert (document["recipe"], document["runs"], document["done"], document["failures"]) == (
        "tiny",
        2,
        2,
        {},
    )
    assert [json.loads(line) for line in first.splitlines()] == document["rows"]
    assert len(here) == 1, "the second time there was nothing to do"
    assert (folder / "results.jsonl").read_bytes() == first

    (folder / "table.md").unlink()
    code, out, _ = run(capsys, "report", arguments[1], "--out", str(folder))
    assert code == 0
    assert (folder / "table.md").read_bytes() == table
    assert "| drawings | 2 |" in out


def test_settings_of_the_command_line(arguments, here, root, capsys):
    make_set(root, "more")
    code, out, _ = run(
        capsys, *arguments, "--set", "shots=1", "--set", "backbone=efficientnet_lite0", "--dataset", "more",
        "--method", "Linear-None", "--seeds", "1", "--json",
    )  # fmt: skip
    assert code == 0
    (row,) = json.loads(out)["rows"]
    chosen = row["settings"]
    assert (chosen["dataset"], chosen["method"], chosen["shots"], chosen["seed"]) == (
        "more",
        "Linear-None",
        1,
        0,
    )
    assert len(here) == 1


@pytest.mark.slow
def test_a_missing_dataset_does_not_stop_the_others(arguments, here, capsys, tmp_path):
    code, out, err = run(capsys, *arguments, "--dataset", "cifar100", "--dataset", "drawings")
    assert code == 3
    assert "| drawings | 2 |" in out
    assert err.count("2 runs failed") == 1
    assert re.search(r"2 runs failed \(cifar100 2 shots .*, …\): CIFAR100 is not in .* put it in", err)
    assert sum(len(workers.started) for workers in here) == 4, "a missing set is not tried again"
    assert "CIFAR100 is not in" in (tmp_path / "out" / "index.html").read_text()
    code, out, _ = run(capsys, *arguments, "--dataset", "cifar100", "--dataset", "drawings", "--json")
    assert code == 3
    document = json.loads(out)
    assert (document["runs"], document["done"], len(document["failures"])) == (4, 2, 2)
    # When it is there, nothing but the missing runs is made.
    make_set(tmp_path / "data", "cifar100")
    code, _, err = run(capsys, *arguments, "--dataset", "cifar100", "--dataset", "drawings")
    assert code == 0, err
    assert "failed" not in err
    assert len(here[-1].started) == 2


def test_only_failures(arguments, here, capsys, tmp_path):
    code, out, err = run(capsys, *arguments, "--dataset", "cifar100")
    assert code == 3
    assert "2 runs failed" in err
    assert "Wrote" not in out
    assert len(here) == 1
    code, _, err = run(capsys, "report", arguments[1], "--out", str(tmp_path / "out"))
    assert code == 3
    assert "has no results of tiny" in err


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "text", "keys"])
def test_a_damaged_archive_does_not_stop_the_others(arguments, here, root, capsys, damage):
    make_set(root, "broken")
    file = root / "broken.npz"
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:2000])
    elif damage == "text":
        file.write_text("not an archive")
    else:
        np.savez(file, train_x=np.zeros((2, 8, 8), np.uint8))
    code, out, err = run(capsys, *arguments, "--dataset", "broken", "--dataset", "drawings")
    assert code == 3
    assert re.search(r"2 runs failed \(broken 2 shots.*broken\.npz", err)
    assert "| drawings | 2 |" in out
    assert len(here[0].started) == 4


def test_fewer_images_than_shots(arguments, here, capsys):
    code, out, err = run(capsys, *arguments, "--set", "shots=[2, 9]")
    assert code == 3
    assert re.search(r"drawings has 4 training images of \w+, but 9 shots are required", err)
    assert "| drawings | 2 |" in out
    assert here


@pytest.mark.slow
def test_results_of_another_version_are_kept(arguments, here, capsys, tmp_path):
    old = '{"version": 0, "key": "abc", "accuracy": 12}\n' * 2 + "what is this\n"
    (tmp_path / "out").mkdir()
    file = tmp_path / "out" / "results.jsonl"
    file.write_text(old)
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    assert "2 lines of" in err
    assert "another version of the format: kept, not counted" in err
    assert "1 line of" in err
    assert "cannot be read: kept, not counted" in err
    assert file.read_text().startswith(old)
    assert len(file.read_text().splitlines()) == 5
    assert "| drawings | 2 |" in out
    code, _, err = run(capsys, "report", arguments[1], "--out", str(tmp_path / "out"))
    assert code == 0
    assert "another version" in err
    assert here


def test_a_report_of_results_with_other_settings_names_them(arguments, here, capsys, tmp_path):
    chosen = ["--seeds", "1", "--set", "shots=1", "--set", "max_query=7"]
    code, _, err = run(capsys, *arguments, *chosen)
    assert code == 0, err
    report = ["report", arguments[1], "--out", str(tmp_path / "out")]
    code, _, err = run(capsys, *report)
    assert code == 3
    err = err.replace("\n", " ")
    assert "has no results of tiny with these settings; one result of this recipe has other settings." in err
    assert "Repeat the --set options they were computed with: --set max_query=7 --set shots=1" in err
    code, out, err = run(capsys, *report, "--set", "shots=1", "--set", "max_query=7")
    assert code == 0, err
    assert "| drawings | 1 |" in out
    assert "1 of 2 runs has no result yet" in err.replace("\n", " ")
    assert here


def test_the_first_run_is_named_before_it_is_computed(arguments, here, capsys, monkeypatch):
    shown: list[str] = []

    def next_run(_: HereWorkers) -> None:
        shown.append(capsys.readouterr().err)
        raise KeyboardInterrupt

    monkeypatch.setattr(HereWorkers, "next", next_run)
    assert main(["bench", *arguments]) == 130
    loading, *computing = shown[0].splitlines()
    assert loading == "Loading efficientnet_lite0 …"
    assert computing == [f"Computing drawings 2 shots Frozen-LDA seed {seed} …" for seed in (0, 1)]
    assert here


def test_names_are_not_markup(arguments, here, capsys):
    code, _, err = run(capsys, *arguments, "--dataset", "[red]x")
    assert code == 3
    assert "[red]x 2 shots" in err
    assert here


def mistakes(root: Path, recipe: Path, tmp: Path) -> dict[str, tuple[list[str], int, str]]:
    (tmp / "taken").write_text("a file")
    bad = tmp / "bad.toml"
    bad.write_text(RECIPE.replace("[settings]", "[settings]\nspeed = 9"))
    data, out = ["--data-root", str(root)], ["--out", str(tmp / "x")]
    start = ["run", str(recipe), *data, *out]
    return {
        "set without value": ([*start, "--set", "shots"], 2, "--set shots has no value"),
        "set unknown": ([*start, "--set", "speed=9"], 2, "A setting cannot be 'speed'"),
        "set nothing": ([*start, "--set", "=9"], 2, "A setting cannot be ''"),
        "set an empty list": ([*start, "--set", "shots=[]"], 2, "shots has no value"),
        "report set unknown": (["report", str(recipe), "--set", "speed=9"], 2, "A setting cannot be 'speed'"),
        "unknown method": ([*start, "--method", "BYT"], 2, "method cannot be 'BYT'"),
        "no seeds": ([*start, "--seeds", "0"], 2, "seeds cannot be 0"),
        "no workers": ([*start, "--workers", "0"], 2, "workers cannot be 0"),
        "no threads": ([*start, "--threads", "0"], 2, "threads cannot be 0"),
        "unknown recipe": (["run", "fewshot", *data, *out], 2, "few_shot_small"),
        "no recipe file": (["run", str(tmp / "no.toml"), *data, *out], 3, "There is no recipe file"),
        "unknown key": (["run", str(bad), *data, *out], 2, "unknown key 'speed'"),
        "data in a file": (["data", "--data-root", str(tmp / "taken")], 3, "There is no data folder"),
        "set steps to text": ([*start, "--set", "steps=x"], 2, "steps cannot be 'x'"),
        "set shots to text": ([*start, "--set", "shots=few"], 2, "shots cannot be 'few'"),
        "set an unknown prior": ([*start, "--set", "prior=x"], 2, "prior cannot be 'x'"),
        "set an unknown device": ([*start, "--set", "device=toaster"], 2, "device cannot be 'toaster'"),
        "no data": (["run", str(recipe), "--data-root", str(tmp / "no"), *out], 3, "There is no data folder"),
        "out is a file": (["run", str(recipe), *data, "--out", str(tmp / "taken")], 3, "cannot be written"),
        "nothing to report": (["report", str(recipe), *out], 3, "has no results of tiny"),
        "no cluster": ([*start, "--ray", "127.0.0.1:1"], 5, "There is no Ray cluster at 127.0.0.1:1"),
        "no recipe": (["run"], 2, "Missing argument"),
    }


@pytest.mark.process  # importing ray starts one
def test_every_error_has_its_message_and_exit_code(recipe, root, tmp_path, capsys):
    for name, (arguments, code, says) in mistakes(root, recipe, tmp_path).items():
        got, out, err = run(capsys, *arguments)
        assert got == code, f"{name}: exit {got}, {err}"
        assert says in err, f"{name}: {err}"
        assert out == "", name
        got, out, _ = run(capsys, *arguments, "--json")
        assert json.loads(out)["error"]["exit_code"] == got == code, name
    assert not (tmp_path / "x" / "table.md").exists()


def test_settings_are_read_as_toml_or_as_text(arguments, here, capsys):
    code, out, err = run(
        capsys, *arguments, "--seeds", "1", "--set", "max_query=7", "--set", "split=no_split",
        "--set", 'head_options={covariance = "pooled"}', "--json",
    )  # fmt: skip
    assert code == 0, err
    (row,) = json.loads(out)["rows"]
    wanted = {"max_query": 7, "split": "no_split", "head_options": {"covariance": "pooled"}}
    assert wanted.items() <= row["settings"].items()
    assert len(here[0].started) == 1


def test_a_progress_bar_in_a_terminal(arguments, here, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    code, _, err = run(capsys, *arguments)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", err)
    assert code == 0
    assert re.search(r"━ 0/2 0\.0%: drawings 2 shots Frozen-LDA seed 0", shown)
    assert re.search(r"━ 1/2 50\.0%, about \d+ s left", shown)
    assert "Computing" not in shown, "the bar says it"
    assert re.search(r"\[1/2, about \d+ s left\] drawings 2 shots Frozen-LDA seed 0: \d+\.\d%", shown)
    assert here

"""``fit bench orbit`` and ``fit bench cnaps`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.cli import main
from tests.bench.tiny import HereWorkers, make_set


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    code = main(["bench", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


@pytest.fixture
def here(monkeypatch) -> list[HereWorkers]:
    made: list[HereWorkers] = []

    def make(slots: int, root: Path, threads: int | None) -> HereWorkers:
        del slots, threads
        made.append(HereWorkers(root))
        return made[-1]

    monkeypatch.setattr("filmtransfer.bench.workers.LocalWorkers", make)
    return made


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("orbit")
    OrbitSample(users=2, objects=2, clean=2, clutter=1, frames=4, size=32).write(folder)
    return OrbitSample(users=1, objects=2, clean=2, clutter=1, frames=4, size=32, mode="train").write(folder)


SMALL = ("--set", "image_size=32", "--set", "clip_length=2", "--set", "steps=1")


@pytest.mark.slow
def test_meta_training_then_the_table_then_more_users(root, tmp_path, capsys, here):
    data = make_set(tmp_path / "data", classes=5, train=4)
    file = str(tmp_path / "c.safetensors")
    code, out, _ = run(
        capsys, "cnaps", "train", "--data-root", str(data), "--dataset", "drawings", "--orbit", str(root),
        "--image-size", "32", "--steps", "2", "--support-size", "4", "--max-query", "6", "--test-tasks", "2",
        "--out", file, "--json",
    )  # fmt: skip
    assert code == 0
    document = json.loads(out)
    assert document["sources"] == ["drawings", "P001"]
    assert document["held_out"][0]["classes"] == 2
    assert Path(file).stat().st_size == document["bytes"]

    arguments = [
        "orbit",
        "--data-root",
        str(root),
        "--tasks",
        "1",
        "--cnaps",
        file,
        "--out",
        str(tmp_path / "out"),
    ]
    code, out, err = run(capsys, *arguments, *SMALL, "--users", "1", "--methods", "cnaps,fit-lda")
    assert code == 0
    assert "| FiT-LDA | (d + 1)C + \\|ψ\\| |" in out
    assert "Simple CNAPs, published on ORBIT with EfficientNet-B0-MD" in out
    assert "P001 task 0 clutter FiT-LDA" in err
    assert len(here[-1].started) == 4

    code, out, _ = run(capsys, *arguments, *SMALL, "--methods", "cnaps,fit-lda", "--json")
    assert code == 0
    assert len(here[-1].started) == 4  # P002's; those of P001 are on file
    document = json.loads(out)
    assert (document["runs"], document["done"], document["failures"]) == (8, 8, {})
    assert {Path(file).name for file in document["files"]} == {
        f"{name}.{suffix}" for name in ("table", "users") for suffix in ("md", "csv", "tex")
    }


def test_own_videos(tmp_path, capsys, here):
    plain = OrbitSample(users=1, objects=2, clean=2, clutter=1, frames=4, size=32).write(
        tmp_path / "mine", as_videos=True
    )
    code, out, _ = run(
        capsys, "orbit", "--data-root", str(plain), "--methods", "protonets", "--tasks", "1", "--rate", "4",
        *SMALL, "--out", str(tmp_path / "out"),
    )  # fmt: skip
    assert code == 0
    assert "| clutter | frame | P001 |" in out
    assert len(here) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["orbit", "--data-root", "nowhere"], 3, "There is no folder nowhere"),
        (["orbit", "--data-root", "{root}/test/P001"], 3, "has no users of ORBIT"),
        (["orbit", "--data-root", "{root}", "--methods", "magic"], 2, "cannot be 'magic'"),
        (["orbit", "--data-root", "{root}", "--methods", ","], 2, "No method was named"),
        (["orbit", "--data-root", "{root}", "--methods", "cnaps"], 2, "has not been trained"),
        (
            ["orbit", "--data-root", "{root}", "--methods", "cnaps", "--cnaps", "{root}/x"],
            4,
            "cannot be read",
        ),
        (["orbit", "--data-root", "{root}", "--set", "colour=red"], 2, "cannot be 'colour'"),
        (["orbit", "--data-root", "{root}", "--set", "steps=-1"], 2, "steps cannot be -1"),
        (["orbit", "--data-root", "{root}", "--set", "clip_length=0"], 2, "clip_length cannot be 0"),
        (["orbit", "--data-root", "{root}", "--users", "0"], 2, "users cannot be 0"),
        (["orbit", "--data-root", "{root}", "--mode", "holiday"], 2, "The part of ORBIT cannot be 'holiday'"),
        (["orbit", "--data-root", "{root}", "--backbone", "efficientnet_b0"], 5, "efficientnet_b0"),
        (["cnaps", "train", "--out", "{tmp}/c"], 3, "nothing to meta-train on"),
        (["cnaps", "train", "--out", "{tmp}/no/c"], 3, "There is no folder"),
        (["cnaps", "train", "--out", "{tmp}/c", "--dataset", "x", "--steps", "0"], 2, "steps cannot be 0"),
        (
            ["cnaps", "train", "--out", "{tmp}/c", "--dataset", "x", "--held-out", "2"],
            2,
            "held-out cannot be 2",
        ),
    ],
)
def test_errors_are_one_clear_message(arguments, code, message, root, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    filled = [argument.replace("{root}", str(root)).replace("{tmp}", str(tmp_path)) for argument in arguments]
    exit_code, _, err = run(capsys, *filled)
    assert (exit_code, message in err) == (code, True), err


def test_a_run_that_fails_does_not_end_the_others(root, tmp_path, capsys, here):
    import shutil

    broken = shutil.copytree(root, tmp_path / "orbit")
    for frame in broken.glob("test/P001/*/clutter/*/*.jpg"):
        frame.write_bytes(b"torn")
    arguments = ["orbit", "--data-root", str(broken), "--methods", "protonets", "--tasks", "1", *SMALL]
    code, out, err = run(capsys, *arguments, "--out", str(tmp_path / "out"))
    assert code == 3
    assert "1 run failed (P001 task 0 clutter ProtoNets): P001: no query video" in err
    assert "| clutter | frame | P002 |" in out
    assert len(here) == 1

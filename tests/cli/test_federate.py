"""``fit federate simulate`` as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from filmtransfer.cli import main
from filmtransfer.cli.federate_deploy import clients_of_round
from filmtransfer.errors import InputError
from filmtransfer.estimator import FewShotClassifier
from filmtransfer.federated.plan import named_plan
from tests.bench.tiny import wait_until

SMALL = [
    "federate", "simulate", "--clients", "4", "--ways", "3", "--shots", "3", "--clients-per-round", "3", "--rounds", "3",
    "--test-images", "60", "--set", "image_size=32", "--set", "film_from=5", "--set", "steps=2",
]  # fmt: skip


@pytest.mark.slow
def test_a_federation_from_beginning_to_end(tmp_path, capsys):
    out = tmp_path / "out"
    assert main([*SMALL, "--out", str(out), "--bounds", "1", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert [line["round"] for line in document["rounds"]] == [0, 1, 2, 3]
    assert "Round 3 of 3: 3 clients" in captured.err
    assert document["lower"]["accuracy"] > 0
    assert document["upper"]["personalized"] > 0
    assert json.loads((out / "summary.json").read_text())["updateable"] == document["updateable"]
    assert len((out / "rounds.jsonl").read_text().splitlines()) == 4
    assert (out / "communication.png").read_bytes().startswith(b"\x89PNG")
    loaded = FewShotClassifier.load(out / "global.safetensors")
    assert len(loaded.classes_) == 12
    assert main([*SMALL, "--out", str(out)]) == 0  # nothing is left to do, and the result is printed again
    assert "after 3 rounds" in capsys.readouterr().out


@pytest.mark.process(seconds=10)
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_killed_at_a_random_moment_it_ends_with_the_same_bits(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    arguments = [*SMALL, "--rounds", "4", "--compression", "int8"]
    assert main([*arguments, "--out", str(whole)]) == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "filmtransfer", *arguments, "--out", str(killed)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    lines = killed / "rounds.jsonl"
    wait_until(
        lambda: process.poll() is not None or (lines.exists() and len(lines.read_text().splitlines()) > 2)
    )
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert main([*arguments, "--out", str(killed)]) == 0
    one, other = (np.load(folder / "checkpoint.npz")["psi"] for folder in (whole, killed))
    assert np.array_equal(one, other)
    assert lines.read_text() == (whole / "rounds.jsonl").read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--head", "qda"], 2, "The head cannot be 'qda'"),
        (["--algorithm", "krum", "--secure"], 2, "which secure aggregation hides"),
        (["--clients-per-round", "9"], 2, "A round of 9 clients is not possible with 4"),
        (["--ways", "2"], 2, "do not cover all 12 classes"),
        (["--shots", "41"], 3, "There are 40 images of airplane"),
        (["--dataset", "nothing", "--data-root", "/nowhere"], 3, "There is no"),
        (["--folders", "/nowhere"], 3, "There is no"),
        (["--engine", "warp"], 2, "The engine cannot be 'warp'"),
        (["--set", "steps"], 2, "has no value"),
        (["--set", "speed=3"], 2, "A setting cannot be 'speed'"),
        (["--epsilon", "1", "--set", "privacy=3"], 2, "privacy cannot be 3"),
        (["--epsilon", "-1"], 2, "epsilon cannot be -1.0."),
        (["--epsilon", "0.001"], 2, "allows no round"),
        (["--bounds", "-1"], 2, "bounds cannot be -1."),
        (["--clients", "0"], 2, "clients cannot be 0. It is a whole number of at least 1."),
        (["--test-images", "-3"], 2, "test_images cannot be -3."),
        (["--set", "assess=no"], 2, "assess cannot be 'no'. It is true or false."),
        (["--set", "privacy={epsilon=0}"], 2, "epsilon cannot be 0."),
        (["--set", "seed=abc"], 2, "seed cannot be 'abc'."),
        (["--preset", "huge"], 2, "The preset cannot be 'huge'"),
        (["--backbone", "nothing"], 2, "nothing"),
    ],
)  # fmt: skip
def test_every_error_has_a_message_and_an_exit_code(arguments, code, message, tmp_path, capsys):
    assert main([*SMALL, "--out", str(tmp_path / "out"), *arguments]) == code
    output = capsys.readouterr().err
    assert message in " ".join(output.split())
    assert "Traceback" not in output


@pytest.mark.process(seconds=5)
def test_a_wrong_plan_is_refused_before_flower_and_torch_are_imported(tmp_path):
    """Also a privacy budget that allows no round: the number of clients is known."""
    wrong = (["--set", "assess=False"], ["--clients", "0"], ["--bounds", "-1"], ["--epsilon", "0.001"])
    code = f"""
import sys
from filmtransfer.cli import main
for arguments in {wrong!r}:
    assert main([*{[*SMALL, "--out", str(tmp_path / "out")]!r}, *arguments]) == 2
assert not {{"torch", "flwr"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert not (tmp_path / "out").exists()


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Return the function that returns what a command line would simulate."""

    received = []

    def simulated(config, plan, *_, **__):
        received[:] = config, plan
        raise InputError("enough")

    monkeypatch.setattr("filmtransfer.federated.simulation.simulate", simulated)

    def run(*arguments):
        assert main(["federate", "simulate", "--out", str(tmp_path / "out"), *arguments]) == 3
        return tuple(received)

    return run


CHOICES = [
    ("rounds", "--rounds", 7, 8),
    ("head", "--head", "lda", "cosine"),
    ("algorithm", "--algorithm", "median", "krum"),
    ("compression", "--compression", "int8", "float16"),
    ("clients_per_round", "--clients-per-round", 3, 4),
    ("seed", "--seed", 3, 4),
]


@pytest.mark.parametrize(("name", "option", "chosen", "other"), CHOICES)
def test_a_setting_counts_unless_its_option_is_given(planned, name, option, chosen, other):
    as_toml = f"{name}={json.dumps(chosen)}"
    _, plan = planned("--set", as_toml)
    assert getattr(plan, name) == chosen
    _, plan = planned("--set", as_toml, option, str(other))
    assert getattr(plan, name) == other
    assert getattr(planned()[1], name) == getattr(named_plan("small"), name)


def test_the_images_are_drawn_with_the_seed_of_the_plan(planned):
    assert [planned(*a)[0].seed for a in ((), ("--set", "seed=3"), ("--seed", "4"))] == [0, 3, 4]


def test_secure_aggregation_can_be_chosen_either_way(planned):
    assert [planned(*a)[1].secure for a in ((), ("--set", "secure=true"), ("--secure",))] == [
        False,
        True,
        True,
    ]


@pytest.mark.slow
def test_a_round_has_all_clients_where_the_preset_has_more_than_there_are(tmp_path, capsys):
    arguments = [
        "federate", "simulate", "--clients", "4", "--ways", "3", "--shots", "2", "--rounds", "1", "--test-images", "12",
        "--set", "image_size=32", "--set", "film_from=5", "--set", "steps=0", "--out", str(tmp_path),
    ]  # fmt: skip
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "One round with all connected clients." in output
    assert "Round 1 of 1: 4 clients, accuracy" in output
    assert "after one round" in output
    assert "nan" not in output
    assert "Importing Flower and torch." in output.splitlines()[0]


def test_a_missing_folder_of_clients_is_found_before_torch_is_imported(tmp_path, capsys):
    (tmp_path / "mine" / "train" / "anna").mkdir(parents=True)
    assert main([*SMALL, "--folders", str(tmp_path / "mine"), "--out", str(tmp_path / "out")]) == 3
    captured = capsys.readouterr()
    assert f"There is no folder {tmp_path / 'mine' / 'test'}" in captured.err
    assert captured.out == ""


def test_a_file_as_output_folder_is_one_clear_error(tmp_path, capsys):
    (tmp_path / "taken").write_text("a file")
    assert main([*SMALL, "--out", str(tmp_path / "taken")]) == 3
    assert capsys.readouterr().err.splitlines() == [
        f"fit: {tmp_path / 'taken'} is a file, not a folder.",
        "     Choose another name.",
    ]


def test_a_folder_of_another_federation_is_refused(tmp_path, capsys):
    assert main([*SMALL, "--rounds", "0", "--out", str(tmp_path)]) == 0
    assert main([*SMALL, "--rounds", "1", "--head", "lda", "--out", str(tmp_path)]) == 2
    assert "differs in head" in capsys.readouterr().err


@pytest.mark.slow
def test_the_privacy_budget_is_reported(tmp_path, capsys):
    arguments = [
        *SMALL,
        "--epsilon",
        "3",
        "--set",
        "privacy={noise=2.0, clip=0.1, delta=0.01}",
        "--set",
        "rounds=9",
    ]
    arguments[arguments.index("--rounds") + 1] = "9"
    assert main([*arguments, "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "No further round: ε =" in output
    assert " at δ 0.01." in output, "after every round"
    assert "ε = 2" in output or "ε = 1" in output


@pytest.mark.parametrize(
    ("preset", "chosen", "clients"),
    [
        ("small", {}, 0),
        ("small", {"privacy": {"epsilon": 8.0}}, 5),
        ("small", {"clients_per_round": 3}, 3),
        ("cifar100", {}, 5),
        ("quickdraw", {}, 5),
        ("released", {}, 5),
    ],
)
def test_a_server_takes_all_clients_unless_a_paper_or_privacy_needs_fewer(preset, chosen, clients):
    plan = named_plan(preset).override(**clients_of_round(preset, chosen) | chosen)
    assert plan.clients_per_round == clients

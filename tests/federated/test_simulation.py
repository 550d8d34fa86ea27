"""Flower's simulation engine, and Ctrl-C during a simulation."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.federated.simulation import simulate
from tests.bench.tiny import wait_until
from tests.federated.tiny import CONFIG, PLAN, read_images


@pytest.mark.process(seconds=20)
def test_flowers_engine_gives_the_same_bits(tmp_path):
    """Clients as Ray actors, in processes of their own."""
    config = replace(CONFIG, clients=3, ways=4)
    plan = replace(PLAN, compression="int8", clients_per_round=2)
    in_process = simulate(config, plan, read_images, folder=tmp_path / "in_process")
    on_flower = simulate(config, plan, read_images, folder=tmp_path / "on_flower", engine="flower")
    assert np.array_equal(in_process.state.psi, on_flower.state.psi)
    for one, other in zip(in_process.state.rounds, on_flower.state.rounds, strict=True):
        for name in one:
            if name.startswith("bytes_"):  # Flower's ids of nodes and messages are longer
                assert one[name] < other[name] < one[name] + 1_000
            else:
                assert one[name] == other[name], name


@pytest.mark.process(seconds=30)
@pytest.mark.parametrize(
    ("engine", "moment"), [("inprocess", "Before the first round"), ("flower", "Registering")]
)
def test_ctrl_c_ends_a_simulation_with_one_line_and_no_process(engine, moment, tmp_path):
    output = tmp_path / "output"
    arguments = [
        "federate", "simulate", "--clients", "4", "--ways", "3", "--shots", "3", "--rounds", "99", "--engine", engine,
        "--test-images", "12", "--set", "image_size=32", "--set", "film_from=5", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer", *arguments],
            stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: moment in output.read_text() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130, output.read_text()
    finally:
        process.kill()
        process.wait()
    lines = output.read_text().splitlines()
    assert lines[-1] == "fit: Interrupted."
    assert not any("Traceback" in line for line in lines)
    wait_until(lambda: not session_members(process.pid))


def session_members(session: int) -> list[str]:
    """Return the processes of a session that still run."""
    listed = subprocess.run(
        ["ps", "-eo", "sid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(None, 2) for line in listed.splitlines())
    return [row[2] for row in rows if row[0] == str(session) and not row[1].startswith("Z")]

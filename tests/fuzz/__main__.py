"""The command behind ``make fuzz``.

python -m tests.fuzz [--cases N] [--seed S] [--found FOLDER] [TARGET …]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from importlib import import_module
from pathlib import Path

for _name, _value in (("OMP_NUM_THREADS", "1"), ("HF_HUB_OFFLINE", "1"), ("MALLOC_ARENA_MAX", "2")):
    os.environ.setdefault(_name, _value)  # read when the libraries are loaded

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))  # of this clone, whatever is installed

from tests.fuzz.fuzzer import FOUND, Result, found_inputs, fuzz, store  # noqa: E402  # as set above

TARGETS = tuple(sorted(file.stem for file in (Path(__file__).parent / "targets").glob("[a-z]*.py")))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description="Fuzz what reads bytes from outside."
    )
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}; all by default"
    )
    parser.add_argument("--cases", type=int, default=1000, help="mutated inputs for each target")
    parser.add_argument("--seed", type=int, help="of the random choices")
    parser.add_argument("--found", type=Path, default=FOUND, help="where failing inputs are kept")
    arguments = parser.parse_args()
    if unknown := set(arguments.targets) - set(TARGETS):
        parser.error(f"there is no target {', '.join(sorted(unknown))}")
    seed = random.randrange(1 << 32) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="fit-fuzz-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    tempfile.tempdir = folder
    os.environ["TMPDIR"] = os.environ["FLWR_HOME"] = os.environ["FILMTRANSFER_CACHE"] = folder
    try:
        chosen = arguments.targets or TARGETS
        return max([_in_process(name, arguments.cases, seed, arguments.found) for name in chosen])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_process(name: str, cases: int, seed: int, found: Path) -> int:
    """Fuzz a target in a process of its own, which has imported nothing else; return 1 if something failed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _fuzz(name, cases, seed, found)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    return int(os.waitpid(child, 0)[1] != 0)


def _fuzz(name: str, cases: int, seed: int, found: Path) -> int:
    warnings.simplefilter("ignore")
    target = import_module(f"tests.fuzz.targets.{name}")
    result = fuzz(target, cases, seed, [file.read_bytes() for file in found_inputs(name, found)])
    print(_line(name, result))
    for outcome, data in result.failures.values():
        file = store(name, data, found)
        print(
            f"  {outcome.kind} at {outcome.where or '?'}: {outcome.message or '-'} ({file})".replace(
                "\n", " "
            )
        )
    return int(bool(result.failures))


def _line(name: str, result: Result) -> str:
    unconfirmed = f", {result.unconfirmed} not reproducible" if result.unconfirmed else ""
    return (
        f"{name:<13} {result.cases:>7} cases {result.seconds:>6.0f} s {result.new:>6} new inputs "
        f"{len(result.failures):>4} failures{unconfirmed}"
    )


if __name__ == "__main__":
    sys.exit(main())

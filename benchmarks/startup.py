"""Measure what a command costs from the start of its process to its end.

    python benchmarks/startup.py --data ../shared/data
    python benchmarks/startup.py --data ../shared/data --before CHECKOUT      also with the code of another checkout

Every run is a new interpreter; the runs of all processes take turns, so that a busy machine slows all alike. The graph of
the backbone is in the cache, a temporary folder, except for the rows that say otherwise. Without ``--data`` the photos are
enlarged drawings. Writes benchmarks/results/startup.json and startup.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from filmtransfer.data.sample import sample_drawings
from startup_page import write_page

FILE = Path(__file__).parent / "results" / "startup.json"
SOURCES = Path(__file__).parent.parent / "src"
WAYS, SHOTS, IMAGES, SIDE = (
    8,
    5,
    32,
    400,
)  # classes, photos of a class, photos of the many, pixels of a drawing
WATCHED = ("torch", "timm", "sklearn", "scipy", "onnxruntime")

# Runs what ``python ARGUMENTS`` runs, and writes the imported packages to the file MODULES when the process ends.
TRACER = f"""
import atexit, os, runpy, sys
def write():
    with open(os.environ["MODULES"], "w") as file:
        file.write(" ".join(name for name in {WATCHED!r} if name in sys.modules))
atexit.register(write)
kind, target, *sys.argv[1:] = sys.argv[1:]
sys.path[0] = ""
if kind == "-m":
    runpy.run_module(target, run_name="__main__", alter_sys=True)
elif kind == "-c":
    exec(compile(target, "<string>", "exec"), {{"__name__": "__main__"}})
else:
    sys.argv[1:] = [target, *sys.argv[1:]]
    runpy.run_path(kind, run_name="__main__")
"""

# The shortest program that classifies a photo with an exported graph.
BARE_SCRIPT = """
import sys
import numpy as np
import onnxruntime
from PIL import Image
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
size = session.get_inputs()[0].shape[-1]
photo = Image.open(sys.argv[2]).convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
pixels = np.ascontiguousarray(np.asarray(photo).transpose(2, 0, 1)[None])
print(session.run(["probabilities"], {"pixels": pixels})[0].argmax())
"""


@dataclass(frozen=True)
class Program:
    """A process to measure: the arguments of Python, in a folder with all files that they name."""

    name: str
    arguments: Sequence[str]
    goal: float | None = None  # seconds
    beyond: str | None = None  # the program whose seconds are added to the goal
    code: int = 0  # the exit code
    is_slow: bool = False  # measured with fewer runs
    without_graph: bool = False  # the cache is empty when it starts
    in_former: bool = True  # also measured with the other checkout


@dataclass(frozen=True)
class Checkout:
    """Source code to run, and the folder with its files."""

    sources: Path
    folder: Path

    def run(self, program: Program, *, modules: Path | None = None) -> float:
        """Return the seconds of one run; an unexpected exit code is an error."""
        shutil.copy(self.folder / "pets.safetensors", self.folder / "copy.safetensors")
        cache = self.folder / "cache"
        if program.without_graph:
            cache = self.folder / "empty"
            shutil.rmtree(cache, ignore_errors=True)
        environment = self.environment() | {"FILMTRANSFER_CACHE": str(cache)}
        arguments = list(program.arguments)
        if modules is not None:
            environment["MODULES"], arguments = str(modules), ["-c", TRACER, *arguments]
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, check=False
        )
        seconds = time.perf_counter() - start
        if done.returncode != program.code:
            raise UnexpectedExitError(f"{program.name}: {done.stderr.decode(errors='replace')[-300:]}")
        return seconds

    def fit(self, *arguments: str) -> Any:
        """Run the command with --json, unmeasured, and return its document."""
        environment = self.environment() | {"FILMTRANSFER_CACHE": str(self.folder / "cache")}
        command = [sys.executable, "-m", "filmtransfer", *arguments, "--json"]
        done = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, check=False)
        if done.returncode != 0:
            raise UnexpectedExitError(f"fit {arguments[0]}: {done.stderr.decode(errors='replace')[-300:]}")
        return json.loads(done.stdout)

    def environment(self) -> dict[str, str]:
        return os.environ | {"PYTHONPATH": str(self.sources)}


class UnexpectedExitError(Exception):
    """A program did not end as it should."""


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, help="folder of the image sets; else drawings are used")
    options.add_argument("--before", type=Path, help="a checkout of former code, to compare with")
    options.add_argument("--runs", type=int, default=7, help="of each process")
    options.add_argument("--slow-runs", type=int, default=3, help="of each process that takes many seconds")
    args = options.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        checkouts = {"now": Checkout(SOURCES, Path(scratch, "now"))}
        if args.before:
            checkouts["before"] = Checkout(args.before.resolve() / "src", Path(scratch, "before"))
        make_photos(Path(scratch, "photos"), args.data)
        prepare(checkouts, Path(scratch, "photos"))
        listed = programs(checkouts["now"])
        imports = {name: trace(checkout, name, listed) for name, checkout in checkouts.items()}
        seconds = measure(checkouts, listed, imports, args.runs, args.slow_runs)
    results = {
        "command": "python benchmarks/startup.py"
        + (" --data DIR" if args.data else "")
        + (" --before CHECKOUT" if args.before else "")
        + f" --runs {args.runs} --slow-runs {args.slow_runs}",
        "machine": machine() | {"load at the start": round(load, 1), "load": round(os.getloadavg()[0], 1)},
        "programs": [
            {
                "name": program.name,
                "goal": program.goal,
                "beyond": program.beyond,
                **{
                    name: {"seconds": seconds[name][program.name], "imports": imports[name][program.name]}
                    for name in checkouts
                    if program.name in imports[name]
                },
            }
            for program in listed
        ],
    }
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    write_page(FILE)


def machine() -> dict[str, Any]:
    from importlib.metadata import version

    packages = {name: version(name) for name in ("torch", "onnxruntime", "numpy")}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "python": ".".join(map(str, sys.version_info[:3])),
        **packages,
    }


def make_photos(folder: Path, data: Path | None) -> None:
    """Write the photos to train/CLASS/, test/CLASS/ and many/, and one of them to one.jpg."""
    pictures: Iterator[tuple[str, Path | np.ndarray]] = pet_photos(data) if data else drawings()
    for part, count in (("train", WAYS * SHOTS), ("test", IMAGES)):
        for number, (name, content) in enumerate(islice(pictures, count)):
            for target in [folder / part / name, *([folder / "many"] if part == "test" else [])]:
                target.mkdir(parents=True, exist_ok=True)
                save_photo(content, target / f"{part} {number}.jpg")
    shutil.copy(min((folder / "many").iterdir()), folder / "one.jpg")


def pet_photos(data: Path) -> Iterator[tuple[str, Path | np.ndarray]]:
    """Yield photos with their classes, the training photos first."""
    classes = sorted(path for path in (data / "oxford_pets" / "train").iterdir() if path.is_dir())[:WAYS]
    for one in classes:
        yield from ((one.name, file) for file in sorted(one.glob("*.jpg"))[:SHOTS])
    for one in classes:
        files = sorted((data / "oxford_pets" / "test" / one.name).glob("*.jpg"))
        yield from ((one.name, file) for file in files[: IMAGES // WAYS])


def drawings() -> Iterator[tuple[str, Path | np.ndarray]]:
    """Yield drawings with their classes, the training drawings first."""
    for images, count in zip(sample_drawings(SHOTS, 0), (SHOTS, IMAGES // WAYS), strict=True):
        for c in range(WAYS):
            of_class = [i for i, label in enumerate(images.labels) if label == c][:count]
            yield from ((str(images.classes[c]), np.asarray(images.sources[i])) for i in of_class)


def save_photo(content: Path | np.ndarray, path: Path) -> None:
    if isinstance(content, Path):
        shutil.copy(content, path)
    else:
        Image.fromarray(content).convert("RGB").resize((SIDE, SIDE)).save(path)


def prepare(checkouts: Mapping[str, Checkout], photos: Path) -> None:
    """Fill the folders: an update file, which the oldest code trains, a graph, an exported model and a store."""
    now, oldest = checkouts["now"], list(checkouts.values())[-1]
    for checkout in checkouts.values():
        shutil.copytree(photos, checkout.folder)
    log("training")
    oldest.fit("train", "train", "-o", "pets.safetensors", "--steps", "10", "--no-report")
    for checkout in checkouts.values():
        if checkout is not oldest:
            shutil.copy(oldest.folder / "pets.safetensors", checkout.folder)
        for name in ("one", "two", "three"):
            checkout.fit("user", "add", name, "--folder", "store")
    log("making the graph")
    now.fit("predict", "pets.safetensors", "one.jpg", "--runtime", "onnx")
    now.fit("export", "pets.safetensors", "--onnx", "model.onnx")
    (now.folder / "bare.py").write_text(BARE_SCRIPT)


def programs(checkout: Checkout) -> list[Program]:
    """Return everything that is measured."""
    shown = checkout.fit("show", "pets.safetensors", "--photos")
    first, second, third, *_ = shown["classes"]
    photo = shown["photos"][0]["photo"]
    torch, classifier = "python -c 'import torch'", "from filmtransfer import FewShotClassifier"
    predictor = "from filmtransfer import Predictor"
    one = f"{predictor}; print(Predictor.load('pets.safetensors').predict(['one.jpg']))"

    def fit(*arguments: str, name: str = "", **options: Any) -> Program:
        title = "fit " + " ".join(["FILE" if a.endswith(".safetensors") else a for a in arguments])
        return Program(name or title, ["-m", "filmtransfer", *arguments], **options)

    return [
        fit("--help", goal=0.3),
        fit("predict", "nothing.safetensors", "one.jpg", name="an error: fit predict MISSING one.jpg", goal=0.3, code=4),
        fit("backbones"),
        fit("user", "list", "--folder", "store", name="fit user list"),
        fit("show", "pets.safetensors", goal=0.5),
        fit("show", "pets.safetensors", "--photos", goal=0.5),
        fit("edit", "rename", "copy.safetensors", first, "new", name="fit edit rename FILE CLASS NAME"),
        fit("edit", "remove", "copy.safetensors", first, name="fit edit remove FILE CLASS"),
        fit("edit", "merge", "copy.safetensors", second, third, "--into", "both", name="fit edit merge FILE CLASSES"),
        fit("edit", "forget", "copy.safetensors", photo, name="fit edit forget FILE PHOTO"),
        fit("predict", "pets.safetensors", "one.jpg", goal=0.6),
        fit("predict", "pets.safetensors", "one.jpg", "--reject", "--why", goal=0.6),
        fit("predict", "pets.safetensors", "many", name=f"fit predict FILE, {IMAGES} photos"),
        fit("evaluate", "pets.safetensors", "test", name=f"fit evaluate FILE FOLDER, {IMAGES} photos"),
        fit("predict", "pets.safetensors", "one.jpg", "--runtime", "torch", in_former=False),
        fit("predict", "pets.safetensors", "many", "--runtime", "torch", name=f"fit predict FILE, {IMAGES} photos --runtime torch", in_former=False),
        Program("the bare script: onnxruntime, numpy, Pillow", ["bare.py", "model.onnx", "one.jpg"], in_former=False),
        Program(f"python -c '{predictor}'", ["-c", predictor], in_former=False),
        Program("Predictor.load(FILE).predict([photo])", ["-c", one], in_former=False),
        Program(torch, ["-c", "import torch"], in_former=False),
        Program(f"python -c '{classifier}'", ["-c", classifier], goal=1.0, beyond=torch),
        fit("predict", "pets.safetensors", "one.jpg", name="no graph yet: fit predict FILE one.jpg", is_slow=True, without_graph=True, in_former=False),
        fit("predict", "pets.safetensors", "one.jpg", "--runtime", "onnx", name="no graph yet: fit predict FILE one.jpg --runtime onnx", is_slow=True, without_graph=True, in_former=False),
        fit("backbones", "prepare", name="no graph yet: fit backbones prepare", is_slow=True, without_graph=True, in_former=False),
    ]  # fmt: skip


def trace(checkout: Checkout, name: str, listed: Sequence[Program]) -> dict[str, list[str]]:
    """Run every program once, unmeasured, and return what it imports; former code does not have all programs."""
    imports, modules = {}, checkout.folder / "modules"
    for program in listed:
        if name == "now" or program.in_former:
            try:
                checkout.run(program, modules=modules)
            except UnexpectedExitError as error:
                if name == "now":
                    raise
                log(f"skipped with the former code: {error}")
                continue
            imports[program.name] = modules.read_text().split()
            log(f"{name}: {program.name}: {', '.join(imports[program.name]) or 'none of the large packages'}")
    return imports


def measure(
    checkouts: Mapping[str, Checkout],
    listed: Sequence[Program],
    imports: Mapping[str, Mapping[str, Any]],
    runs: int,
    slow_runs: int,
) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of every run by checkout and program."""
    seconds: dict[str, dict[str, list[float]]] = {
        name: {one: [] for one in imports[name]} for name in checkouts
    }
    for turn in range(max(runs, slow_runs)):
        for program in listed:
            for name, checkout in checkouts.items():
                if program.name in imports[name] and turn < (slow_runs if program.is_slow else runs):
                    seconds[name][program.name].append(round(checkout.run(program), 3))
        log(f"run {turn + 1}")
    return seconds


def log(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

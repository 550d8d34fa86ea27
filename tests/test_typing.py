"""Choices are literal types: a type checker refuses a wrong one, and the types agree with what the code accepts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import NoneType
from typing import get_args, get_type_hints

import pytest
import torch

import filmtransfer
from filmtransfer import FeatureClassifier, FewShotClassifier
from filmtransfer.adapters import ADAPTERS
from filmtransfer.heads import HEADS, HeadName
from filmtransfer.model import log_prior
from filmtransfer.model.body import TRAIN
from filmtransfer.model.hardware_names import PRECISIONS, DeviceName
from filmtransfer.training import config
from filmtransfer.training.presets import PRESETS, PresetName

SOURCES = Path(filmtransfer.__file__).parents[1]


def test_the_types_name_what_is_registered():
    assert get_args(HeadName) == tuple(HEADS)
    assert get_args(PresetName) == tuple(PRESETS)
    assert get_args(config.TrainedPart) == tuple(TRAIN)
    assert set(get_args(config.AdapterName)) == {"film", *ADAPTERS}
    devices = {torch.device(name).type for name in get_args(DeviceName) if name != "auto"}
    assert devices == {"cpu", "cuda", "mps"}


def test_the_signature_has_the_types_of_the_settings():
    declared = get_type_hints(config.TrainingConfig)
    hints = get_type_hints(FewShotClassifier.__init__)
    for name in config.names():
        if name != "steps":
            assert set(get_args(hints[name] | None)) == set(get_args(declared[name] | None)), name
    assert hints["head"] == get_type_hints(FeatureClassifier.__init__)["head"] == HeadName
    assert hints["preset"] == PresetName
    assert hints["device"] == DeviceName
    assert get_args(hints["precision"]) == PRECISIONS
    words = next(get_args(kind) for kind in get_args(hints["prior"]) if isinstance(get_args(kind)[0], str))
    assert all(len(log_prior(prior, [1, 2])) == 2 for prior in words)
    assert NoneType not in get_args(hints["prior"])


CONFIG = f"""
[mypy]
mypy_path = {SOURCES}
python_version = 3.11
follow_imports = silent
[mypy-torch.*,timm.*,sklearn.*,safetensors.*,scipy.*,onnxruntime.*,pillow_heif.*]
follow_imports = skip
ignore_missing_imports = True
"""

RIGHT = """
import numpy as np
from filmtransfer import Callbacks, FeatureClassifier, FewShotClassifier, Predictor, Progress

def on_step(progress: Progress) -> None:
    print(progress.step, progress.loss)

clf = FewShotClassifier(
    "resnet50", "qda", 30, preset="paper", prior=[0.5, 0.5], split="resplit", train="all", adapter="lora", rule="cosine",
    device="cuda:1", precision="bfloat16", verbose=1,
)
FewShotClassifier(prior="empirical", steps="auto", device="cpu")
FewShotClassifier(prior=np.ones(2))
clf.fit(["a.jpg"], ["a"], callbacks=Callbacks(on_phase=print, on_step=on_step))
clf.fit(zip(["a.jpg"], ["a"]))
FeatureClassifier("protonets", prior="uniform")
Predictor.load("mine.safetensors", runtime="onnx", device="auto").predict(["a.jpg"])
"""

WRONG = [
    'FewShotClassifier(head="svm")',
    'FewShotClassifier("resnet50", "svm")',
    'FewShotClassifier(preset="nope")',
    'FewShotClassifier(prior="flat")',
    'FewShotClassifier(device="gpu")',
    'FewShotClassifier(precision="float16")',
    'FewShotClassifier(split="thirds")',
    'FewShotClassifier(train="some")',
    'FewShotClassifier(adapter="lore")',
    'FewShotClassifier(rule="linear")',
    'FewShotClassifier(steps="many")',
    'FewShotClassifier(verbose="yes")',
    'FewShotClassifier.load("a", device="gpu")',
    'FewShotClassifier.from_hub("a", device="gpu")',
    'FeatureClassifier("svm")',
    'FeatureClassifier(prior="flat")',
    'Predictor.load("a", runtime="tensorflow")',
    'Predictor.load("a", device="gpu")',
    'Predictor.load("a", prior="flat")',
    "Callbacks(on_phase=len)",
]


@pytest.mark.process(seconds=40)
def test_a_type_checker_refuses_wrong_choices_and_no_right_ones(tmp_path):
    (tmp_path / "mypy.ini").write_text(CONFIG)
    imports = "from filmtransfer import Callbacks, FeatureClassifier, FewShotClassifier, Predictor\n"
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text(imports + "\n".join(WRONG) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "right.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    lines = [int(line.split(":")[1]) - 2 for line in errors if line.startswith("wrong.py:")]
    assert [line for line in errors if not line.startswith("wrong.py:")] == [], done.stdout + done.stderr
    assert [text for i, text in enumerate(WRONG) if i not in lines] == [], done.stdout + done.stderr
    assert all("arg-type" in line for line in errors)


def test_the_package_is_marked_as_typed():
    assert (SOURCES / "filmtransfer" / "py.typed").is_file()

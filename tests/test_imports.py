"""What an import costs: the modules that are not imported before they are needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process


def imported(code: str, *modules: str) -> list[str]:
    """Return which of the modules a new process has imported after the code."""
    code += f"\nimport sys; print(*(name for name in {modules!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_the_estimator_needs_neither_the_compiler_nor_scikit_learn():
    slow = (
        "torch._dynamo",
        "torchvision",
        "torchvision.models",
        "sympy",
        "sklearn",
        "scipy.stats",
        "matplotlib",
    )
    assert imported("from filmtransfer import FewShotClassifier", "torch", "timm", *slow) == ["torch", "timm"]


def test_training_needs_neither_the_compiler_nor_scikit_learn():
    code = """
import numpy as np
from filmtransfer import FewShotClassifier
images = [np.random.default_rng(i).integers(0, 256, (32, 32, 3), np.uint8) for i in range(6)]
classifier = FewShotClassifier(steps=1, image_size=32, train_size=32).fit(images, [0, 1] * 3)
assert classifier.update_.results["steps"] == 1
classifier.predict(images)
"""
    assert imported(code, "torch._dynamo", "torchvision", "torchvision.models", "sympy", "sklearn") == []


def test_the_facts_about_backbones_need_no_torch():
    code = """
import filmtransfer.backbones
facts = filmtransfer.backbones.backbone_facts("efficientnet_lite0")
assert facts.sites_from(3)
assert facts.fit_size(300) == 300
assert facts.pixels.size == 224
filmtransfer.backbones.list_backbones()
"""
    assert imported(code, "torch", "timm", "torchvision", "sklearn", "scipy") == []


def test_other_backbones_are_described_by_timm():
    code = (
        'from filmtransfer.backbones import backbone_facts\nassert backbone_facts("resnet34").features == 512'
    )
    assert imported(code, "timm", "torchvision") == ["timm"]


def test_starting_a_federation_needs_neither_torch_nor_flower():
    """SuperLink starts in another process while torch is imported in this one."""
    code = """
import filmtransfer.cli.federate
import filmtransfer.federated.deployment.server
import filmtransfer.federated.plan
"""
    assert imported(code, "torch", "timm", "flwr", "sklearn") == []

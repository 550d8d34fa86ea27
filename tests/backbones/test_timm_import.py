"""timm is imported without torchvision, and torchvision can be imported before and after it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

OURS = "import filmtransfer.backbones.weights"
# torchvision with a build of torch that it does not fit, as another package would import it
FIRST = """
import torch
library = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import torchvision
"""
AFTER = """
import timm, torchvision
assert torchvision.models.resnet18().fc.out_features == 1000
assert torchvision.ops.misc.FrozenBatchNorm2d is torchvision.ops.FrozenBatchNorm2d
assert torchvision.transforms.functional is timm.data.transforms.F
assert torchvision.datasets.CIFAR10 is timm.data.dataset_factory.CIFAR10
assert torchvision.io and torchvision.utils.make_grid and torchvision.__version__
import torchvision.models.detection
import torchvision.transforms.v2
assert timm.data.create_transform(32)
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "code",
    [
        f"{OURS}\n{AFTER}",
        f"{FIRST}\nbefore = torchvision\n{OURS}\n{AFTER}\nassert torchvision is before",
        f"{FIRST}\nimport timm\nbefore = timm\n{OURS}\n{AFTER}\nassert timm is before",
        f"{OURS}\nfrom torchvision import transforms\nfrom torchvision.models import resnet18\n{AFTER}",
        f"{OURS}\nimport torchvision.ops.misc\n{AFTER}",
    ],
    ids=["after", "torchvision first", "timm first", "parts of it", "ops"],
)
def test_torchvision_is_complete(code):
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_nothing_of_the_empty_packages_remains():
    done = run(f"{OURS}\nimport sys\nprint(*[n for n in sys.modules if n.startswith('torchvision')])")
    names = done.stdout.split()
    assert "torchvision.transforms" in names
    assert not [name for name in names if name.startswith(("torchvision.ops", "torchvision.models"))]
    assert "torchvision" not in names


def test_the_compiler_can_be_disabled_as_before():
    done = run(f"{OURS}\nimport torch\nassert torch.compiler.disable.__module__ == 'torch.compiler'")
    assert done.returncode == 0, done.stderr


def test_without_torchvision_the_error_is_that_of_timm():
    done = run(f"import sys\nsys.modules['torchvision'] = None\n{OURS}")
    assert "No module named 'torchvision" in done.stderr.splitlines()[-1]

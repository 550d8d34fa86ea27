"""Mistakes in settings are found without torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from filmtransfer.errors import FitError, UsageError
from filmtransfer.training.validation import check_settings, training_config

GOOD = {
    "backbone": "efficientnet_lite0",
    "weights": None,
    "head": "lda",
    "head_options": None,
    "prior": "uniform",
}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"head": "svm"}, "head cannot be 'svm'"),
        ({"head_options": {"nope": 1}}, "no option 'nope'"),
        ({"weights": "nope.pth"}, "no weights file nope.pth"),
        ({"prior": "often"}, "prior cannot be 'often'"),
        ({"backbone": "efficientnet_lite"}, "no backbone 'efficientnet_lite'"),
    ],
)
def test_each_wrong_setting_is_named(wrong, words):
    check_settings(**GOOD)
    with pytest.raises(FitError, match=words):
        check_settings(**{**GOOD, **wrong})


def test_the_hyperrule_needs_a_linear_head():
    assert training_config("bit", "linear", {}).rule == "hyperrule"
    with pytest.raises(UsageError, match="linear head, not lda"):
        training_config("bit", "lda", {})


@pytest.mark.process(seconds=10)
def test_nothing_heavy_is_imported():
    code = (
        "import sys; from filmtransfer.training.validation import check_settings, training_config;"
        f"check_settings(**{GOOD!r}); training_config('fast', 'lda', {{'steps': 3}});"
        "print([name for name in ('torch', 'timm', 'onnxruntime', 'sklearn') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"

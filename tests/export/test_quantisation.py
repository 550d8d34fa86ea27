"""Images for calibration and for measuring the loss."""

from __future__ import annotations

import pytest

from filmtransfer import InputError
from filmtransfer.export.quantisation import split_calibration


def test_one_image_cannot_calibrate_and_measure():
    with pytest.raises(InputError, match="at least two"):
        split_calibration(1)
    assert split_calibration(5) == ([0, 2, 4], [1, 3])

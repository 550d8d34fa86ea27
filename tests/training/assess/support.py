"""Random support features for the tests of the assessment."""

from __future__ import annotations

import numpy as np


def random_support(counts=(5, 3, 4), features=12, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(counts)), counts)
    centres = rng.normal(0, 1, (len(counts), features))
    return (centres[labels] + rng.normal(0, 1, (len(labels), features))).astype(dtype), labels

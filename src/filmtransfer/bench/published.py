"""Every number of the paper's tables, to stand beside ours.

``published.csv`` is made from the paper's LaTeX source by scripts/transcribe_published.py; a test
checks it against the paper's own means, repetitions and parameter counts.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import invalid_choice

PAPERS_BACKBONE = "BiT-M-R50x1"
# The paper's names of backbones that the catalogue has.
BACKBONES = {
    "bit_m_r50x1": "BiT-M-R50x1",
    "bit_m_r50x1_released": "BiT-M-R50x1",
    "efficientnet_b0": "EfficientNet-B0",
    "efficientnetv2_m": "EfficientNetV2-M",
    "vit_b16": "ViT-Base-16",
}

# VTAB-1k, in the paper's order.
NATURAL = ("caltech101", "cifar100", "flowers102", "oxford_pets", "sun397", "svhn", "dtd")
SPECIALIZED = ("eurosat", "resisc45", "patch_camelyon", "diabetic_retinopathy")
STRUCTURED = (
    "clevr_count",
    "clevr_distance",
    "dsprites_location",
    "dsprites_orientation",
    "smallnorb_azimuth",
    "smallnorb_elevation",
    "dmlab",
    "kitti_distance",
)
GROUPS = {
    "all": NATURAL + SPECIALIZED + STRUCTURED,
    "natural": NATURAL,
    "specialized": SPECIALIZED,
    "structured": STRUCTURED,
}


@dataclass(frozen=True)
class Published:
    """One number of the paper as it is printed, and where it stands."""

    table: str  # the LaTeX label without "tab:"
    backbone: str
    dataset: str  # our name of the set, or a group of VTAB-1k
    setting: str  # "shots=5;split=no_split"
    method: str
    metric: str
    printed: str
    printed_interval: str  # "" where the paper prints none

    @property
    def value(self) -> float:
        return float(self.printed)

    @property
    def half(self) -> float | None:
        """Half the 95% interval: the number behind ±."""
        return float(self.printed_interval) if self.printed_interval else None

    @property
    def rounding(self) -> float:
        """How far the true number may lie from the printed one: half a unit of its last digit."""
        return 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def settings(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in self.setting.split(";") if pair)


@cache
def published() -> tuple[Published, ...]:
    """All of the paper's numbers, in its order."""
    text = files("filmtransfer.bench").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(Published(*row) for row in list(csv.reader(text.splitlines()))[1:])


def lookup(
    table: str,
    dataset: str,
    method: str,
    metric: str = "accuracy",
    backbone: str = PAPERS_BACKBONE,
    **setting: object,
) -> Published | None:
    """The number that the paper's ``table`` prints for exactly this, or None if it prints none."""
    if table not in _index():
        raise invalid_choice("The paper's table", table, _index())
    wanted = frozenset((name, str(value)) for name, value in setting.items())
    return _index()[table].get((backbone, dataset, method, metric, wanted))


_Key = tuple[str, str, str, str, frozenset[tuple[str, str]]]


@cache
def _index() -> dict[str, dict[_Key, Published]]:
    tables: dict[str, dict[_Key, Published]] = {}
    for p in published():
        key = (p.backbone, p.dataset, p.method, p.metric, frozenset(p.settings.items()))
        tables.setdefault(p.table, {})[key] = p
    return tables

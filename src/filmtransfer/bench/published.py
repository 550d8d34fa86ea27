"""Every number of the paper's tables.

``published.csv`` is generated from the paper's LaTeX source by scripts/transcribe_published.py; a test checks it
against the means, repeated numbers and parameter counts of the paper.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ..errors import check_choice

PAPER_BACKBONE = "BiT-M-R50x1"
# The paper's names for backbones of the catalogue.
BACKBONES = {
    "bit_m_r50x1": "BiT-M-R50x1",
    "bit_m_r50x1_released": "BiT-M-R50x1",
    "efficientnet_b0": "EfficientNet-B0",
    "efficientnetv2_m": "EfficientNetV2-M",
    "vit_b16": "ViT-Base-16",
}


@dataclass(frozen=True)
class Published:
    """One number of the paper as it is printed, and the cell of its table."""

    table: str  # the LaTeX label without "tab:"
    backbone: str
    dataset: str  # our name of the dataset, or a group of VTAB-1k
    setting: str  # "shots=5;split=no_split"
    method: str
    metric: str
    printed: str
    printed_interval: str  # "" where the paper prints none

    def __str__(self) -> str:
        return f"{self.printed} ± {self.printed_interval}" if self.printed_interval else self.printed

    @property
    def value(self) -> float:
        """The printed number."""
        return float(self.printed)

    @property
    def half_width(self) -> float | None:
        """The half-width of the 95% interval: the number after ±."""
        return float(self.printed_interval) if self.printed_interval else None

    @property
    def rounding(self) -> float:
        """The largest rounding error: half a unit of the last printed digit."""
        return 0.5 * 10.0 ** -len(self.printed.partition(".")[2])

    @property
    def settings(self) -> dict[str, str]:
        """``setting`` by name."""
        return dict(pair.split("=", 1) for pair in self.setting.split(";") if pair)


@cache
def published() -> tuple[Published, ...]:
    """Return all numbers of the paper in its order."""
    text = files("filmtransfer.bench").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(Published(*row) for row in list(csv.reader(text.splitlines()))[1:])


def lookup(
    table: str,
    dataset: str,
    method: str,
    metric: str = "accuracy",
    backbone: str = PAPER_BACKBONE,
    **setting: object,
) -> Published | None:
    """Return the number in exactly this cell of the paper's ``table``, or None if there is none."""
    check_choice("The paper's table", table, _index())
    settings = frozenset((name, str(value)) for name, value in setting.items())
    return _index()[table].get((backbone, dataset, method, metric, settings))


_Key = tuple[str, str, str, str, frozenset[tuple[str, str]]]


@cache
def _index() -> dict[str, dict[_Key, Published]]:
    tables: dict[str, dict[_Key, Published]] = {}
    for p in published():
        key = (p.backbone, p.dataset, p.method, p.metric, frozenset(p.settings.items()))
        tables.setdefault(p.table, {})[key] = p
    return tables

"""The structured datasets of VTAB in the paper's order."""

from __future__ import annotations

from .clevr import CLEVR_COUNT, CLEVR_DISTANCE
from .dataset import DatasetEntry
from .dmlab import DMLAB
from .dsprites import DSPRITES_LOCATION, DSPRITES_ORIENTATION
from .kitti import KITTI_DISTANCE
from .smallnorb import SMALLNORB_AZIMUTH, SMALLNORB_ELEVATION

STRUCTURED: tuple[DatasetEntry, ...] = (
    CLEVR_COUNT,
    CLEVR_DISTANCE,
    DSPRITES_LOCATION,
    DSPRITES_ORIENTATION,
    SMALLNORB_AZIMUTH,
    SMALLNORB_ELEVATION,
    DMLAB,
    KITTI_DISTANCE,
)

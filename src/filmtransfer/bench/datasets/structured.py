"""The structured sets of VTAB, in the paper's order."""

from __future__ import annotations

from .base import Entry
from .clevr import CLEVR_COUNT, CLEVR_DISTANCE
from .dmlab import DMLAB
from .dsprites import DSPRITES_LOCATION, DSPRITES_ORIENTATION
from .kitti import KITTI_DISTANCE
from .smallnorb import SMALLNORB_AZIMUTH, SMALLNORB_ELEVATION

STRUCTURED: tuple[Entry, ...] = (
    CLEVR_COUNT,
    CLEVR_DISTANCE,
    DSPRITES_LOCATION,
    DSPRITES_ORIENTATION,
    SMALLNORB_AZIMUTH,
    SMALLNORB_ELEVATION,
    DMLAB,
    KITTI_DISTANCE,
)

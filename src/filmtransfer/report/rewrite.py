"""Write the report of a training again after its classifier was edited.

The update keeps features, labels and names of its photos, the report their pictures. A photo that the update has
forgotten is in neither the numbers nor the pictures of the new page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ..files import read_regular, reading
from ..model import Update
from .collect import collect_update
from .page import TRAINING_REPORT, write_report
from .pictures import read_embedded


def rewrite_report(
    path: str | Path,
    file: str | Path,
    *,
    added: Mapping[str, bytes] | None = None,
    out: str | Path | None = None,
) -> bool:
    """Write the report at ``path`` again for the edited update in ``file``; return whether that was possible.

    ``added`` are thumbnails of further photos by the digests of their files. The new page replaces the report, or is
    written to ``out``. A file that is not such a report is never read or replaced as one, and an update without
    statistics has none.
    """
    target = Path(out or path)
    before = _read(Path(path))
    replaceable = not target.exists() or _read(target) is not None
    if before is None or not replaceable or Update.load(file).support is None:
        return False
    data = collect_update(file, read_embedded(before) | dict(added or {}))
    write_report(
        target, replace(data, deleted=0)
    )  # a photo without a picture is one that the report did not show
    return True


def _read(path: Path) -> str | None:
    """Return the report of a training, with the digests of its pictures; None if the file is something else."""
    with reading(path):
        page = read_regular(path).decode("utf-8", errors="replace")
    return page if TRAINING_REPORT in page else None

"""A sample project: drawings of the package, added as a person would add photos."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image

from ..data.sample import enlarge_drawing, sample_drawings
from .decoder import make_thumbnail
from .store import Project, ProjectId, Store

NAME = "Sample drawings"
CLASSES = 5
SHOTS = 8
SIZE = 252  # pixels: more than a thumbnail has


def add_sample_project(store: Store, user: str) -> Project:
    """Create a project with a few classes of drawings, completely or not at all."""
    project = store.projects.create(user, NAME).id
    try:
        _add_drawings(store, project)
    except BaseException:
        store.projects.delete(user, project)
        raise
    return store.projects.get(project)


def _add_drawings(store: Store, project: ProjectId) -> None:
    drawings, _ = sample_drawings(SHOTS, seed=0)
    classes = [store.classes.add(project, str(name)) for name in drawings.classes[:CLASSES]]
    for source, label in zip(drawings.sources, drawings.labels, strict=True):
        if label < CLASSES:
            content = _png(enlarge_drawing(source, SIZE))
            media_type, thumbnail = make_thumbnail(content)
            store.photos.add(project, classes[label].id, content, thumbnail, media_type)


def _png(drawing: np.ndarray) -> bytes:
    file = BytesIO()
    Image.fromarray(drawing).save(file, "PNG")
    return file.getvalue()

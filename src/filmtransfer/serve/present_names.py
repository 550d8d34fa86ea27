"""The files of a version with the names that its classes have now.

A version keeps the names of its training and the ids of its classes. Its file is stored as it was made; what a user
downloads has the names that the page shows.
"""

from __future__ import annotations

from ..model import Update
from ..training.edit import with_names
from .store import ProjectId, Store


def present_content(store: Store, project: ProjectId, number: int) -> bytes:
    """Return the update file of a version with the present names of its classes.

    A deleted class keeps its name, unless another class has it now.
    """
    content = store.versions.content(project, number)
    ids = store.versions.get(project, number).summary.get("class_ids", {})
    if not ids:  # uploaded, or trained by an earlier version
        return content
    present = {row.id: row.name for row in store.classes.all(project)}
    taken = set(present.values())

    def name_now(name: str) -> str:
        return present.get(ids.get(name, ""), f"{name} (deleted)" if name in taken else name)

    if all(name_now(name) == name for name in ids):
        return content
    update = Update.from_bytes(content)
    return with_names(update, [name_now(str(name)) for name in update.classes]).to_bytes()

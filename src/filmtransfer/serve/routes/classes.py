"""The classes of a project."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import CurrentProject, JsonOnly, StoreDep
from ..responses import GUARDED, errors
from ..schemas import ClassCreate, ClassesPublic, ClassPublic, Id

router = APIRouter(prefix="/api/classes", tags=["classes"], responses=errors(*GUARDED))


@router.get("")
def list_classes(project: CurrentProject, store: StoreDep) -> ClassesPublic:
    """List the classes of a project in the order of their creation."""
    return ClassesPublic(classes=[ClassPublic.model_validate(one) for one in store.classes.all(project)])


@router.post("", status_code=201, responses=errors(400, 409, 415, 507), dependencies=[JsonOnly])
def add_class(new: ClassCreate, project: CurrentProject, store: StoreDep) -> ClassPublic:
    """Create a class."""
    return ClassPublic.model_validate(store.classes.add(project, new.name))


@router.patch("/{id}", responses=errors(400, 404, 409, 415), dependencies=[JsonOnly])
def rename_class(id: Id, new: ClassCreate, project: CurrentProject, store: StoreDep) -> ClassPublic:
    """Rename a class."""
    return ClassPublic.model_validate(store.classes.rename(project, id, new.name))


@router.delete("/{id}", status_code=204, responses=errors(404))
def delete_class(id: Id, project: CurrentProject, store: StoreDep) -> Response:
    """Delete a class and its photos."""
    store.classes.delete(project, id)
    return Response(status_code=204)

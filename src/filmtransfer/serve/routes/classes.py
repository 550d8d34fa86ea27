"""The classes of a user."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import CurrentUser, JsonOnly, StoreDep
from ..schemas import GUARDED, ClassCreate, ClassesPublic, ClassPublic, Id, errors

router = APIRouter(prefix="/api/classes", tags=["classes"], responses=errors(*GUARDED))


@router.get("")
def list_classes(user: CurrentUser, store: StoreDep) -> ClassesPublic:
    """List your classes in the order of their creation."""
    return ClassesPublic(classes=[ClassPublic.model_validate(one) for one in store.classes.all(user.id)])


@router.post("", status_code=201, responses=errors(400, 409, 415, 507), dependencies=[JsonOnly])
def add_class(new: ClassCreate, user: CurrentUser, store: StoreDep) -> ClassPublic:
    """Create a class."""
    return ClassPublic.model_validate(store.classes.add(user.id, new.name))


@router.patch("/{id}", responses=errors(400, 404, 409, 415), dependencies=[JsonOnly])
def rename_class(id: Id, new: ClassCreate, user: CurrentUser, store: StoreDep) -> ClassPublic:
    """Rename a class."""
    return ClassPublic.model_validate(store.classes.rename(user.id, id, new.name))


@router.delete("/{id}", status_code=204, responses=errors(404))
def delete_class(id: Id, user: CurrentUser, store: StoreDep) -> Response:
    """Delete a class and its photos."""
    store.classes.delete(user.id, id)
    return Response(status_code=204)

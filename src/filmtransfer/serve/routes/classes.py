"""Classes: names that photos stand under."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Response

from .. import shapes
from ..auth import TheUser
from ..service import TheStore
from ..shapes import GUARDED, errors
from .bodies import json_only

router = APIRouter(prefix="/api/classes", tags=["classes"], responses=errors(*GUARDED))
JsonOnly = Depends(json_only)


@router.get("")
def list_classes(user: TheUser, store: TheStore) -> shapes.Classes:
    """Your classes, in the order in which they were made."""
    return shapes.Classes(classes=[shapes.Class.model_validate(row) for row in store.classes(user.id)])


@router.post(
    "",
    status_code=201,
    response_model=shapes.Class,
    responses=errors(400, 409, 415, 507),
    dependencies=[JsonOnly],
)
def add_class(new: shapes.NewClass, user: TheUser, store: TheStore) -> object:
    """Make a class."""
    return store.add_class(user.id, new.name)


@router.patch(
    "/{id}", response_model=shapes.Class, responses=errors(400, 404, 409, 415), dependencies=[JsonOnly]
)
def rename_class(id: shapes.Id, new: shapes.NewClass, user: TheUser, store: TheStore) -> object:
    """Give a class another name."""
    return store.rename_class(user.id, id, new.name)


@router.delete("/{id}", status_code=204, responses=errors(404))
def remove_class(id: shapes.Id, user: TheUser, store: TheStore) -> Response:
    """Remove a class and its photos."""
    store.remove_class(user.id, id)
    return Response(status_code=204)

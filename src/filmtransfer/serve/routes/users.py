"""The users of the service, for the admin, who sees their quotas and never their photos or classifiers."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import AdminOnly, JsonOnly, ServiceDep, StoreDep
from ..responses import GUARDED, errors
from ..schemas import (
    Id,
    QuotaUpdate,
    TokenPublic,
    UserCreate,
    UserCreated,
    UserDetail,
    UserPublic,
    UsersPublic,
)
from ..store import Quota

router = APIRouter(prefix="/api/users", tags=["admin"], dependencies=[AdminOnly], responses=errors(*GUARDED))


@router.post("", status_code=201, responses=errors(400, 415, 507), dependencies=[JsonOnly])
def add_user(new: UserCreate, store: StoreDep) -> UserCreated:
    """Create a user. The token is shown only now."""
    user, token = store.users.create(new.name, new.quota.apply(Quota()) if new.quota else None)
    return UserCreated.model_validate({**vars(user), "token": token})


@router.get("")
def list_users(store: StoreDep) -> UsersPublic:
    """List all users."""
    return UsersPublic(users=[UserPublic.model_validate(user) for user in store.users.all()])


@router.get("/{id}", responses=errors(404))
def show_user(id: Id, store: StoreDep) -> UserDetail:
    """Show one user, and how much it stores."""
    return UserDetail.model_validate({**vars(store.users.get(id)), "used": store.users.usage(id)})


@router.post("/{id}/token", responses=errors(404))
def renew_token(id: Id, store: StoreDep) -> TokenPublic:
    """Replace a user's token; the old one is invalid at once."""
    return TokenPublic(token=store.users.new_token(id))


@router.put("/{id}/quota", responses=errors(400, 404, 415), dependencies=[JsonOnly])
def set_quota(id: Id, change: QuotaUpdate, store: StoreDep) -> UserPublic:
    """Change a user's quota."""
    user = store.users.set_quota(id, change.apply(store.users.get(id).quota))
    return UserPublic.model_validate(user)


@router.delete("/{id}", status_code=204, responses=errors(404))
def delete_user(id: Id, service: ServiceDep) -> Response:
    """Delete a user and all its data."""
    try:
        service.store.users.delete(id)
    finally:
        service.cache.drop(id)
    return Response(status_code=204)

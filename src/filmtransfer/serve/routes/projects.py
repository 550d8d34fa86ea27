"""The projects of a user: each has its own classes, photos, trainings and versions."""

from __future__ import annotations

from fastapi import APIRouter, Response

from ..deps import CurrentUser, JsonOnly, ServiceDep, StoreDep
from ..responses import GUARDED, errors
from ..sample_project import add_sample_project
from ..schemas import Id, ProjectCreate, ProjectPublic, ProjectsPublic

router = APIRouter(prefix="/api/projects", tags=["projects"], responses=errors(*GUARDED))


@router.get("")
def list_projects(user: CurrentUser, store: StoreDep) -> ProjectsPublic:
    """List your projects, the oldest first."""
    projects = [ProjectPublic.model_validate(one) for one in store.projects.all(user.id)]
    return ProjectsPublic(projects=projects)


@router.post("", status_code=201, responses=errors(400, 415, 507), dependencies=[JsonOnly])
def add_project(new: ProjectCreate, user: CurrentUser, store: StoreDep) -> ProjectPublic:
    """Create an empty project."""
    return ProjectPublic.model_validate(store.projects.create(user.id, new.name))


@router.post("/sample", status_code=201, responses=errors(507))
def add_sample(user: CurrentUser, service: ServiceDep) -> ProjectPublic:
    """Create a project with a few classes of sample drawings, ready to train."""
    project = add_sample_project(service.store, user.id)
    service.on_photo()
    return ProjectPublic.model_validate(project)


@router.patch("/{id}", responses=errors(400, 404, 415), dependencies=[JsonOnly])
def rename_project(id: Id, new: ProjectCreate, user: CurrentUser, store: StoreDep) -> ProjectPublic:
    """Rename a project."""
    return ProjectPublic.model_validate(store.projects.rename(user.id, id, new.name))


@router.delete("/{id}", status_code=204, responses=errors(404))
def delete_project(id: Id, user: CurrentUser, service: ServiceDep) -> Response:
    """Delete a project with everything in it. Instead of your last one there is a new empty one."""
    service.store.projects.delete(user.id, id)
    service.cache.drop(user.id, id)
    return Response(status_code=204)

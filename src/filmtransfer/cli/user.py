"""fit user list | add NAME | token ID | quota ID | show ID | delete ID"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from ..errors import InputError, UsageError
from ..formatting import count, file_size
from ..serve.settings import DEFAULT_FOLDER, MIN_VERSIONS
from .printing import Json, Printer, command_group
from .settings import command_with_groups

if TYPE_CHECKING:
    from ..serve.store import JsonObject, Project, Store, User, Version

app = command_group("The users of a service, their tokens and quotas.")
command = partial(command_with_groups, app)


class StoreSession:
    """The options of all commands: the store, which is opened when needed until the command ends, and the printer."""

    creates = False  # whether a store is created where there is none

    def __init__(
        self,
        folder: Annotated[
            Path | None,
            typer.Option(
                help="The folder of the service, with fit.db and objects/; by default that of 'fit serve'."
            ),
        ] = None,
        database: Annotated[
            str | None, typer.Option(help="sqlite:///FILE or postgresql://name:password@host/base.")
        ] = None,
        objects: Annotated[
            str | None, typer.Option(help="Folder or bucket of the photos' bytes; none: in the database.")
        ] = None,
        as_json: Json = False,
    ) -> None:
        from ..serve.store import StoreLocation

        self.printer = Printer(as_json)
        if folder is None and database is None:
            folder = Path(DEFAULT_FOLDER)
        self.folder, self.database = folder, database
        self.location = StoreLocation.of(folder, database, objects)

    @cached_property
    def store(self) -> Store:
        """The store; an error where there is none, unless the command creates it."""
        from ..serve.store import Store

        is_new = not Store.exists(self.location)
        if is_new and not self.creates:
            raise self._no_service()
        store = Store.open(self.location)
        click.get_current_context().call_on_close(store.close)
        if is_new:
            self.printer.note(f"There was no service in {self.where}; a new store was created there.")
        return store

    @property
    def where(self) -> str:
        """The location of the store as the user named it, without a password."""
        from ..serve.store.database import display_url

        return display_url(self.database) if self.database else str(self.folder)

    def _no_service(self) -> InputError:
        option = "--folder" if self.database is None else "--database"
        return InputError(
            f"There is no service in {self.where}.",
            f"Check {option}. 'fit serve' starts a new service; 'fit user add NAME' prepares users before that.",
        )


class CreatingSession(StoreSession):
    """The options of a command that may create the store."""

    creates = True


class Limits:
    """The options of a quota; ``values`` has those that were given, by the names of the quota."""

    def __init__(
        self,
        classes: Annotated[int | None, typer.Option(min=0, help="How many classes.")] = None,
        photos: Annotated[int | None, typer.Option(min=0, help="How many photos.")] = None,
        megabytes: Annotated[
            int | None, typer.Option(min=0, help="The size of photos and versions together.")
        ] = None,
        versions: Annotated[
            int | None,
            typer.Option(min=MIN_VERSIONS, help="How many versions; a new one replaces the oldest."),
        ] = None,
    ) -> None:
        size = None if megabytes is None else megabytes * 1_000_000
        limits = {"classes": classes, "photos": photos, "bytes": size, "versions": versions}
        self.values = {name: value for name, value in limits.items() if value is not None}


Id = Annotated[str, typer.Argument(help="The user's id, as shown by 'fit user list'.")]


@command("list")
def list_users(session: StoreSession) -> None:
    """List all users, and how much each stores."""
    rows = [(user, session.store.users.usage(user.id)) for user in session.store.users.all()]
    if rows:
        session.printer.table(
            ["id", "name", "since", "classes", "photos", "size", "versions"],
            [
                [user.id, user.name, f"{user.created:%Y-%m-%d}", used.classes, used.photos, file_size(used.bytes), used.versions]
                for user, used in rows
            ],
            right=(3, 4, 5, 6),
        )  # fmt: skip
    else:
        session.printer.say("There are no users yet. Create one with 'fit user add NAME'.")
    session.printer.document({"users": [{**_describe(user), "used": asdict(used)} for user, used in rows]})


@command("add")
def add(
    name: Annotated[str, typer.Argument(help="The user's name.")], limits: Limits, session: CreatingSession
) -> None:
    """Create a user. The token is shown once; it cannot be read again, only replaced."""
    from ..serve.store import Quota
    from ..serve.store.values import clean_name

    name = clean_name("user", name)  # an error before a store is created
    user, token = session.store.users.create(name, replace(Quota(), **limits.values))
    session.printer.say(f"Created user {user.id} ({user.name}).")
    session.printer.say(f"Token, shown only now: {token}")
    session.printer.document({**_describe(user), "token": token})


@command("token")
def token(id: Id, session: StoreSession) -> None:
    """Replace a user's token; the old one is invalid at once."""
    new = session.store.users.new_token(id)
    session.printer.say(f"Token, shown only now: {new}")
    session.printer.document({"id": id, "token": new})


@command("quota")
def quota(id: Id, limits: Limits, session: StoreSession) -> None:
    """Change a user's quota; limits that are not given stay as they are."""
    if not limits.values:
        raise UsageError("Nothing to change.", "As in: fit user quota ID --photos 5000 --megabytes 4000.")
    user = session.store.users.set_quota(id, replace(session.store.users.get(id).quota, **limits.values))
    _print_usage(session, user)
    session.printer.document(_describe(user))


@command("show")
def show(id: Id, session: StoreSession) -> None:
    """Show one user: the usage, the quota, and the projects with their versions."""
    store = session.store
    user = store.users.get(id)
    projects = [(project, store.versions.all(project.id)) for project in store.projects.all(id)]
    _print_usage(session, user)
    session.printer.table(
        ["project", "classes", "photos", "versions", "current", "trained or uploaded"],
        [
            [
                project.name,
                project.classes,
                project.photos,
                len(versions),
                "" if project.current is None else project.current,
                next(
                    (f"{v.created:%Y-%m-%d %H:%M}, {file_size(v.bytes)}" for v in versions if v.current), ""
                ),
            ]
            for project, versions in projects
        ],
        right=(1, 2, 3, 4),
    )
    listed = [_describe_project(project) | {"versions": _describe_versions(v)} for project, v in projects]
    session.printer.document({**_describe(user), "used": asdict(store.users.usage(id)), "projects": listed})


@command("delete")
def delete(
    id: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    session: StoreSession,
) -> None:
    """Delete a user with all projects: photos, versions and trainings. This cannot be undone."""
    user, used = session.store.users.get(id), session.store.users.usage(id)
    contents = f"{count(used.photos, 'photo')} and {count(used.versions, 'version')}"
    if not yes and not _confirm(f"Delete {user.name} with {contents} for good?"):
        raise UsageError("Nothing was deleted.", "Use --yes to delete without a question.")
    session.store.users.delete(id)
    session.printer.say(f"Deleted {user.name} ({id}) with {contents}.")
    session.printer.document({"id": id, "deleted": True})


def _confirm(question: str) -> bool:
    """Ask a question; where nobody can answer, the answer is no."""
    try:
        return typer.confirm(question, err=True)
    except click.Abort as abort:
        if isinstance(abort.__context__, EOFError):  # otherwise Ctrl-C
            typer.echo(err=True)
            return False
        raise


def _describe(user: User) -> JsonObject:
    return {
        "id": user.id,
        "name": user.name,
        "created": user.created.isoformat(),
        "quota": asdict(user.quota),
    }


def _describe_project(project: Project) -> JsonObject:
    return {**asdict(project), "created": project.created.isoformat()}


def _describe_versions(versions: Sequence[Version]) -> list[JsonObject]:
    return [
        {
            "number": v.number,
            "created": v.created.isoformat(),
            "bytes": v.bytes,
            "source": v.source,
            "current": v.current,
        }
        for v in versions
    ]


def _print_usage(session: StoreSession, user: User) -> None:
    used, quota = session.store.users.usage(user.id), user.quota
    session.printer.say(f"{user.name} ({user.id}), since {user.created:%Y-%m-%d}")
    session.printer.table(
        ["", "used", "of"],
        [
            ["classes", used.classes, quota.classes],
            ["photos", used.photos, quota.photos],
            ["size", file_size(used.bytes), file_size(quota.bytes)],
            ["versions", used.versions, quota.versions],
        ],
        right=(1, 2),
    )

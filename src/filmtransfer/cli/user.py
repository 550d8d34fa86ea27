"""fit user list | add NAME | token ID | quota ID | show ID | delete ID"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import file_size
from .printing import Json, Printer

if TYPE_CHECKING:
    from ..serve.store import Store, User

app = typer.Typer(
    help="The users of a service: who there is, their tokens and how much they may keep.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path | None, typer.Option(help="The service's folder: fit.db and objects/ are in it.")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database", help="sqlite:///FILE or postgresql://name:password@host/base.")
]
ObjectsUrl = Annotated[
    str | None,
    typer.Option("--objects", help="Folder or bucket of the photos' bytes; none: in the database."),
]
Id = Annotated[str, typer.Argument(help="The user's id, as 'fit user list' shows it.")]
Classes = Annotated[int | None, typer.Option(min=0, help="How many classes.")]
Photos = Annotated[int | None, typer.Option(min=0, help="How many photos.")]
Megabytes = Annotated[int | None, typer.Option(min=0, help="How much photos and versions may take together.")]
Versions = Annotated[int | None, typer.Option(min=0, help="How many versions; then the oldest one goes.")]


@contextmanager
def _opened(folder: Path | None, database: str | None, objects: str | None) -> Iterator[Store]:
    from ..serve.store import Place, Store

    place = Place.of(folder, database, objects)
    store = Store.open(place.database, place.objects)
    try:
        yield store
    finally:
        store.close()


@app.command("list")
def list_users(
    folder: Folder = None, database: DatabaseUrl = None, objects: ObjectsUrl = None, as_json: Json = False
) -> None:
    """All users, and how much each keeps."""
    printer = Printer(as_json)
    with _opened(folder, database, objects) as store:
        found = [(user, store.used(user.id)) for user in store.users()]
    if found:
        printer.table(
            ["id", "name", "since", "classes", "photos", "size", "versions"],
            [
                [user.id, user.name, f"{user.created:%Y-%m-%d}", used.classes, used.photos, file_size(used.bytes), used.versions]
                for user, used in found
            ],
            right=(3, 4, 5, 6),
        )  # fmt: skip
    else:
        printer.say("There are no users yet. Make one with 'fit user add NAME'.")
    printer.document({"users": [{**_described(user), "used": asdict(used)} for user, used in found]})


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="How the user is called.")],
    classes: Classes = None,
    photos: Photos = None,
    megabytes: Megabytes = None,
    versions: Versions = None,
    folder: Folder = None,
    database: DatabaseUrl = None,
    objects: ObjectsUrl = None,
    as_json: Json = False,
) -> None:
    """Make a user. The token is shown once: nobody can read it again, only replace it."""
    from ..serve.store import Quota

    printer = Printer(as_json)
    quota = replace(Quota(), **_limits(classes, photos, megabytes, versions))
    with _opened(folder, database, objects) as store:
        user, token = store.create_user(name, quota)
    printer.say(f"Made user {user.id} ({user.name}).")
    _say_token(printer, token)
    printer.document({**_described(user), "token": token})


@app.command("token")
def token(
    id: Id,
    folder: Folder = None,
    database: DatabaseUrl = None,
    objects: ObjectsUrl = None,
    as_json: Json = False,
) -> None:
    """Give a user a new token; the old one ends at once."""
    printer = Printer(as_json)
    with _opened(folder, database, objects) as store:
        made = store.new_token(id)
    _say_token(printer, made)
    printer.document({"id": id, "token": made})


@app.command("quota")
def quota(
    id: Id,
    classes: Classes = None,
    photos: Photos = None,
    megabytes: Megabytes = None,
    versions: Versions = None,
    folder: Folder = None,
    database: DatabaseUrl = None,
    objects: ObjectsUrl = None,
    as_json: Json = False,
) -> None:
    """Change how much a user may keep; what is not said stays."""
    printer = Printer(as_json)
    limits = _limits(classes, photos, megabytes, versions)
    if not limits:
        raise UsageError("Nothing to change.", "As in: fit user quota ID --photos 5000 --megabytes 4000.")
    with _opened(folder, database, objects) as store:
        user = store.set_quota(id, replace(store.user(id).quota, **limits))
        _say_user(printer, store, user)
    printer.document(_described(user))


@app.command("show")
def show(
    id: Id,
    folder: Folder = None,
    database: DatabaseUrl = None,
    objects: ObjectsUrl = None,
    as_json: Json = False,
) -> None:
    """One user: what is used, of how much, and the versions."""
    printer = Printer(as_json)
    with _opened(folder, database, objects) as store:
        user, used, versions = store.user(id), store.used(id), store.versions(id)
        _say_user(printer, store, user)
    if versions:
        printer.table(
            ["version", "made", "from", "size", ""],
            [
                [v.number, f"{v.created:%Y-%m-%d %H:%M}", v.source, file_size(v.bytes), "current" if v.current else ""]
                for v in versions
            ],
            right=(0, 3),
        )  # fmt: skip
    kept = [
        {
            "number": v.number,
            "created": v.created.isoformat(),
            "bytes": v.bytes,
            "source": v.source,
            "current": v.current,
        }
        for v in versions
    ]
    printer.document({**_described(user), "used": asdict(used), "versions": kept})


@app.command("delete")
def delete(
    id: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    folder: Folder = None,
    database: DatabaseUrl = None,
    objects: ObjectsUrl = None,
    as_json: Json = False,
) -> None:
    """Delete a user and all that is theirs: photos, versions, trainings. It cannot be undone."""
    printer = Printer(as_json)
    with _opened(folder, database, objects) as store:
        user, used = store.user(id), store.used(id)
        if not yes and not typer.confirm(
            f"Delete {user.name} with {used.photos} photos and {used.versions} versions for good?", err=True
        ):
            raise UsageError("Nothing was deleted.", "Say --yes to delete without being asked.")
        store.delete_user(id)
    printer.say(f"Deleted {user.name} ({id}) with {used.photos} photos and {used.versions} versions.")
    printer.document({"id": id, "deleted": True})


def _limits(
    classes: int | None, photos: int | None, megabytes: int | None, versions: int | None
) -> dict[str, int]:
    said = {
        "classes": classes,
        "photos": photos,
        "bytes": None if megabytes is None else megabytes * 1_000_000,
        "versions": versions,
    }
    return {name: value for name, value in said.items() if value is not None}


def _described(user: User) -> dict[str, Any]:
    return {
        "id": user.id,
        "name": user.name,
        "created": user.created.isoformat(),
        "quota": asdict(user.quota),
    }


def _say_user(printer: Printer, store: Store, user: User) -> None:
    used, quota = store.used(user.id), user.quota
    printer.say(f"{user.name} ({user.id}), since {user.created:%Y-%m-%d}")
    printer.table(
        ["", "used", "of"],
        [
            ["classes", used.classes, quota.classes],
            ["photos", used.photos, quota.photos],
            ["size", file_size(used.bytes), file_size(quota.bytes)],
            ["versions", used.versions, quota.versions],
        ],
        right=(1, 2),
    )


def _say_token(printer: Printer, token: str) -> None:
    printer.say(f"Token, shown this once: {token}")

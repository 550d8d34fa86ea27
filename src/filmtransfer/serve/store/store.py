"""The store of personal models: one front door, behind it users, photos, versions and trainings.

Every method is one transaction and may be called from any thread. When a writing one has returned, what it wrote
survives a kill and a power cut. A method that takes ``user`` sees that user's things only; everything else does not
exist (``NotFoundError``).
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from .database import Database
from .folder import Folder
from .migrate import migrate
from .objects import Objects
from .photos import Photos
from .records import ClassRow, Event, Photo, Quota, Source, State, Training, Used, User, Version
from .trainings import Trainings
from .users import Users
from .versions import Versions


class Store:
    def __init__(self, database: Database, folder: Folder | None) -> None:
        self._database = database
        self._objects = Objects(database, folder)
        self._users = Users(database, self._objects)
        self._photos = Photos(database, self._objects)
        self._versions = Versions(database, self._objects)
        self._trainings = Trainings(database)

    @classmethod
    def open(cls, database: str, objects: str | None = None) -> Store:
        """``database``: sqlite:///FILE or postgresql://…; ``objects``: where fsspec finds a folder, None: beside the rows."""
        opened = Database(database)
        try:
            migrate(opened)
            store = cls(opened, None if objects is None else Folder(objects))
        except BaseException:
            opened.close()
            raise
        store._objects.tidy()
        return store

    def close(self) -> None:
        self._database.close()

    def ping(self) -> None:
        """StoreGoneError unless database and objects answer."""
        with self._database.read() as connection:
            connection.execute(text("SELECT 1"))
        if self._objects.folder is not None:
            self._objects.folder.ping()

    # users

    def create_user(self, name: str, quota: Quota | None = None) -> tuple[User, str]:
        """The user and the token, which nobody can read again."""
        return self._users.create(name, quota)

    def user_of(self, token: str) -> User | None:
        return self._users.of_token(token)

    def new_token(self, user: str) -> str:
        """The old one ends."""
        return self._users.new_token(user)

    def user(self, user: str) -> User:
        return self._users.one(user)

    def users(self, limit: int | None = None) -> list[User]:
        """In the order of making; there may be a million, so say how many are wanted."""
        return self._users.all(limit)

    def used(self, user: str) -> Used:
        return self._users.used(user)

    def set_quota(self, user: str, quota: Quota) -> User:
        return self._users.set_quota(user, quota)

    def delete_user(self, user: str) -> None:
        """Every row and every object; SQLite's file and log keep no trace of them."""
        self._users.delete(user)

    # classes and photos

    def classes(self, user: str) -> list[ClassRow]:
        """In the order of making."""
        return self._photos.classes(user)

    def add_class(self, user: str, name: str) -> ClassRow:
        return self._photos.add_class(user, name)

    def rename_class(self, user: str, id: str, name: str) -> ClassRow:
        return self._photos.rename_class(user, id, name)

    def remove_class(self, user: str, id: str) -> None:
        """With its photos."""
        self._photos.remove_class(user, id)

    def add_photo(self, user: str, class_id: str, content: bytes, thumbnail: bytes, media_type: str) -> Photo:
        """The same bytes twice in one class: the first photo comes back, nothing is added."""
        return self._photos.add(user, class_id, content, thumbnail, media_type)

    def photos(self, user: str, class_id: str | None = None) -> list[Photo]:
        return self._photos.all(user, class_id)

    def photo(self, user: str, id: str) -> Photo:
        return self._photos.one(user, id)

    def photo_content(self, user: str, id: str) -> bytes:
        return self._photos.content(user, id)

    def thumbnail(self, user: str, id: str) -> bytes:
        return self._photos.thumbnail(user, id)

    def move_photo(self, user: str, id: str, class_id: str) -> Photo:
        return self._photos.move(user, id, class_id)

    def remove_photo(self, user: str, id: str) -> None:
        self._photos.remove(user, id)

    # versions

    def publish(
        self,
        user: str,
        content: bytes,
        source: Source,
        summary: dict[str, Any],
        training: str | None = None,
        worker: str | None = None,
    ) -> Version:
        """A new version, current at once. With ``training`` (and ``worker``): only while it runs (and is the worker's)."""
        return self._versions.publish(user, content, source, summary, training, worker)

    def versions(self, user: str) -> list[Version]:
        """Newest first."""
        return self._versions.all(user)

    def current(self, user: str) -> Version | None:
        return self._versions.current(user)

    def version(self, user: str, number: int) -> Version:
        return self._versions.one(user, number)

    def download(self, user: str, number: int) -> bytes:
        return self._versions.download(user, number)

    def make_current(self, user: str, number: int) -> Version:
        """Rollback: one write."""
        return self._versions.make_current(user, number)

    def delete_version(self, user: str, number: int) -> None:
        self._versions.delete(user, number)

    # trainings

    def ask_training(self, user: str, options: dict[str, Any]) -> Training:
        return self._trainings.ask(user, options)

    def trainings(self, user: str) -> list[Training]:
        """Newest first."""
        return self._trainings.all(user)

    def training(self, user: str, id: str) -> Training:
        return self._trainings.one(user, id)

    def waiting(self) -> int:
        """How many trainings of all users wait."""
        return self._trainings.waiting()

    def take_training(self, worker: str, lease: float = 60) -> Training | None:
        """The oldest one that waits, or whose worker died; two takers never get the same."""
        return self._trainings.take(worker, lease)

    def keep_training(self, id: str, worker: str, lease: float = 60) -> bool:
        """Renew the lease; with a lease of 0 give it back. False: it was cancelled or given to another; stop."""
        return self._trainings.keep(id, worker, lease)

    def tell(self, id: str, worker: str, kind: str, data: dict[str, Any]) -> Event:
        """ConflictError when it is not this worker's any more."""
        return self._trainings.tell(id, worker, kind, data)

    def events(self, user: str, id: str, after: int = 0) -> list[Event]:
        return self._trainings.events(user, id, after)

    def end_training(self, id: str, worker: str, state: State, message: str = "") -> None:
        """Adds the event "end" unless the worker has told it."""
        self._trainings.end(id, worker, state, message)

    def cancel_training(self, user: str, id: str) -> Training:
        """Adds the event "end" too; one that has ended stays as it is."""
        return self._trainings.cancel(user, id)

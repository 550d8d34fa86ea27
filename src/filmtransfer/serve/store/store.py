"""The store: a database, an object store, and one repository for each kind of record.

Every method of a repository is one transaction and may be called from any thread. When a method that writes has
returned, what it wrote survives a kill and a power failure. A method that takes ``user`` or ``project`` sees only the
records of that user or project; for all others it raises ``NotFoundError``. ``projects.resolve`` tells whether a project is
a user's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, text

from ...errors import UsageError
from .classes import ClassRepository
from .database import Database
from .migrate import is_migrated, migrate
from .object_folder import ObjectFolder
from .objects import ObjectStore
from .photos import PhotoRepository
from .projects import ProjectRepository
from .trainings import TrainingRepository
from .users import UserRepository
from .versions import VersionRepository


@dataclass(frozen=True)
class StoreLocation:
    """Where a store is: ``database`` is sqlite:///FILE or postgresql://…; ``objects`` is a folder or an fsspec URL.

    Without ``objects`` the bytes of photos and update files are stored in the database.
    """

    database: str
    objects: str | None = None

    @classmethod
    def of(
        cls, folder: Path | None = None, database: str | None = None, objects: str | None = None
    ) -> StoreLocation:
        """Return the location of a folder with fit.db and objects/, each of which a URL may replace."""
        if folder is None:
            if database is None:
                raise UsageError(
                    "The location of the store is missing.", "Use --folder FOLDER or --database URL."
                )
            return cls(database, objects)
        root = folder.expanduser().absolute()
        file = URL.create("sqlite", database=str(root / "fit.db")).render_as_string()
        return cls(database or file, objects or str(root / "objects"))


class Store:
    """The repositories ``users``, ``projects``, ``classes``, ``photos``, ``versions`` and ``trainings`` of one location."""

    def __init__(self, database: Database, folder: ObjectFolder | None) -> None:
        self.database = database
        self.objects = ObjectStore(database, folder)
        self.users = UserRepository(database, self.objects)
        self.projects = ProjectRepository(database, self.objects)
        self.classes = ClassRepository(database, self.objects)
        self.photos = PhotoRepository(database, self.objects)
        self.versions = VersionRepository(database, self.objects)
        self.trainings = TrainingRepository(database)

    @classmethod
    def open(cls, location: StoreLocation) -> Store:
        """Open a store; create or migrate its tables, and delete the objects of interrupted writes."""
        database = Database(location.database)
        try:
            with database.reserved():
                migrate(database)
            store = cls(database, None if location.objects is None else ObjectFolder(location.objects))
        except BaseException:
            database.close()
            raise
        store.objects.try_sweep()
        return store

    @staticmethod
    def exists(location: StoreLocation) -> bool:
        """Return whether there is a store at a location. Nothing is created."""
        if not Database.exists(location.database):
            return False
        database = Database(location.database)
        try:
            return is_migrated(database)
        finally:
            database.close()

    def close(self) -> None:
        """Close the connections to the database."""
        self.database.close()

    def is_writable(self) -> bool:
        """Return whether the database and the object store can be written; raise an error if they do not respond.

        An ``OSError`` is raised if this process can open no more files, which writing needs.
        """
        self.ping()
        with open(os.devnull, "rb"):
            pass
        return self.database.is_writable()

    def has_space(self, size: int) -> bool:
        """Return whether there is room for another object of this size, as far as is known."""
        return self.objects.has_space(size)

    def ping(self) -> None:
        """Raise ``StoreUnavailableError`` unless the database and the object store respond."""
        with self.database.read() as connection:
            connection.execute(text("SELECT 1"))
        if self.objects.folder is not None:
            self.objects.folder.ping()

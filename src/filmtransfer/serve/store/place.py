"""Where a store is: a folder on this machine, or a database and an object store by their URLs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL

from ...errors import UsageError


@dataclass(frozen=True)
class Place:
    """The two words that ``Store.open`` wants; also what a service tells its workers."""

    database: str
    objects: str | None

    @classmethod
    def of(cls, folder: Path | None = None, database: str | None = None, objects: str | None = None) -> Place:
        """A folder holds fit.db and objects/; either may be elsewhere. Without a folder bytes stay beside the rows."""
        if folder is None and database is None:
            raise UsageError("Where is the store?", "Say --folder FOLDER or --database URL.")
        if folder is None:
            assert database is not None
            return cls(database, objects)
        root = folder.expanduser().absolute()
        file = URL.create("sqlite", database=str(root / "fit.db")).render_as_string()
        return cls(database or file, objects or str(root / "objects"))

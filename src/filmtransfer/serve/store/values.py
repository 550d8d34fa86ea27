"""Values of database columns: validated names and ids, text and JSON that every database can store.

A name that a person chose is text to display, never a path or SQL, so markup and slashes are allowed. Characters that
cannot be displayed (control characters, unpaired surrogates) are refused.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from datetime import UTC, datetime

from ...errors import InputError
from .errors import not_found
from .records import JsonObject

MAX_NAME = 100  # characters
JOINERS = "\u200c\u200d"  # not "printable", but needed for emoji sequences and Persian
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


def clean_name(kind: str, name: str) -> str:
    """Return the name as it is stored: stripped and in Unicode's normal form C."""
    name = unicodedata.normalize("NFC", name.strip())
    if not name:
        raise InputError(f"The name of a {kind} is empty.", "Choose a name.")
    if len(name) > MAX_NAME:
        raise InputError(
            f"The name of a {kind} has {len(name)} characters.", f"Use at most {MAX_NAME} characters."
        )
    if not all(letter.isprintable() or letter in JOINERS for letter in name):
        raise InputError(
            f"The name of a {kind} has characters that cannot be displayed: {name!a}.",
            "Remove line breaks and control characters.",
        )
    return name


def new_id() -> str:
    """Return a new random id."""
    return secrets.token_hex(8)


def check_id(kind: str, value: str) -> str:
    """Return an id of the right format; any other value is not found, without a query."""
    if not _ID.fullmatch(value):
        raise not_found(kind)
    return value


def check_number(number: int) -> int:
    """Return a version number that the database can hold; any other is not found."""
    if not 0 < number < 2**31:
        raise not_found("version")
    return number


def storable(text: str, longest: int = 2000) -> str:
    """Return a message that every database can store: without unpaired surrogates and NUL."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return text[:longest]


def to_json(data: JsonObject) -> str:
    """Return JSON in ASCII; NaN and infinity are refused, since they are not JSON."""
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError as error:
        raise InputError(f"This cannot be stored as JSON: {error}.", "Use finite numbers.") from None


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)

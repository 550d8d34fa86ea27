"""Names that people give, and names that we give.

A person's name for a thing is text to show, never a path or a piece of SQL: markup and slashes are harmless. What
cannot be shown (control characters, half a surrogate pair) is refused, so every database can keep what we accept.
"""

from __future__ import annotations

import json
import re
import secrets
import unicodedata
from datetime import UTC, datetime
from typing import Any

from ...errors import InputError
from .errors import no_such

LONGEST = 100
JOINERS = "\u200c\u200d"  # not "printable", yet emoji families and Persian words are written with them
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)


def clean_name(what: str, name: str) -> str:
    """The name as it is kept: stripped, NFC."""
    name = unicodedata.normalize("NFC", name.strip())
    if not name:
        raise InputError(f"The name of a {what} is empty.", "Give it a name.")
    if len(name) > LONGEST:
        raise InputError(
            f"The name of a {what} has {len(name)} characters.", f"Use {LONGEST} characters at most."
        )
    if not all(letter.isprintable() or letter in JOINERS for letter in name):
        raise InputError(
            f"The name of a {what} has characters that cannot be shown: {name!a}.",
            "Leave out line breaks and control characters.",
        )
    return name


def new_id() -> str:
    return secrets.token_hex(8)


def known_id(what: str, value: str) -> str:
    """An id that could be one of ours; anything else need not trouble the database."""
    if not _ID.fullmatch(value):
        raise no_such(what)
    return value


def known_number(number: int) -> int:
    if not 0 < number < 2**31:
        raise no_such("version")
    return number


def plain(text: str, longest: int = 2000) -> str:
    """A message that every database can keep: no half characters, no NUL."""
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")
    return text[:longest]


def packed(data: dict[str, Any]) -> str:
    """A dictionary as JSON in ASCII; NaN is not JSON, and would reach the browser as nonsense."""
    try:
        return json.dumps(data, allow_nan=False)
    except ValueError as error:
        raise InputError(f"This cannot be kept as JSON: {error}.", "Use finite numbers.") from None


def now() -> datetime:
    return datetime.now(UTC)

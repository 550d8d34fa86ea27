"""Changes of inputs: of bytes, and of JSON documents."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

INTERESTING = (
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    127,
    128,
    255,
    256,
    1000,
    32767,
    32768,
    65535,
    65536,
    2**24,
    2**31 - 1,
    2**31,
)
LARGE = (2**32 - 1, 2**32, 2**40, 2**53, 2**63 - 1, 2**63, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 255, 10**9, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e-320, 1e38),
    *(1e308, float("nan"), float("inf"), float("-inf"), "", "a", "None", "0", "1e999", "\0", "\ud800", "ß", "a" * 3000),
    *([], {}, [[]], [0] * 50, {"": ""}, [None], ["a", "a"]),
)  # fmt: skip


def mutate_bytes(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return the input after one to eight changes; ``others`` are inputs whose parts may be taken."""
    content = bytearray(data)
    for _ in range(1 << rng.randrange(4)):
        rng.choice(CHANGES)(content, others, rng)
    return bytes(content)


def _flip(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if content:
        content[_index(content, rng)] ^= 1 << rng.randrange(8)


def _set(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if content:
        content[_index(content, rng)] = rng.randrange(256)


def _number(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    """Overwrite bytes with a number of 1, 2, 4 or 8 bytes that often is a limit."""
    width = rng.choice((1, 2, 4, 8))
    if len(content) >= width:
        start = min(_index(content, rng), len(content) - width)
        number = rng.choice(INTERESTING + LARGE) % (1 << 8 * width)
        content[start : start + width] = number.to_bytes(width, rng.choice(("little", "big")))


def _digits(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    """Replace a decimal number."""
    places = [i for i, byte in enumerate(content[:4096]) if 48 <= byte <= 57]
    if places:
        start = end = rng.choice(places)
        while end < len(content) and 48 <= content[end] <= 57:
            end += 1
        content[start:end] = str(rng.choice((-1, *INTERESTING, *LARGE, 1e308))).encode()


def _remove(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if content:
        start = _index(content, rng)
        del content[start : start + _length(rng)]


def _truncate(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if content:
        del content[_index(content, rng) :]


def _repeat(content: bytearray, _: Sequence[bytes], rng: random.Random) -> None:
    if content and len(content) < 1 << 20:
        start = _index(content, rng)
        content[start:start] = content[start : start + _length(rng)] * rng.choice((1, 1, 2, 10))


def _take(content: bytearray, others: Sequence[bytes], rng: random.Random) -> None:
    """Insert or overwrite with a part of another input."""
    other = rng.choice(others)
    if other:
        part = other[_index(other, rng) :][: _length(rng)]
        start = _index(content, rng) if content else 0
        content[start : start + rng.choice((0, len(part)))] = part


CHANGES: tuple[Callable[[bytearray, Sequence[bytes], random.Random], None], ...] = (
    *(_flip, _set, _number, _digits, _remove, _truncate, _repeat, _take, _number, _set),
)


def _index(content: bytes | bytearray, rng: random.Random) -> int:
    """Return an index; half of them in the beginning, where the headers are."""
    return rng.randrange(min(len(content), rng.choice((64, 512, 1 << 30))))


def _length(rng: random.Random) -> int:
    return rng.choice((1, 1, 2, 4, 8, 32, rng.randrange(1, 512)))


def mutate_json(document: Any, rng: random.Random) -> Any:
    """Return the document with one value replaced, removed, renamed, added or put elsewhere."""
    copy = json.loads(json.dumps(document))
    places = list(_places(copy))
    if not places:
        return rng.choice(VALUES)
    container, key = rng.choice(places)
    change = rng.randrange(6)
    if change == 0:
        del container[key]
    elif change == 1:  # another value of the document
        other, place = rng.choice(places)
        container[key] = json.loads(json.dumps(other[place]))
    elif change == 2 and isinstance(container, list):
        container.insert(key, container[key])
    elif change == 2:
        container[rng.choice(names(copy))] = container.pop(key)
    elif change == 3 and isinstance(container[key], (int, float)):
        container[key] = rng.choice(
            (container[key] + 1, container[key] - 1, -container[key], container[key] * 1e9)
        )
    elif (
        change >= 4 and isinstance(container[key], str) and (change == 4 or container[key][:1] in ("{", "["))
    ):
        container[key] = _mutate_text(container[key], rng)
    else:
        container[key] = rng.choice(VALUES)
    return copy


def names(document: Any) -> list[str]:
    """Return the keys of all tables in a document, and one that is in none."""
    return [*sorted({key for _, key in _places(document) if isinstance(key, str)}), "x"]


def _mutate_text(text: str, rng: random.Random) -> str:
    """Return the text with other characters, or with another value if it is a JSON document."""
    if text[:1] in ("{", "[") and rng.random() < 0.8:
        try:
            return json.dumps(mutate_json(json.loads(text), rng))
        except ValueError:
            pass
    return mutate_bytes(text.encode("utf-8", "replace"), [b"x"], rng).decode("latin1")


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Return the container and the key of every value."""
    found: list[tuple[Any, Any]] = []
    level = [document]
    while level:
        container = level.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                level.append(container[key])
    return found

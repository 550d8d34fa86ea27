"""Numbers as words for people."""

from __future__ import annotations

SMALL = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def percent(share: float, images: int = 0) -> str:
    """A share as a percentage, with no more digits than the images can tell; never a rounded 100 or 0."""
    digits = 1 if images >= 200 else 0
    shown = 100 * share
    if 0 < share < 1:
        step = 10.0**-digits
        shown = min(max(shown, step), 100 - step)
    return f"{shown:.{digits}f}%"


def count(number: int, one: str, many: str = "") -> str:
    """'one photo', '3 photos'."""
    word = one if number == 1 else many or f"{one}s"
    return f"{SMALL[number] if number < 2 else f'{number:,}'} {word}"


def times(number: int) -> str:
    """'once', 'twice', '3 times'."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def spelled(number: int) -> str:
    return SMALL[number] if number < len(SMALL) else f"{number:,}"


def sentence(words: str) -> str:
    """With a capital to begin with."""
    return words[:1].upper() + words[1:]


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"

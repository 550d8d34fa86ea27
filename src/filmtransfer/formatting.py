"""Numbers as text for people: percentages, file sizes, durations and counts; and text of others made safe to print."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Protocol

NUMBER_WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
MANY_IMAGES = 200  # from so many images on, a tenth of a percent means something

# What a terminal obeys or hides instead of showing it: control characters other than tab and line end, marks of the
# writing direction, invisible letters and separators, tags, unpaired surrogates. Joiners stay: emoji and Persian need them.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
UNPRINTABLE_IN_LINE = re.compile(rf"{UNPRINTABLE.pattern}|[\t\n]")


def printable(text: str) -> str:
    """Return text with the characters that a terminal would obey or hide spelled out, as in \\x1b."""
    return UNPRINTABLE.sub(_spell, text)


def printable_line(text: str) -> str:
    """Return text as one line, so that a name in it cannot pass for a line of its own."""
    return UNPRINTABLE_IN_LINE.sub(_spell, text)


def _spell(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def finite_json(value: Any) -> Any:
    """Return a document with null for numbers that JSON does not have: a deviation of one value, for example."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: finite_json(one) for name, one in value.items()}
    return [finite_json(one) for one in value] if isinstance(value, list | tuple) else value


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage; only exactly 0 and 1 are shown as 0% and 100%."""
    shown = 100 * share
    if 0 < share < 1:
        step = 10.0**-digits
        shown = min(max(shown, step), 100 - step)
    return f"{shown:.{digits}f}%"


class MeasuredAccuracy(Protocol):
    """An accuracy with its 95% interval, measured on some images."""

    @property
    def accuracy(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def images(self) -> int: ...


def accuracy_figures(measured: MeasuredAccuracy) -> tuple[str, str, str]:
    """Return an accuracy and the ends of its interval as percentages with as many digits as the images support."""
    digits = digits_for(measured.images)
    return percent(measured.accuracy, digits), *percent_interval(measured.low, measured.high, digits)


def percent_interval(low: float, high: float, digits: int = 0) -> tuple[str, str]:
    """Return the ends of an interval as percentages, rounded outwards: what it contains stays inside."""
    scale = 10**digits
    lower, upper = (round(100 * scale * end, 6) for end in (low, high))  # 28.999999999 is 29
    return f"{math.floor(lower) / scale:.{digits}f}%", f"{math.ceil(upper) / scale:.{digits}f}%"


def accuracy_text(measured: MeasuredAccuracy) -> str:
    """Return an accuracy with its interval: '90% (95% interval 79% to 96%)'."""
    accuracy, low, high = accuracy_figures(measured)
    return f"{accuracy} (95% interval {low} to {high})"


def digits_for(images: int) -> int:
    """Return how many digits a percentage measured on so many images deserves."""
    return 1 if images >= MANY_IMAGES else 0


def file_size(count: int) -> str:
    """Return a number of bytes in KB or MB."""
    return f"{count / 1000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def count(number: int, singular: str, plural: str = "") -> str:
    """Return a number with its noun: 'one photo', '3 photos'."""
    noun = singular if number == 1 else plural or f"{singular}s"
    return f"{NUMBER_WORDS[number] if number < 2 else f'{number:,}'} {noun}"


def times(number: int) -> str:
    """Return 'once', 'twice', '3 times'."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def spell_out(number: int) -> str:
    """Return a number up to twelve as a word, larger ones in digits."""
    return NUMBER_WORDS[number] if number < len(NUMBER_WORDS) else f"{number:,}"


def capitalize(sentence: str) -> str:
    """Return the sentence with a capital first letter; the rest stays as it is."""
    return sentence[:1].upper() + sentence[1:]


def list_names(names: Collection[str], most: int = 10) -> str:
    """Return names in alphabetical order, or the first of many: 'anna, bob and 3 more'."""
    shown = ", ".join(sorted(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"

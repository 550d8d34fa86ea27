"""Numbers as text for people: percentages, file sizes, durations and counts."""

from __future__ import annotations

NUMBER_WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()  # noqa: SIM905
MANY_IMAGES = 200  # from so many images on, a tenth of a percent means something


def percent(share: float, digits: int = 1) -> str:
    """Return a share as a percentage; only exactly 0 and 1 are shown as 0% and 100%."""
    shown = 100 * share
    if 0 < share < 1:
        step = 10.0**-digits
        shown = min(max(shown, step), 100 - step)
    return f"{shown:.{digits}f}%"


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

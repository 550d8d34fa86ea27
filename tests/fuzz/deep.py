"""A bug behind several conditions, which test_fuzz.py finds by coverage."""

from __future__ import annotations


def run(data: bytes) -> None:
    content = data.ljust(20, b"\0")
    if content[0] != 5:
        return
    if content[4] != 6:
        return
    if content[8] != 7:
        return
    if content[12] == 3:
        raise ZeroDivisionError

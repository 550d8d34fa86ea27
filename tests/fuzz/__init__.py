"""Fuzzing of everything that reads bytes from outside: ``make fuzz``, docs/development.md.

A target is a module of ``targets`` with ``seeds() -> list[bytes]``, valid inputs made in code, and ``run(data: bytes)``,
which raises only for a bug. It may have ``mutate(data, rng) -> bytes``, which changes an input without destroying its
outer form, and ``TRACED``, the folders of further modules whose coverage counts.
"""

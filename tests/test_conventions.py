"""The source keeps its own conventions: sizes, names, docstrings, and the words of the field."""

from __future__ import annotations

import pytest

from filmtransfer.heads import HEADS
from tests.conventions import (
    CHECKS,
    MAX_ANY_LINES,
    any_lines,
    glossary,
    head_names,
    sources,
    undocumented_functions,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_no_source_file_violates_a_convention(check):
    assert not (violations := check(sources())), "\n".join(violations)


def test_few_lines_use_any():
    assert len(any_lines(sources())) < MAX_ANY_LINES


@pytest.fixture
def check(tmp_path, monkeypatch):
    """Return what a check says of a text."""
    monkeypatch.setattr("tests.conventions.PACKAGE", tmp_path)

    def check(function, text):
        file = tmp_path / "example.py"
        file.write_text(text)
        return function([file])

    return check


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize(
    "code",
    [
        "if head.name == NAME: pass",
        "if NAME == head: pass",
        "if head != NAME: pass",
        'if head in (NAME, "other"): pass',
        'if head not in {"other", NAME}: pass',
        "if head in [NAME]: pass",
        "match head:\n    case NAME: pass",
        'match head:\n    case "other" | NAME: pass',
        "sizes = {NAME : 1}",
        "sizes = {NAME: 1}",
    ],
)
def test_every_spelling_of_a_decision_by_head_name_is_found(check, code, name):
    for quoted in (f'"{name}"', f"'{name}'"):
        assert len(check(head_names, code.replace("NAME", quoted))) == 1


@pytest.mark.parametrize(
    "code",
    [
        'head = make_head("lda")',
        '"""The head is == "lda"."""',
        'if kind == "other": pass',
        "x = {**a, 'b': 1}",
    ],
)
def test_a_head_name_that_decides_nothing_is_no_violation(check, code):
    assert not check(head_names, code)


@pytest.mark.parametrize(
    ("text", "violations"),
    [
        ('"""Strangers are judged."""', 2),
        ("# The transformer judges.", 1),
        ("# judges: the former name", 0),
        ("# It was told.", 1),
        ('code = "store_gone"', 0),
        ("# The file is gone.", 1),
    ],
)
def test_words_of_the_glossary_are_found(check, text, violations):
    assert len(check(glossary, text)) == violations


@pytest.mark.parametrize(
    ("body", "violations"),
    [("...", 0), ('"""Do it."""', 0), ("print()", 1), ("1", 1), ("pass", 1), ("...\n    ...", 1)],
)
def test_only_an_ellipsis_needs_no_docstring(check, body, violations):
    assert len(check(undocumented_functions, f"def run():\n    {body}\n")) == violations

"""The source keeps its own conventions: sizes, names, docstrings, and the words of the field."""

from __future__ import annotations

import pytest

from tests.conventions import CHECKS, MAX_ANY_LINES, any_lines, glossary, head_names, sources


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_no_source_file_violates_a_convention(check):
    assert not (violations := check(sources())), "\n".join(violations)


def test_few_lines_use_any():
    assert len(any_lines(sources())) < MAX_ANY_LINES


def test_the_checks_find_what_they_look_for(tmp_path, monkeypatch):
    file = tmp_path / "example.py"
    file.write_text('"""Strangers are judged."""\nif head.name == "lda":\n    sizes = {"qda": 1}\n')
    monkeypatch.setattr("tests.conventions.PACKAGE", tmp_path)
    assert len(glossary([file])) == 2
    assert len(head_names([file])) == 2

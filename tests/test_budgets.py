"""Every limit on input from outside says what it limits, and docs/security.md lists it."""

from __future__ import annotations

from scripts.make_budgets import TARGET, constants, page, service_settings


def test_every_limit_says_of_what_it_is():
    limits = [limit for section in constants().values() for limit in section] + service_settings()
    assert len(limits) > 60
    assert [name for name, _, about in limits if not about] == []


def test_a_name_stands_for_one_limit():
    names = [name for section in constants().values() for name, _, _ in section]
    assert len(names) == len(set(names))


def test_the_page_lists_the_present_limits():
    assert TARGET.read_text("utf-8") == page(), "run 'make docs'"

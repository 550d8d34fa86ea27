"""Starting over keeps the access; deleting the account is an act of its own."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import TOKEN, Fake
from .states import announced, classify, deleted, several, starting_over, train

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def test_starting_over_keeps_the_access(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("404",))  # thumbnails that were on their way
    classify(page)
    starting_over(page, service)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your access stays: the same link opens this page again.")
    expect(dialog.get_by_role("button", name="Keep everything")).to_be_focused()
    page.keyboard.press("Escape")
    assert "DELETE /api/me/data" not in fake.seen
    expect(page.get_by_role("button", name="Start over")).to_be_focused()
    starting_over(page, service)
    dialog.get_by_role("button", name="Delete and start over").click()
    announced(page, "Everything is deleted. You have a new, empty project.")
    expect(page.locator("#main")).to_be_focused()
    expect(page.locator(".class")).to_have_count(0)
    expect(page.locator(".answers")).to_be_hidden()
    expect(page.locator("#who")).to_have_text("Signed in as me")
    assert "DELETE /api/me" not in fake.seen
    page.goto(f"{service.url}#token={TOKEN}")
    page.reload()
    expect(page.get_by_role("heading", name="Teach it your own things")).to_be_visible()


def test_starting_over_says_that_it_deletes_all_projects(
    opened: Opener, service: Running, fake: Fake
) -> None:
    several(fake)
    page = opened(service.url)
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        "This deletes all 3 projects with their classes, photos and versions."
    )


def test_the_account_is_deleted_and_the_old_link_says_so(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    page = opened(service.url, expected=("401", "404"))
    deleted(page, service)
    assert fake.deleted
    expect(page.locator("#who")).to_have_text("")
    expect(page.locator("#work")).to_be_hidden()
    expect(page.locator("#deleted")).to_contain_text("The link that you used will not work any more.")
    page.goto("about:blank")
    page.goto(f"{service.url}#token={TOKEN}")
    expect(page.locator("#sign-in-error")).to_contain_text("The account may have been deleted")
    expect(page.locator("#sign-in-error")).not_to_contain_text(
        "fit user token"
    )  # that is for the administrator
    expect(page.get_by_label("Access token")).to_be_focused()

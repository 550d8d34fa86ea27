"""Failures: the service is unavailable, the token is unknown, the quota is full."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import TOKEN, Fake, failure
from .states import fill, jpeg, train

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def test_the_page_recovers_when_the_service_restarts(opened: Opener) -> None:
    service = Running(Fake())
    fill(service.fake)
    try:
        page = opened(service.url, expected=("ERR_", "Failed to load"))
        page.get_by_role("button", name="Train", exact=True).click()
        service.fake.add_event("progress", step=1, steps=9, loss=0.5, accuracy=0.9, seconds_left=10)
        expect(page.locator("#train-status")).to_contain_text("Step 1 of 9")
        service.stop()
        page.locator(".class input[type=file]").first.set_input_files([jpeg(0, 50), jpeg(0, 51)])
        expect(
            page.get_by_text("The service does not respond. Nothing that was saved is lost")
        ).to_be_visible()
        expect(page.locator(".class").first).to_contain_text("Adding 1 of 2")
        service.fake.add_event("progress", step=2, steps=9, loss=0.5, accuracy=0.9, seconds_left=9)
        service.start()
        expect(page.locator("#offline")).to_be_hidden()
        expect(
            page.get_by_role("button", name="Photo 8 of 8, cup")
        ).to_be_visible()  # the waiting uploads are complete
        expect(page.locator("#train-status")).to_contain_text("Step 2 of 9")  # and the events continue
        service.fake.add_event("end", state="done", message="")
        expect(page.get_by_role("button", name="Train again")).to_be_visible()
    finally:
        service.stop()


def test_an_unknown_token_asks_for_another(opened: Opener, service: Running, fake: Fake) -> None:
    page = opened(service.url, token="wrong", expected=("401",))
    expect(page.locator("#sign-in-error")).to_contain_text(
        "The service does not know this link or token. The account may have been deleted, or its token replaced."
    )
    expect(page.get_by_label("Access token")).to_be_focused()
    page.get_by_label("Access token").fill(TOKEN)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("heading", name="Teach it your own things")).to_be_visible()
    assert "token" not in page.url
    fake.failures["POST /api/classes"] = [failure(401, "unauthorized", "The token is not known.")]
    page.get_by_label("Name of a new class").fill("cup")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Access token")).to_be_focused()  # it became invalid
    assert page.evaluate("sessionStorage.getItem('filmtransfer.token')") is None


def test_the_admins_token_is_refused(opened: Opener, service: Running, fake: Fake) -> None:
    fake.failures["GET /api/me"] = [failure(403, "forbidden", "This is the administrator's token.")]
    page = opened(service.url, expected=("403",))
    expect(page.locator("#sign-in-error")).to_contain_text("Use the token of a user.")


@pytest.mark.usefixtures("fake")
def test_the_token_is_removed_from_the_address_and_stored_for_the_tab(
    opened: Opener, service: Running
) -> None:
    page = opened(service.url)
    expect(page.locator("#work")).to_be_visible()
    assert page.url == service.url
    page.reload()
    expect(page.locator("#work")).to_be_visible()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


def test_uploads_wait_when_busy_and_stop_when_full(opened: Opener, service: Running, fake: Fake) -> None:
    cup = fake.add_class("cup")
    page = opened(service.url, expected=("429", "507"))
    where = f"POST /api/classes/{cup}/photos"
    fake.failures[where] = [failure(429, "rate", "Too many requests.", Retry_After="1")]
    page.locator(".class input[type=file]").set_input_files([jpeg(0, 1)])
    expect(page.locator(".class .tile")).to_have_count(1)
    fake.failures[where] = [
        failure(507, "quota", "You have 2000 of 2000 photos.", "Remove some first.") for _ in range(3)
    ]
    page.locator(".class input[type=file]").set_input_files([jpeg(0, i) for i in range(2, 30)])
    expect(page.locator(".notice")).to_contain_text("You have 2000 of 2000 photos.")
    expect(page.locator(".notice-hint")).to_have_text("Remove some first.")
    expect(page.locator(".class .tile")).to_have_count(1)


def test_changes_of_another_tab_are_loaded(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("404",))
    first = next(iter(fake.photos))
    fake.failures[f"DELETE /api/photos/{first}"] = [
        failure(404, "not_found", "There is no such photo.", "It may have been removed elsewhere.")
    ]
    page.get_by_role("button", name="Photo 1 of 6, cup").focus()
    del fake.photos[first]
    page.keyboard.press("Delete")
    expect(page.locator(".notice")).to_contain_text("It may have been removed elsewhere.")
    expect(page.get_by_role("button", name="Photo 1 of 5, cup")).to_be_visible()


def test_live_predictions_continue_after_a_busy_service(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    fake.failures["POST /api/predictions"] = [failure(503, "busy", "The queue is full.", Retry_After="1")]
    page = opened(service.url, expected=("503",))
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer .what")).to_have_text("cup")
    expect(page.locator(".notice")).to_be_hidden()

"""The camera: recording, live predictions and their announcements."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import Fake
from .states import live, prediction, train, until

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def test_photos_are_recorded_while_the_button_is_held(opened: Opener, service: Running, fake: Fake) -> None:
    cup = fake.add_class("cup")
    page = opened(service.url)
    page.get_by_role("button", name="Take photos for cup").click()
    hold = page.get_by_role("button", name="Hold to record")
    expect(hold).to_be_focused()
    until(page, "document.querySelector('.recorder video').videoWidth > 0")
    expect(page.get_by_label("Camera", exact=True).first).to_be_visible()  # two cameras: one can be chosen
    hold.hover()
    page.mouse.down()
    expect(page.locator(".class .tile")).not_to_have_count(0)
    until(page, "document.querySelectorAll('.class .tile').length >= 3")
    page.mouse.up()
    expect(page.locator("#polite")).to_contain_text("recorded for cup.")
    taken = len(fake.photos)
    assert taken >= 3
    assert {photo["class_id"] for photo in fake.photos.values()} == {cup}
    page.keyboard.press("Space")  # a short press: one photo
    expect(page.locator(".class .tile")).to_have_count(taken + 1)
    page.get_by_role("button", name="Close the camera").click()
    expect(page.get_by_role("button", name="Take photos for cup")).to_be_focused()
    expect(page.locator(".recorder")).to_have_count(0)
    assert len(fake.photos) == taken + 1


def test_live_predictions_are_shown_and_announced(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url)
    live(page, service)
    expect(page.locator("#polite")).to_have_text("cup, 93 percent.")
    fake.answer = prediction("plate", 0.71)
    expect(page.locator(".answer")).to_have_text("plate 71%")
    expect(page.locator("#polite")).to_have_text("plate, 71 percent.")
    fake.answer = prediction("cup", 0.4, unknown=True)
    expect(page.locator(".answer")).to_have_text("None of these")
    expect(page.locator("#polite")).to_have_text("None of these.")
    page.get_by_role("button", name="Stop camera").click()
    expect(page.locator("#try-card video")).to_be_hidden()
    assert page.evaluate("document.querySelector('#try-card video').srcObject") is None


@pytest.mark.usefixtures("fake")
def test_live_predictions_are_announced_at_most_every_two_seconds(opened: Opener, service: Running) -> None:
    page = opened(service.url)
    page.clock.install()
    page.evaluate(
        """async () => {
          const { liveAnnouncer } = await import('/assets/announce.js');
          window.announced = [];
          new MutationObserver(() => polite.textContent && announced.push(polite.textContent)).observe(polite, { childList: true });
          window.announcer = liveAnnouncer();
          const names = ['cup', 'plate'];
          let n = 0;
          setInterval(() => { n += 1; announcer.update(names[n % 2], 0.9, names[n % 2] + ' ' + n); }, 100);
        }"""
    )
    page.clock.run_for(2000)
    assert len(page.evaluate("announced")) == 1
    page.clock.run_for(10_000)
    assert 3 <= len(page.evaluate("announced")) <= 6


@pytest.mark.usefixtures("fake")
def test_the_same_prediction_is_not_repeated(opened: Opener, service: Running) -> None:
    page = opened(service.url)
    page.clock.install()
    page.evaluate(
        """async () => {
          const { liveAnnouncer } = await import('/assets/announce.js');
          window.announced = [];
          new MutationObserver(() => polite.textContent && announced.push(polite.textContent)).observe(polite, { childList: true });
          const announcer = liveAnnouncer();
          setInterval(() => announcer.update('cup', 0.9 + 0.05 * Math.random(), 'cup, 9x percent'), 100);
        }"""
    )
    page.clock.run_for(20_000)
    assert page.evaluate("announced") == ["cup, 9x percent"]


def test_predictions_are_spoken_if_enabled(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url)
    page.evaluate("() => { window.spoken = []; speechSynthesis.speak = (words) => spoken.push(words.text); }")
    page.get_by_label("Speak predictions").check()
    live(page, service)
    until(page, "spoken.length > 0")
    assert page.evaluate("spoken[0]") == "cup, 93 percent."


def test_a_refused_camera_shows_what_to_do(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url)
    page.evaluate(
        "() => { navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('no', 'NotAllowedError'); }; }"
    )
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".notice")).to_contain_text("Allow it for this page in the browser's address bar")

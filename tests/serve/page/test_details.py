"""Details: messages beside what they are about, the last valid photo, skip links, focus rings, phones, plurals."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import TOKEN, Fake, failure
from .states import EXPECTED, LETTER, STATES, announced, classify, fill, jpeg, pictures, train

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]

# Text that the ring of the focused element crosses. Text inside the element is not outside its ring.
CROSSED = """() => {
  const focused = document.activeElement;
  const style = getComputedStyle(focused);
  if (style.outlineStyle === 'none') return [];
  const width = parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset);
  const box = focused.getBoundingClientRect();
  const ring = { left: box.left - width, right: box.right + width, top: box.top - width, bottom: box.bottom + width };
  const crossed = [];
  const above = focused.closest('dialog') ?? document.body; // the page under a dialog does not matter
  const texts = document.createTreeWalker(above, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (!node.data.trim() || focused.contains(node) || node.parentElement.closest('.visually-hidden, .skip')) continue;
    if (!node.parentElement.checkVisibility({ visibilityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const size = parseFloat(getComputedStyle(node.parentElement).fontSize);
      const air = Math.max(0, (rect.height - size) / 2); // above and below the letters
      if (rect.left < ring.right && rect.right > ring.left && rect.top + air < ring.bottom && rect.bottom - air > ring.top)
        crossed.push((focused.ariaLabel || focused.textContent || focused.id).slice(0, 40) + ' × ' + node.data.slice(0, 40));
    }
  }
  return crossed;
}"""


def overlap(one: Locator, other: Locator) -> bool:
    a, b = one.bounding_box(), other.bounding_box()
    assert a is not None
    assert b is not None
    return (
        a["x"] < b["x"] + b["width"]
        and b["x"] < a["x"] + a["width"]
        and a["y"] < b["y"] + b["height"]
        and b["y"] < a["y"] + a["height"]
    )


def test_a_message_stands_beside_its_field_and_ends_with_its_cause(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fake.add_class("plate")
    page = opened(service.url, expected=("409",), width=390)
    field, notice = page.get_by_label("Name of a new class"), page.locator("#new-class .notice")
    for name, message in (
        ("", "A class needs a name."),
        ("plate", "There is a class called 'plate' already."),
    ):
        field.fill(name)
        field.press("Enter")
        expect(notice).to_contain_text(message)
        expect(page.locator("#assertive")).to_contain_text(message)
        expect(field).to_be_focused()
        expect(field).to_have_accessible_description(notice.locator(".text").inner_text().replace("\n", " "))
        assert not overlap(notice, field)
        field.press("End")
        page.keyboard.type("x")
        expect(notice).to_have_count(0)
        assert field.get_attribute("aria-invalid") is None


def test_a_message_at_the_edge_does_not_cover_the_focus(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("500",))
    tile = page.get_by_role("button", name="Photo 1 of 6, cup")
    fake.failures = {
        f"DELETE /api/photos/{key}": [failure(500, "oops", "It failed.")] * 3 for key in fake.photos
    }
    tile.focus()
    for height in (900, 420, 330):  # the tile is in the middle of the window, or at its lower edge
        page.set_viewport_size({"width": 390, "height": height})
        page.keyboard.press("Delete")
        expect(page.locator(".notice.floating")).to_contain_text("It failed.")
        tile.focus()
        assert not overlap(page.locator(".notice.floating"), tile), height
        page.get_by_role("button", name="Dismiss the message").click()
        expect(tile).to_be_focused()


def test_messages_end_when_they_are_no_longer_true(opened: Opener, service: Running, fake: Fake) -> None:
    cup = fake.add_class("cup", pictures(0, 2))
    page = opened(service.url, expected=("507",))
    page.get_by_role("button", name="Train", exact=True).press("Enter")
    expect(page.locator("#train .notice")).to_contain_text("It needs at least two classes.")
    page.get_by_label("Name of a new class").fill("plate")
    page.keyboard.press("Enter")
    expect(page.locator("#train .notice")).to_have_count(0)
    fake.failures[f"POST /api/classes/{cup}/photos"] = [
        failure(507, "quota", "The quota is 2.", "Remove some.")
    ]
    page.locator(".class input[type=file]").first.set_input_files([jpeg(0, 9)])
    expect(page.locator(".class .notice")).to_contain_text("The quota is 2.")
    page.get_by_role("button", name="Photo 1 of 2, cup").press("Delete")
    expect(page.locator(".class .notice")).to_have_count(0)


def test_a_message_in_a_dialog_is_above_it(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("500",))
    page.get_by_role("button", name="Photo 1 of 6, cup").click()
    fake.failures[f"DELETE /api/photos/{next(iter(fake.photos))}"] = [failure(500, "oops", "It failed.")]
    page.get_by_role("button", name="Remove photo").click()
    expect(page.get_by_role("dialog").locator(".notice")).to_contain_text("It failed.")


def test_an_announcement_is_not_lost_when_another_one_follows(
    opened: Opener, service: Running, fake: Fake
) -> None:
    """The version that is chosen and its answer about the photo are announced within milliseconds."""
    train(fake)
    page = opened(service.url)
    classify(page)
    announced(page, "cup, 93 percent.")
    page.evaluate(
        """() => {
          window.heard = '';
          new MutationObserver(() => { heard += polite.textContent; }).observe(polite, { childList: true });
        }"""
    )
    page.clock.install()
    page.evaluate(
        """async () => {
          const { announce, announcePrediction } = await import('/assets/announce.js');
          announce('Version 1 is in use now.');
          setTimeout(() => announcePrediction('plate, 50 percent.'), 200);
          setTimeout(() => announcePrediction('cup, 60 percent.'), 300);
        }"""
    )
    page.clock.run_for(500)
    assert page.evaluate("heard") in ("Version 1 is in use now.", "")
    page.clock.run_for(3000)
    heard = page.evaluate("heard")
    assert heard.startswith("Version 1 is in use now.")
    assert heard.endswith("cup, 60 percent.")
    assert "plate" not in heard  # the answer that was replaced before it could be read


def test_a_file_that_cannot_be_read_keeps_the_last_photo_and_answer(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    page = opened(service.url, expected=("400",))
    classify(page)
    source = page.locator(".asked").get_attribute("src")
    page.set_input_files("#try-file", LETTER)
    notice = page.locator("#try .notice")
    expect(notice).to_contain_text(
        "letter.txt could not be classified: This is not an image that can be read."
    )
    expect(notice).to_contain_text("Use JPEG, PNG, WebP or HEIC.")
    expect(page.locator(".asked")).to_be_visible()
    assert page.locator(".asked").get_attribute("src") == source
    expect(page.locator(".answer")).to_have_text("cup 93%")
    expect(page.locator(".working")).to_have_text("")
    page.set_input_files("#try-file", jpeg(1, 6, "other.jpg"))
    expect(page.locator(".asked")).to_have_attribute("alt", "The photo other.jpg")
    expect(notice).to_have_count(0)


def test_the_first_answer_does_not_stand_beside_a_training_that_waits(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fill(fake)
    page = opened(service.url)
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train-status")).to_have_text("Waiting for a worker…")
    fake.publish("first", 0.8)
    fake.add_event("version", number=1, stage="first")
    expect(page.locator("#train-status")).to_have_text("A first classifier is ready to try. Fine-tuning…")


def test_only_accuracies_are_drawn_on_the_axis_of_percent(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    page = opened(service.url)
    expect(page.locator(".curve path")).to_have_count(1)
    expect(page.locator(".curve path.accuracy")).to_be_visible()
    expect(page.locator(".curve figcaption")).to_have_text("training accuracyestimated accuracy")
    assert "loss" not in page.locator(".curve").inner_html()


@pytest.mark.parametrize("number", [0, 1, 2], ids=["photos", "train", "try"])
def test_skip_links_lead_to_each_step(number: int, opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url)
    expect(page.locator("#train-card .score")).to_be_visible()
    key = page.keyboard
    for _ in range(number + 1):
        key.press("Tab")
    link = page.locator(".skip").nth(number)
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    key.press("Enter")
    expect(page.locator(("#photos", "#train", "#try")[number])).to_be_focused()
    key.press("Tab")
    first = ("Rename cup", "Train again", "Use camera")[number]
    expect(page.get_by_role("button", name=first)).to_be_focused()


@pytest.mark.usefixtures("fake")
def test_there_is_nothing_to_skip_before_signing_in(opened: Opener, service: Running) -> None:
    page = opened(service.url, token=None)
    expect(page.get_by_label("Access token")).to_be_focused()
    expect(page.locator("#skips")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    "name", ["trained", "nameless", "projects", "downloading", "viewer", "renaming", "deleted"]
)
def test_no_focus_ring_crosses_text(
    name: str, width: int, opened: Opener, service: Running, fake: Fake
) -> None:
    prepare, act = STATES[name]
    if prepare:
        prepare(fake)
    page = opened(service.url, width=width, expected=EXPECTED.get(name, ()))
    expect(page.locator("#work")).to_be_visible()
    if act:
        act(page, service)
    crossed = set(page.evaluate(CROSSED))
    seen = 0
    for _ in range(60):
        page.keyboard.press("Tab")
        crossed.update(page.evaluate(CROSSED))
        seen += page.evaluate("document.activeElement !== document.body")
    for heading in page.locator("h2[tabindex], h3[tabindex]").locator("visible=true").all():
        if page.get_by_role("dialog").count() == 0:
            heading.focus()  # after keys were pressed, so the ring is shown
            crossed.update(page.evaluate(CROSSED))
    assert seen > 1
    assert crossed == set()


def phone(browser: Browser, service: Running) -> Page:
    context = browser.new_context(viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(f"{service.url}#token={TOKEN}")
    expect(page.locator("#work")).to_be_visible()
    return page


@pytest.mark.parametrize("trained", [False, True])
def test_nothing_is_dropped_on_a_phone(trained: bool, browser: Browser, service: Running, fake: Fake) -> None:
    if trained:
        train(fake)
    fake.add_class("bowl")
    page = phone(browser, service)
    expect(page.get_by_text("Choose photos, or take them with the camera.")).to_be_visible()
    expect(page.get_by_role("button", name="Choose photos for bowl")).to_have_text("Choose photos")
    expect(page.get_by_role("button", name="Take photos for bowl")).to_have_text("Take photos")
    expect(page.get_by_role("button", name="Choose a folder")).to_be_hidden()
    if trained:
        expect(page.locator(".stage")).to_have_text("Choose a photo, or use the camera.")
    words = page.locator("body").inner_text()
    assert "drop" not in words.lower()
    assert "paste" not in words.lower()
    page.context.close()


@pytest.mark.parametrize("photos", [1, 2])
def test_words_agree_with_their_numbers(photos: int, opened: Opener, service: Running, fake: Fake) -> None:
    fake.add_class("cup", pictures(0, photos))
    fake.add_class("plate")
    fake.publish("first", 1.0)
    page = opened(service.url)
    noun, verb = ("photo", "is") if photos == 1 else ("photos", "are")
    every = "" if photos == 1 else "All "
    expect(page.locator("#assessment-body")).to_contain_text(
        f"{every}{photos} {noun} {verb} classified correctly. Measured on"
    )
    expect(page.locator(".class").first).to_contain_text(f"{photos} {noun}")
    page.get_by_role("button", name="Delete cup").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"and its {photos} {noun} will be deleted")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"2 classes, {photos} {noun} and 1 version.")

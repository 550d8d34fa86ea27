"""The page in each of its states, for tests of all of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable

from PIL import Image
from playwright.sync_api import Page, expect

from ...conftest import picture
from .fake_service import Running
from .fake_state import TOKEN, Fake, failure

LONG = "an-uncommonly-long-name-without-any-space-that-must-not-push-the-page-wider-than-a-phone-is-wide-xx"

LETTER = {"name": "letter.txt", "mimeType": "text/plain", "buffer": b"Dear"}  # not an image


def jpeg(kind: int, seed: int, name: str | None = None) -> dict[str, object]:
    """Return a picture as a file for playwright."""
    data = io.BytesIO()
    picture(kind, seed).save(data, "JPEG")
    return {"name": name or f"{seed}.jpg", "mimeType": "image/jpeg", "buffer": data.getvalue()}


def pictures(kind: int, number: int) -> list[Image.Image]:
    return [picture(kind, 100 * kind + i) for i in range(number)]


def fill(fake: Fake) -> None:
    fake.add_class("cup", pictures(0, 6))
    fake.add_class("plate", pictures(1, 18))
    fake.add_class(LONG, pictures(2, 1))


def train(fake: Fake) -> None:
    """Set the state after a training: two versions, a curve, three mistakes, a prediction."""
    fill(fake)
    fake.add_training()
    fake.publish("first", 0.8)
    fake.add_event("version", number=1, stage="first")
    for step in range(1, 6):
        fake.add_event(
            "progress", step=step, steps=5, loss=1 / step, accuracy=0.7 + 0.05 * step, seconds_left=5 - step
        )
    fake.publish("tuned", 0.9)
    fake.add_event("version", number=2, stage="tuned")
    fake.add_event("end", state="done", message="")
    ids = list(fake.photos)
    fake.assess(2, {ids[0]: "plate", ids[2]: "plate", ids[7]: LONG})
    fake.answer = prediction("cup", 0.93)


def prediction(name: str, p: float, unknown: bool = False) -> dict[str, object]:
    others = [n for n in ("cup", "plate", LONG) if n != name]
    rest = [{"class": other, "p": (1 - p) / len(others)} for other in others]
    return {
        "version": 2,
        "class": None if unknown else name,
        "unknown": unknown,
        "known": 0.5,
        "probabilities": [{"class": name, "p": p}, *rest],
    }


def announced(page: Page, text: str) -> None:
    expect(page.locator("#polite")).to_contain_text(text)


def transfer(page: Page, selector: str, kind: str, files: list[dict[str, object]]) -> None:
    """Drop or paste files."""
    packed = [[f["name"], f["mimeType"], base64.b64encode(f["buffer"]).decode()] for f in files]  # type: ignore[arg-type]
    page.locator(selector).first.evaluate(
        """(target, [kind, files]) => {
          const data = new DataTransfer();
          for (const [name, type, text] of files)
            data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name, { type }));
          if (kind === 'paste') target.dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }));
          else for (const each of ['dragenter', 'dragover', 'drop'])
            target.dispatchEvent(new DragEvent(each, { dataTransfer: data, bubbles: true, cancelable: true }));
        }""",
        [kind, packed],
    )


def until(page: Page, expression: str) -> None:
    """Wait for an expression to be true (playwright's own function needs eval, which the page forbids)."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} did not become true")


def classify(page: Page) -> None:
    expect(page.get_by_role("button", name="Use camera")).to_be_visible()
    page.set_input_files("#try-file", jpeg(0, 5))
    expect(page.locator(".answers")).to_be_visible()


def sign_in(page: Page, _: Running) -> None:
    page.evaluate("sessionStorage.clear()")
    page.reload()
    expect(page.get_by_label("Access token")).to_be_focused()


def training(page: Page, service: Running) -> None:
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.get_by_text("Waiting for a worker")).to_be_visible()
    service.fake.publish("first", 0.8)
    service.fake.add_event("version", number=1, stage="first")
    for step in range(1, 4):
        service.fake.add_event("progress", step=step, steps=50, loss=1 / step, accuracy=0.8, seconds_left=40)
    expect(page.get_by_text("Step 3 of 50, about 40 seconds left")).to_be_visible()


def unknown(page: Page, service: Running) -> None:
    service.fake.answer = prediction("cup", 0.41, unknown=True)
    classify(page)
    expect(page.locator(".answer")).to_have_text("None of these")


def recording(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Take photos for cup").click()
    expect(page.get_by_role("button", name="Hold to record")).to_be_focused()


def live(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer .what")).to_have_text("cup")


def viewer(page: Page, _: Running) -> None:
    page.locator("[data-mistake]").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()


def starting_over(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Start over").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 classes, 25 photos and 2 versions")


def deleting_account(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Delete my account").click()
    expect(page.get_by_role("dialog")).to_contain_text("Your link will not work any more.")


def deleted(page: Page, service: Running) -> None:
    deleting_account(page, service)
    page.get_by_role("dialog").get_by_role("button", name="Delete my account").click()
    expect(page.get_by_role("heading", name="Your account is deleted")).to_be_focused()


def old_link(page: Page, service: Running) -> None:
    service.fake.deleted = True
    page.goto("about:blank")
    page.goto(f"{service.url}#token={TOKEN}")
    expect(page.locator("#sign-in-error")).to_contain_text("The account may have been deleted")


def several(fake: Fake) -> None:
    """Two more projects beside a trained one."""
    train(fake)
    fake.add_project(LONG)
    fake.add_sample()


def projects(page: Page, _: Running) -> None:
    page.locator("#project").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 classes, 25 photos")


def downloading(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Download version 2", exact=True).click()
    expect(page.locator(".downloads li")).to_have_count(4)


def unreadable(page: Page, _: Running) -> None:
    classify(page)
    page.set_input_files("#try-file", LETTER)
    expect(page.locator("#try .notice")).to_be_visible()


def nameless(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Add class").click()
    expect(page.locator("#new-class .notice")).to_be_visible()


def failed(page: Page, service: Running) -> None:
    service.fake.failures["POST /api/trainings"] = [
        failure(503, "busy", "All workers are busy.", "Try again in a minute.")
    ]
    page.get_by_role("button", name="Train again").click()
    expect(page.locator("#train .notice")).to_contain_text("Try again in a minute.")


def renaming(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Rename cup").click()
    expect(page.get_by_label("New name for cup")).to_be_focused()


State = tuple[Callable[[Fake], None] | None, Callable[[Page, Running], None] | None]
STATES: dict[str, State] = {
    "sign in": (None, sign_in),
    "empty": (None, None),
    "filled": (fill, None),
    "renaming": (fill, renaming),
    "recording": (fill, recording),
    "training": (fill, training),
    "trained": (train, lambda page, _: classify(page)),
    "unknown": (train, unknown),
    "live": (train, live),
    "viewer": (train, viewer),
    "starting over": (train, starting_over),
    "deleting account": (train, deleting_account),
    "deleted": (train, deleted),
    "old link": (train, old_link),
    "projects": (several, projects),
    "downloading": (train, downloading),
    "unreadable photo": (train, unreadable),
    "nameless": (None, nameless),
    "failed": (train, failed),
}

# The browser itself reports responses with these statuses.
EXPECTED = {"failed": ("503",), "old link": ("401",), "unreadable photo": ("400",), "deleted": ("401", "404")}

"""The page in each of its states, for tests of all of them."""

from __future__ import annotations

import io
from collections.abc import Callable

from PIL import Image
from playwright.sync_api import Page, expect

from ...conftest import picture
from .fake_service import Fake, Running, failure

LONG = "an-uncommonly-long-name-without-any-space-that-must-not-push-the-page-wider-than-a-phone-is-wide-xx"


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
    fake.trainings.append(
        {"id": "t", "state": "done", "created": "", "started": "", "ended": "", "message": ""}
    )
    fake.publish("first", 0.8)
    fake.add_event("version", number=1, stage="first", accuracy=0.8, low=0.7, high=0.9, bytes=131_073)
    for step in range(1, 6):
        fake.add_event(
            "progress", step=step, steps=5, loss=1 / step, accuracy=0.7 + 0.05 * step, seconds_left=5 - step
        )
    fake.publish("tuned", 0.9)
    fake.add_event("version", number=2, stage="tuned", accuracy=0.9, low=0.8, high=0.96, bytes=131_074)
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


def until(page: Page, expression: str) -> None:
    """Wait for an expression to be true (playwright's own function needs eval, which the page forbids)."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} did not become true")


def classify(page: Page) -> None:
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
    service.fake.add_event("version", number=1, stage="first", accuracy=0.8, low=0.7, high=0.9, bytes=131_073)
    for step in range(1, 4):
        service.fake.add_event("progress", step=step, steps=50, loss=1 / step, accuracy=0.8, seconds_left=40)
    expect(page.get_by_text("Step 3 of 50, about 40 seconds left")).to_be_visible()


def unknown(page: Page, service: Running) -> None:
    service.fake.answer = prediction("cup", 0.41, unknown=True)
    classify(page)
    expect(page.locator(".answer")).to_have_text("None of these")


def recording(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Camera for cup").click()
    expect(page.get_by_role("button", name="Hold to record")).to_be_focused()


def live(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer .what")).to_have_text("cup")


def viewer(page: Page, _: Running) -> None:
    page.locator("[data-mistake]").first.click()
    expect(page.get_by_role("dialog")).to_be_visible()


def confirming(page: Page, _: Running) -> None:
    page.get_by_role("button", name="Delete everything").click()
    expect(page.get_by_role("dialog")).to_contain_text("3 classes, 25 photos and 2 versions")


def deleted(page: Page, service: Running) -> None:
    confirming(page, service)
    page.get_by_role("dialog").get_by_role("button", name="Delete everything").click()
    expect(page.get_by_role("heading", name="Everything is deleted")).to_be_focused()


def failed(page: Page, service: Running) -> None:
    service.fake.failures["POST /api/trainings"] = [
        failure(503, "busy", "All workers are busy.", "Try again in a minute.")
    ]
    page.get_by_role("button", name="Train again").click()
    expect(page.locator("#notice")).to_contain_text("Try again in a minute.")


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
    "confirming": (train, confirming),
    "deleted": (train, deleted),
    "failed": (train, failed),
}

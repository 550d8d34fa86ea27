"""What users do on the page, with a mouse, with the keyboard only, and with a screen reader."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import TOKEN, Fake
from .states import LETTER, announced, classify, fill, jpeg, pictures, prediction, train, transfer

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]


def test_everything_works_with_the_keyboard(opened: Opener, service: Running, fake: Fake) -> None:
    page = opened(service.url, token=None)
    key = page.keyboard
    expect(page.get_by_label("Access token")).to_be_focused()
    key.type(f"{service.url}#token={TOKEN}")  # the complete link is accepted
    key.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.get_by_label("Name of a new class").focus()
    for name in ("cup", "plate"):
        key.type(name)
        key.press("Enter")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        announced(page, f"Class {name} added.")
        expect(page.get_by_label("Name of a new class")).to_be_focused()  # for the next name
    cup, plate = list(fake.classes)
    for kind, key_ in enumerate((cup, plate)):
        for image in pictures(kind, 4):
            fake.add_photo(key_, image)
    page.reload()

    tile = page.get_by_role("button", name="Photo 1 of 4, cup")
    tile.focus()
    key.press("ArrowRight")
    expect(page.get_by_role("button", name="Photo 2 of 4, cup")).to_be_focused()
    key.press("Delete")
    expect(page.get_by_role("button", name="Photo 2 of 3, cup")).to_be_focused()  # the next photo
    announced(page, "Photo removed from cup.")
    key.press("End")
    key.press("Delete")
    expect(
        page.get_by_role("button", name="Photo 2 of 2, cup")
    ).to_be_focused()  # the neighbour of the last one
    key.press("Enter")
    dialog = page.get_by_role("dialog", name="cup")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    key.press("ArrowLeft")
    expect(dialog).to_contain_text("1 of 2")
    dialog.get_by_role("button", name="Move", exact=True).focus()
    key.press("Enter")
    announced(page, "Photo moved to plate.")
    expect(dialog.get_by_role("button", name="Move", exact=True)).to_be_focused()  # for the next photo
    key.press("Escape")
    expect(page.get_by_role("button", name="Photo 1 of 1, cup")).to_be_focused()
    key.press("Delete")
    expect(page.get_by_role("button", name="Choose photos for cup")).to_be_focused()  # no photo is left

    key.press("Shift+Tab")
    expect(page.get_by_role("button", name="Delete cup")).to_be_focused()
    key.press("Enter")
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()  # the safe button
    key.press("Escape")
    expect(page.get_by_role("button", name="Delete cup")).to_be_focused()
    key.press("Enter")
    key.press("Tab")
    key.press("Enter")
    announced(page, "Class cup deleted.")
    expect(page.get_by_role("heading", name="plate", exact=True)).to_be_focused()
    assert len(fake.photos) == 5


def test_training_progress_is_announced_and_training_can_be_stopped(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fill(fake)
    page = opened(service.url)
    go = page.get_by_role("button", name="Train", exact=True)
    go.focus()
    page.keyboard.press("Enter")
    announced(page, "Training has started.")
    expect(page.get_by_role("button", name="Stop training")).to_be_focused()
    fake.publish("first", 0.8)
    fake.add_event("version", number=1, stage="first")
    announced(
        page,
        "A first classifier is ready. Its estimated accuracy is 80 percent. You can try it now",
    )
    fake.answer = prediction("cup", 0.93)
    classify(page)  # during the training
    announced(page, "cup, 93 percent.")
    fake.add_event("progress", step=3, steps=9, loss=0.5, accuracy=0.9, seconds_left=100)
    fake.add_event("progress", step=4, steps=9, loss=0.4, accuracy=0.9, seconds_left=90)
    expect(page.locator("#train-status")).to_have_text("Step 4 of 9, about 2 minutes left")
    expect(
        page.get_by_role(
            "img",
            name="Accuracy by step, step 4 of 9, training accuracy 90%, first classifier 80%",
        )
    ).to_be_visible()
    page.reload()  # the training continues
    expect(page.locator("#train-status")).to_have_text("Step 4 of 9, about 2 minutes left")
    page.get_by_role("button", name="Stop training").click()
    announced(page, "Training was stopped.")
    expect(page.locator("#train-status")).to_have_text(
        "Stopped: fine-tuning was not kept. Version 1 is in use."
    )
    expect(page.get_by_role("button", name="Train again")).to_be_focused()


def test_a_failed_training_shows_the_reason(opened: Opener, service: Running, fake: Fake) -> None:
    page = opened(service.url)
    go = page.get_by_role("button", name="Train", exact=True)
    expect(go).to_be_disabled()  # aria-disabled: pressing it shows the reason
    go.press("Enter")
    expect(page.locator(".notice")).to_contain_text("It needs at least two classes")
    page.get_by_role("button", name="Dismiss the message").click()
    expect(page.locator(".notice")).to_be_hidden()
    fill(fake)
    page.reload()
    page.get_by_role("button", name="Train", exact=True).click()
    fake.add_event("end", state="failed", message="Every photo of plate is damaged. Add others.")
    expect(page.locator("#train-card .problem")).to_have_text(
        "The last training failed. Every photo of plate is damaged. Add others."
    )
    expect(page.locator("#assertive")).to_contain_text("Every photo of plate is damaged.")


def test_photos_are_chosen_dropped_and_pasted(opened: Opener, service: Running, fake: Fake) -> None:
    for name in ("cup", "plate"):
        fake.add_class(name)
    page = opened(service.url, expected=("400",))
    expect(page.get_by_text("Drop photos here, paste them, or use the camera.")).to_have_count(2)
    page.locator(".class input[type=file]").first.set_input_files([jpeg(0, i) for i in range(3)])
    announced(page, "3 photos added to cup.")
    transfer(page, ".class >> nth=1", "drop", [jpeg(1, 10), jpeg(1, 11)])
    announced(page, "2 photos added to plate.")
    page.get_by_role("button", name="Choose photos for cup").focus()
    transfer(page, "body", "paste", [jpeg(0, 20)])
    announced(page, "1 photo added to cup.")
    expect(page.locator(".class .tile")).to_have_count(6)
    page.locator(".class input[type=file]").first.set_input_files([LETTER, jpeg(0, 30)])
    expect(page.locator(".notice")).to_contain_text(
        "letter.txt could not be added to cup: This is not an image that can be read."
    )
    expect(page.locator(".class .tile")).to_have_count(7)  # the valid one was added


def test_a_misclassified_photo_is_moved_from_the_confusion_matrix(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    page = opened(service.url)
    expect(page.locator(".confusion tbody tr").first.locator("td")).to_have_text(["4 correct", "2", "·0"])
    expect(page.locator("#assessment-body")).to_contain_text("3 of 25 photos are misclassified")
    page.set_viewport_size({"width": 360, "height": 740})  # a phone has a list instead of the table
    expect(page.locator("#assessment-body li").first).to_contain_text("cup classified as plate")
    page.get_by_role("button", name="A photo of cup, classified as plate").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Your label is cup. The classifier predicts plate with 81% confidence.")
    dialog.get_by_role("button", name="Move it to plate").click()
    announced(page, "Photo moved to plate.")
    expect(dialog).to_contain_text("1 of 2")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("[data-mistake]")).to_have_count(2)
    page.wait_for_function("document.activeElement.dataset.mistake")
    expect(page.locator("#train-status")).to_have_text("Your photos have changed. Train again to use them.")
    assert sum(photo["class_id"] == list(fake.classes)[1] for photo in fake.photos.values()) == 19


def test_a_replaced_photo_asks_for_another_training(opened: Opener, service: Running, fake: Fake) -> None:
    """One photo is removed and another one added to the same class, so that no number changes."""
    train(fake)
    page = opened(service.url)
    expect(page.locator("#train-status")).to_have_text("Trained on 25 photos in 3 classes.")
    page.get_by_role("button", name="Photo 1 of 6, cup").press("Delete")
    announced(page, "Photo removed from cup.")
    page.locator(".class input[type=file]").first.set_input_files([jpeg(0, 40)])
    announced(page, "1 photo added to cup.")
    for _ in range(2):
        expect(page.locator("#train-status")).to_have_text(
            "Your photos have changed. Train again to use them."
        )
        page.reload()


def test_names_with_markup_are_text(opened: Opener, service: Running, fake: Fake) -> None:
    name = '<img src=x onerror="document.title=1"> & <b>cup</b>'
    fake.add_class(name, pictures(0, 5))
    fake.add_class("plate", pictures(1, 5))
    fake.publish("tuned", 0.9)
    fake.assess(1, {next(iter(fake.photos)): "plate"})
    fake.answer = {
        "version": 1,
        "class": name,
        "unknown": False,
        "known": 1.0,
        "probabilities": [{"class": name, "p": 0.9}, {"class": "plate", "p": 0.1}],
    }
    page = opened(service.url)
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    classify(page)
    expect(page.locator(".answer .what")).to_have_text(name)
    announced(page, f"{name}, 90 percent.")
    page.locator("[data-mistake]").click()
    expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text(name)
    page.keyboard.press("Escape")
    page.get_by_role("button", name=f"Delete {name}").click()
    expect(page.get_by_role("dialog")).to_contain_text(
        f"The class “{name}” and its 5 photos will be deleted."
    )
    assert page.locator("b:has-text('cup')").count() == 0
    assert page.title() == "filmtransfer: teach it your own things"


def test_many_photos_are_collapsed(opened: Opener, service: Running, fake: Fake) -> None:
    fill(fake)
    page = opened(service.url)
    plates = page.get_by_role("button", name=", plate")
    expect(plates).to_have_count(15)
    page.get_by_role("button", name="Show all 18 of plate").click()
    expect(plates).to_have_count(18)
    page.get_by_role("button", name="Show fewer of plate").click()
    expect(plates).to_have_count(15)


def test_a_photo_is_dragged_to_another_class(opened: Opener, service: Running, fake: Fake) -> None:
    cup, plate = fake.add_class("cup", pictures(0, 2)), fake.add_class("plate", pictures(1, 2))
    page = opened(service.url)
    page.get_by_role("button", name="Photo 1 of 2, cup").drag_to(page.get_by_role("region", name="plate"))
    announced(page, "Photo moved to plate.")
    expect(page.get_by_role("button", name="Photo 3 of 3, plate")).to_be_visible()
    assert [photo["class_id"] for photo in fake.photos.values()].count(cup) == 1
    assert [photo["class_id"] for photo in fake.photos.values()].count(plate) == 3

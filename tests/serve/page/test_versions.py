"""Answer, score, confusion matrix and messages belong to the version in use; every version can be taken home."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from .conftest import Opener
from .fake_service import Running
from .fake_state import Fake, failure
from .states import announced, classify, fill, jpeg, prediction, train

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]

GOOD = {"name": "mine.safetensors", "mimeType": "", "buffer": b"good"}
PHOTO = {"name": "cat.jpg", "mimeType": "image/jpeg", "buffer": b"cat"}


def answer_by_version(fake: Fake) -> None:
    """Let each version give its own answer."""
    names = {1: ("cup", 0.6), 2: ("cup", 0.93), 3: ("plate", 0.7)}
    fake.answer = {number: prediction(*answer) for number, answer in names.items()}


def score(page: Page) -> list[str]:
    return page.locator("#train-card .result p").all_inner_texts()


def test_versions_are_used_again_uploaded_and_deleted(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("400",))
    expect(page.locator("#versions-body")).to_contain_text(
        "the classifier and the features of your photos, but not the photos themselves"
    )
    page.get_by_role("button", name="Use version 1").click()
    announced(page, "Version 1 is in use now.")
    expect(page.get_by_role("heading", name="Version 1")).to_be_focused()
    page.get_by_role("button", name="Delete version 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete version").click()
    announced(page, "Version 2 deleted.")
    expect(page.get_by_role("heading", name="Version 1")).to_be_focused()
    page.set_input_files("#upload-file", GOOD)
    announced(page, "mine.safetensors is version 2 now, and in use.")
    page.set_input_files("#upload-file", PHOTO)
    notice = page.locator("#versions .notice")
    expect(notice).to_contain_text("cat.jpg could not be uploaded: This is not an update file.")
    expect(notice).to_contain_text("Choose a .safetensors file that filmtransfer wrote.")
    page.set_input_files("#upload-file", GOOD)  # the message was about the other file
    announced(page, "mine.safetensors is version 3 now, and in use.")
    expect(notice).to_have_count(0)


def test_an_uploaded_version_takes_the_place_of_the_old_answer_score_and_matrix(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    answer_by_version(fake)
    page = opened(service.url)
    classify(page)
    expect(page.locator(".answer")).to_have_text("cup 93%")
    expect(page.locator("#train-card .score")).to_have_text("90% accuracy")
    expect(page.locator(".confusion")).to_be_visible()
    page.set_input_files("#upload-file", GOOD)
    expect(page.locator(".answer")).to_have_text("plate 70%")  # the new version was asked about the photo
    announced(page, "plate, 70 percent.")
    expect(page.locator("#try .which")).to_have_text("Version 3")
    expect(page.locator(".asked")).to_be_visible()
    expect(page.locator("#train-card .score")).to_have_count(0)
    expect(page.locator("#train-card .result")).to_have_text(
        "The accuracy of version 3 has not been estimated."
    )
    expect(page.locator("#train-status")).to_have_text(
        "Version 3 was uploaded. Train to replace it by one of your own photos: 25 photos in 3 classes."
    )
    expect(page.locator(".curve")).to_have_count(0)  # it is the curve of another version
    expect(page.locator(".confusion")).to_have_count(0)
    expect(page.locator("#assessment-body")).to_contain_text(
        "Version 3 was uploaded, so it has not been assessed"
    )
    page.get_by_role("button", name="Use version 1").click()
    expect(page.locator(".answer")).to_have_text("cup 60%")
    expect(page.locator("#train-card .score")).to_have_text("80% accuracy")
    expect(page.locator(".curve")).to_be_visible()
    assert fake.seen.count("POST /api/predictions") == 3


def test_the_old_answer_disappears_even_if_the_new_version_cannot_answer(
    opened: Opener, service: Running, fake: Fake
) -> None:
    train(fake)
    page = opened(service.url, expected=("503",))
    classify(page)
    fake.failures["POST /api/predictions"] = [failure(503, "busy", "The queue is full.", "Try again.")]
    page.get_by_role("button", name="Use version 1").click()
    expect(page.locator("#try .notice")).to_contain_text("5.jpg could not be classified: The queue is full.")
    expect(page.locator(".answers")).to_be_hidden()
    page.get_by_role("button", name="Use version 2").click()
    expect(page.locator(".answer")).to_have_text("cup 93%")
    expect(page.locator("#try .notice")).to_have_count(0)  # it was about the other version


def test_a_new_training_asks_again_about_the_photo(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    answer_by_version(fake)
    page = opened(service.url)
    classify(page)
    page.get_by_role("button", name="Train again").click()
    expect(page.locator("#train-status")).to_have_text("Waiting for a worker…")
    fake.publish("first", 0.7)
    fake.add_event("version", number=3, stage="first")
    expect(page.locator(".answer")).to_have_text("plate 70%")
    expect(page.locator("#try .which")).to_have_text("Version 3, the first classifier")
    expect(page.locator("#train-card .score")).to_have_text("70% accuracy")
    # There is an answer already: nothing waits any more.
    expect(page.locator("#train-status")).to_have_text("A first classifier is ready to try. Fine-tuning…")


def test_the_score_is_the_estimate_of_the_service(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    fake.versions[0]["estimate"] = {
        "accuracy": 0.625,
        "percentage": "62.5%",  # the service decides on the digits
        "low": 0.2449,
        "high": 0.9148,
        "images": 8,
        "unseen": True,
        "text": "Estimated accuracy on new photos 62% (95% interval 24% to 92%), from 8 photos that fine-tuning had not seen.",
    }
    fake.checks[2]["text"] = "Measured on 25 of your photos; fine-tuning has seen 17 of them."
    page = opened(service.url)
    expect(page.locator("#assessment-body > p")).to_have_text(
        "3 of 25 photos are misclassified. Measured on 25 of your photos; fine-tuning has seen 17 of them. If one is in the wrong class, open it and move it; more photos of its kind help, too."
    )
    expect(page.locator("#train-card .result p")).to_have_count(4)
    assert score(page) == [
        "Version 2",
        "62.5% accuracy",
        fake.versions[0]["estimate"]["text"],
        "Version 1 had 80%, measured on 25 photos: the two figures cannot be compared.",
    ]
    expect(page.locator(".curve circle")).to_have_count(1)
    expect(page.locator(".version").first).to_contain_text("62.5% accuracy on 8 photos")
    expect(page.locator(".curve svg")).to_have_accessible_name(re.compile("fine-tuned 62.5%"))
    shown = page.locator("body").inner_text()
    assert set(re.findall(r"[\d.]+%", page.locator("#train-card .result").inner_text())) == {
        "80%",
        "62.5%",
        "62%",
        "95%",
        "24%",
        "92%",
    }
    assert "between" not in shown
    page.get_by_role("button", name="Use version 1").click()
    expect(page.locator("#assessment-body > p")).to_have_text(
        "All 25 photos are classified correctly. Measured on 25 of your photos."
    )


def test_a_renamed_class_has_its_new_name_everywhere(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url)
    classify(page)
    page.get_by_role("button", name="Rename cup").click()
    page.keyboard.type("mug")
    page.keyboard.press("Enter")
    announced(page, "Renamed to mug.")
    expect(page.get_by_role("button", name="Rename mug")).to_be_focused()
    expect(page.get_by_role("button", name="Photo 1 of 6, mug")).to_be_visible()
    for _ in range(2):  # also after the page is loaded again
        expect(page.locator(".answer")).to_have_text("mug 93%")
        expect(page.locator(".bars")).not_to_contain_text("cup")
        expect(page.locator(".confusion th").first).to_have_text("mug")
        expect(page.get_by_role("button", name="A photo of mug, classified as plate").first).to_be_visible()
        expect(page.locator("#train-status")).to_have_text("Trained on 25 photos in 3 classes.")
        page.reload()
        expect(page.locator(".confusion")).to_be_visible()
        classify(page)
    announced(page, "mug, 93 percent.")


def test_answers_follow_the_class_and_not_its_name(opened: Opener, service: Running, fake: Fake) -> None:
    """Two classes exchange their names; then one is deleted, and the other one gets its name."""
    train(fake)
    cup, plate, _ = fake.classes
    fake.classes[cup]["name"], fake.classes[plate]["name"] = "plate", "cup"
    page = opened(service.url)
    classify(page)
    expect(page.locator(".answer")).to_have_text("plate 93%")
    expect(page.locator(".confusion th").first).to_have_text("plate")
    expect(page.locator("#train-status")).to_have_text("Trained on 25 photos in 3 classes.")
    for photo in [key for key, row in fake.photos.items() if row["class_id"] == plate]:
        del fake.photos[photo]
    del fake.classes[plate]
    page.reload()
    expect(page.locator(".confusion")).to_be_visible()
    classify(page)
    expect(page.locator(".answer")).to_have_text("plate 93%")
    expect(page.locator(".bars li")).to_have_count(3)
    expect(page.locator(".bars")).to_contain_text("plate (deleted)")


def test_a_name_that_is_taken_is_reported_beside_the_field(
    opened: Opener, service: Running, fake: Fake
) -> None:
    fill(fake)
    page = opened(service.url, expected=("409",))
    page.get_by_role("button", name="Rename cup").click()
    page.keyboard.type("plate")
    page.keyboard.press("Enter")
    field = page.get_by_label("New name for cup")
    expect(page.locator(".class .notice")).to_contain_text("There is a class called 'plate' already.")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    page.keyboard.type("s")
    expect(page.locator(".class .notice")).to_have_count(0)
    page.keyboard.press("Enter")
    announced(page, "Renamed to plates.")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("classifier", "home-2.safetensors"),
        ("ONNX", "home-2.onnx"),
        ("web page", "home-2.zip"),
        ("report", "home-2.html"),
    ],
)
def test_a_version_is_taken_home_in_every_form(
    kind: str, name: str, opened: Opener, service: Running, fake: Fake
) -> None:
    """The service names the files."""
    train(fake)
    fake.versions[0]["files"] = {
        kind: f"home-2.{suffix}"
        for kind, suffix in (("file", "safetensors"), ("onnx", "onnx"), ("web", "zip"), ("report", "html"))
    }
    page = opened(service.url)
    toggle = page.get_by_role("button", name="Download version 2", exact=True)
    expect(toggle).to_have_attribute("aria-expanded", "false")
    toggle.press("Enter")
    expect(toggle).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".downloads")).to_contain_text("fit predict home-2.safetensors photo.jpg")
    expect(page.locator(".downloads")).to_contain_text(name)
    with page.expect_download() as got:
        page.get_by_role("button", name=f"Download the {kind} of version 2").click()
    assert got.value.suggested_filename == name
    announced(page, "of version 2 downloaded, ")
    toggle.press("Enter")
    expect(page.locator(".downloads")).to_have_count(0)


def test_a_download_that_cannot_be_made_says_why(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    page = opened(service.url, expected=("409",))
    page.get_by_role("button", name="Download version 1", exact=True).click()
    fake.failures["GET /api/versions/1/web"] = [
        failure(409, "conflict", "The runtime of the page is not installed.", "Run 'fit export --web' once.")
    ]
    button = page.get_by_role("button", name="Download the web page of version 1")
    button.click()
    notice = page.locator(".downloads .notice")
    expect(notice).to_contain_text(
        "The web page of version 1 could not be downloaded: The runtime of the page is not installed."
    )
    with page.expect_download():
        button.click()
    expect(notice).to_have_count(0)


def test_the_live_camera_asks_the_version_in_use(opened: Opener, service: Running, fake: Fake) -> None:
    train(fake)
    answer_by_version(fake)
    page = opened(service.url)
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer")).to_have_text("cup 93%")
    page.set_input_files("#upload-file", GOOD)
    expect(page.locator(".answer")).to_have_text("plate 70%")
    page.get_by_role("button", name="Stop camera").click()
    page.set_input_files("#try-file", jpeg(0, 7))
    expect(page.locator(".asked")).to_be_visible()

"""Complete sessions with a real service and its worker; the tests use one account, in this order."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from filmtransfer import FewShotClassifier
from filmtransfer.data.sample import sample_drawings
from filmtransfer.formatting import digits_for, percent

from ...conftest import picture
from .conftest import Opener
from .states import jpeg

pytestmark = [pytest.mark.browser(seconds=25), pytest.mark.xdist_group("page")]

TIMEOUT = 120_000  # ms: the machine may be busy
CLASSES = ("disc", "bars", "plain")


def out_of_distribution_image() -> dict[str, object]:
    """Return a drawing, which shows none of the classes."""
    drawing = Image.fromarray(np.asarray(sample_drawings(1, seed=0)[0].sources[5])).resize((224, 224))
    data = io.BytesIO()
    drawing.save(data, "PNG")
    return {"name": "drawing.png", "mimeType": "image/png", "buffer": data.getvalue()}


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start ``fit serve``; return the link of the page with the token of "me"."""
    folder = tmp_path_factory.mktemp("serve")
    arguments = ["serve", str(folder / "data"), "--port", "0", "--threads", "1", "--json"]
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "filmtransfer", *arguments],
        stdout=subprocess.PIPE,
        stderr=log,
        stdin=subprocess.DEVNULL,
        text=True,
        env=os.environ,
    )
    assert process.stdout is not None
    document = ""
    for line in process.stdout:
        document += line
        try:
            about = json.loads(document)
            break
        except json.JSONDecodeError:
            continue
    else:
        pytest.fail((folder / "log").read_text())
    yield about["link"]
    process.terminate()
    process.wait(60)
    process.stdout.close()
    log.close()


def create_project(page: Page, name: str) -> None:
    page.locator("#project").click()
    page.get_by_label("Name of a new project").fill(name)
    page.keyboard.press("Enter")
    expect(page.locator("#project")).to_have_text(name)


def download(page: Page, number: int, kind: str, folder: Path) -> Path:
    """Take a version home; return the file."""
    toggle = page.get_by_role("button", name=f"Download version {number}", exact=True)
    if toggle.get_attribute("aria-expanded") == "false":
        toggle.click()
    with page.expect_download(timeout=TIMEOUT) as got:
        page.get_by_role("button", name=f"Download the {kind} of version {number}").click()
    suffix = Path(got.value.suggested_filename).suffix
    file = folder / f"mine{suffix}"
    got.value.save_as(file)
    return file


def figure_text(url: str, token: str) -> str:
    """Return the sentence about the accuracy of the current version from the API."""
    response = httpx.get(f"{url}api/versions", headers={"Authorization": f"Bearer {token}"})
    current = next(version for version in response.json()["versions"] if version["current"])
    return str(current["estimate"]["text"])


def ranking(url: str, token: str, photo: dict[str, object]) -> list[str]:
    """Return the classes of a photo in the order of their probabilities, from the API."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": str(photo["mimeType"])}
    response = httpx.post(
        f"{url}api/predictions", content=photo["buffer"], headers=headers
    ).raise_for_status()
    return [row["class"] for row in response.json()["probabilities"]]


def test_a_complete_session(link: str, opened: Opener, tmp_path: Path) -> None:
    url, _, token = link.partition("#token=")
    page = opened(url, token=token, expected=("401",))
    polite = page.locator("#polite")
    assert page.url == url
    for name in CLASSES:
        page.get_by_label("Name of a new class").fill(name)
        page.get_by_role("button", name="Add class").click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    for kind in range(2):
        page.locator(".class input[type=file]").nth(kind).set_input_files(
            [jpeg(kind, 100 * kind + i) for i in range(5)]
        )  # type: ignore[arg-type]
        expect(polite).to_contain_text(f"5 photos added to {CLASSES[kind]}.")
    page.locator(".class input[type=file]").nth(0).set_input_files([jpeg(0, 3)])  # type: ignore[list-item]
    expect(polite).to_contain_text("1 photo was there already.")

    # The third class is recorded from the camera, which always shows the same scene.
    page.get_by_role("button", name="Take photos for plain").click()
    hold = page.get_by_role("button", name="Hold to record")
    expect(hold).to_be_focused()
    expect(page.locator(".recorder video")).to_have_js_property("paused", False)
    page.keyboard.down("Space")
    expect(page.get_by_role("button", name=", plain")).not_to_have_count(0)
    expect(page.get_by_role("button", name="Photo 5 of")).to_have_count(3, timeout=TIMEOUT)
    page.keyboard.up("Space")
    expect(polite).to_contain_text("recorded for plain.")
    page.get_by_role("button", name="Close the camera").click()
    assert page.locator(".thumb[src^='blob:']").count() > 10

    # How the camera's frames differ depends on the time, and so does the threshold for rejections: a new photo of bars
    # may be rejected, as one in twenty is. One that it was trained on is not.
    page.get_by_role("button", name="Train", exact=True).click()
    expect(polite).to_contain_text("A first classifier is ready", timeout=TIMEOUT)
    page.set_input_files("#try-file", jpeg(1, 101))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("bars", timeout=TIMEOUT)
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible(timeout=TIMEOUT)  # the fine-tuned one
    expect(page.get_by_role("button", name="Train again")).to_be_visible(timeout=TIMEOUT)
    expect(page.locator("#train-card .score")).to_contain_text("accuracy")
    expect(page.locator(".curve path.accuracy")).to_have_attribute("d", re.compile("^M.+L"))
    expect(page.locator("#assessment-body")).to_contain_text("photos")

    page.set_input_files("#try-file", jpeg(1, 102))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("bars")
    expect(polite).to_contain_text("bars, ")
    for seed in (197, 198, 199):
        assert ranking(url, token, jpeg(1, seed))[0] == "bars"  # of a new photo, rejected or not
    page.set_input_files("#try-file", out_of_distribution_image())  # type: ignore[arg-type]
    expect(page.locator(".answer")).to_have_text("None of these")
    expect(polite).to_have_text("None of these.")
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer .what")).to_have_text(
        "plain", timeout=TIMEOUT
    )  # the scene of the third class
    expect(polite).to_contain_text("plain, ")
    page.get_by_role("button", name="Stop camera").click()

    file = download(page, 2, "classifier", tmp_path)
    mine = FewShotClassifier.load(file)
    assert list(mine.classes_) == sorted(CLASSES)
    assert mine.predict([picture(1, 199)])[0] == "bars"  # the same prediction in Python
    estimate = mine.update_.results["estimate"]
    figure = percent(estimate["accuracy"], digits_for(estimate["images"]))
    expect(page.locator("#train-card .score")).to_have_text(f"{figure} accuracy")  # and the same accuracy
    expect(page.locator("#train-card .result")).to_contain_text(figure_text(url, token))
    page.set_input_files("#try-file", jpeg(1, 102))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("bars")
    page.set_input_files("#upload-file", file)
    expect(polite).to_contain_text("mine.safetensors is version 3 now, and in use.")
    expect(page.locator("#try .which")).to_have_text("Version 3")
    expect(page.locator(".answer .what")).to_have_text("bars")  # the uploaded version was asked
    page.get_by_role("button", name="Use version 1").click()
    expect(polite).to_contain_text("Version 1 is in use now.")

    page.get_by_role("button", name="Train again").click()
    page.get_by_role("button", name="Stop training").click()
    expect(polite).to_contain_text("Training was stopped.", timeout=TIMEOUT)

    page.get_by_role("button", name="Rename bars").click()
    page.keyboard.type("stripes")
    page.keyboard.press("Enter")
    page.set_input_files("#try-file", jpeg(1, 103))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("stripes")


def test_the_sample_project_is_trained_and_taken_home(link: str, opened: Opener, tmp_path: Path) -> None:
    url, _, token = link.partition("#token=")
    page = opened(url, token=token)
    polite = page.locator("#polite")
    create_project(page, "empty")
    page.get_by_role("button", name="Try it with sample drawings").click()
    expect(polite).to_contain_text("Project Sample drawings is open")
    expect(page.locator(".class")).not_to_have_count(0)
    page.get_by_label("Fine-tuning").select_option("first")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.get_by_role("heading", name="Version 1")).to_be_visible(timeout=TIMEOUT)
    expect(page.get_by_role("button", name="Train again")).to_be_visible(timeout=TIMEOUT)
    expect(page.locator("#train-card .score")).to_contain_text("accuracy")

    session = onnxruntime.InferenceSession(download(page, 1, "ONNX", tmp_path).read_bytes())
    assert session.get_inputs()
    names = zipfile.ZipFile(download(page, 1, "web page", tmp_path)).namelist()
    assert "classifier/index.html" in names  # the folder of the command that the page shows
    expect(page.locator(".downloads")).to_contain_text("--directory classifier")
    assert "<!doctype html" in download(page, 1, "report", tmp_path).read_text().lower()

    page.locator("#project").click()
    dialog = page.get_by_role("dialog", name="Projects")
    dialog.get_by_role("button", name="Delete Sample drawings").click()
    page.get_by_role("button", name="Delete project", exact=True).click()
    expect(polite).to_contain_text("Project Sample drawings deleted.")
    dialog.get_by_role("button", name="Rename empty").click()
    page.keyboard.type("birds")
    page.keyboard.press("Enter")
    expect(polite).to_contain_text("Renamed to birds.")
    dialog.get_by_role("button", name="Close").click()


def test_starting_over_keeps_the_link_and_deleting_the_account_does_not(link: str, opened: Opener) -> None:
    url, _, token = link.partition("#token=")
    page = opened(url, token=token, expected=("401",))
    create_project(page, "more")
    page.get_by_role("button", name="Start over").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete and start over").click()
    expect(page.locator("#polite")).to_contain_text("Everything is deleted.")
    page.goto("about:blank")
    page.goto(link)
    page.locator("#project").click()
    expect(page.locator(".projects li")).to_have_count(1)
    expect(page.locator(".projects")).to_contain_text("no classes yet")
    page.get_by_role("button", name="Close").click()

    page.get_by_role("button", name="Delete my account").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete my account").click()
    expect(page.get_by_role("heading", name="Your account is deleted")).to_be_focused()
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#sign-in-error")).to_contain_text("The account may have been deleted")
    expect(page.get_by_label("Access token")).to_be_focused()

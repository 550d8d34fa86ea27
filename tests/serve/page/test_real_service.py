"""A complete session with a real service and its worker."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

from filmtransfer import FewShotClassifier
from filmtransfer.data.sample import sample_drawings

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
    page.get_by_role("button", name="Camera for plain").click()
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

    page.get_by_role("button", name="Train", exact=True).click()
    expect(polite).to_contain_text("A first classifier is ready", timeout=TIMEOUT)
    page.set_input_files("#try-file", jpeg(1, 199))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("bars", timeout=TIMEOUT)
    expect(page.get_by_role("heading", name="Version 2")).to_be_visible(timeout=TIMEOUT)  # the fine-tuned one
    expect(page.get_by_role("button", name="Train again")).to_be_visible(timeout=TIMEOUT)
    expect(page.locator("#train-card .score")).to_contain_text("accuracy")
    expect(page.locator(".curve path.accuracy")).to_have_attribute("d", re.compile("^M.+L"))
    expect(page.locator("#assessment-body")).to_contain_text("photos")

    page.set_input_files("#try-file", jpeg(1, 198))  # type: ignore[arg-type]
    expect(page.locator(".answer .what")).to_have_text("bars")
    expect(polite).to_contain_text("bars, ")
    page.set_input_files("#try-file", out_of_distribution_image())  # type: ignore[arg-type]
    expect(page.locator(".answer")).to_have_text("None of these")
    expect(polite).to_have_text("None of these.")
    page.get_by_role("button", name="Use camera").click()
    expect(page.locator(".answer .what")).to_have_text(
        "plain", timeout=TIMEOUT
    )  # the scene of the third class
    expect(polite).to_contain_text("plain, ")
    page.get_by_role("button", name="Stop camera").click()

    with page.expect_download() as got:
        page.get_by_role("button", name="Download version 2").click()
    file = tmp_path / "mine.safetensors"
    got.value.save_as(file)
    mine = FewShotClassifier.load(file)
    assert list(mine.classes_) == sorted(CLASSES)
    assert mine.predict([picture(1, 199)])[0] == "bars"  # the same prediction in Python
    page.set_input_files("#upload-file", file)
    expect(polite).to_contain_text("mine.safetensors is version 3 now, and in use.")
    page.get_by_role("button", name="Use version 1").click()
    expect(polite).to_contain_text("Version 1 is in use now.")

    page.get_by_role("button", name="Train again").click()
    page.get_by_role("button", name="Stop training").click()
    expect(polite).to_contain_text("Training was stopped.", timeout=TIMEOUT)

    page.get_by_role("button", name="Delete everything").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete everything").click()
    expect(page.get_by_role("heading", name="Everything is deleted")).to_be_focused()
    page.goto(link)
    expect(page.get_by_label("Access token")).to_be_focused()  # the token is invalid

"""Make docs/page.png: a screenshot of the service's page after training on the sample drawings.

    python -m scripts.make_page_picture

Needs Chromium and the extras serve and dev; takes a minute or two.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import FilePayload, Page, expect, sync_playwright

from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import enlarge_drawing, sample_drawings

OUT = Path(__file__).parents[1] / "docs" / "page.png"
CLASSES = ("cat", "fish", "butterfly")
SHOTS = 10
INK, PAPERS = (
    (38, 50, 56),
    [(250, 244, 230), (236, 242, 238), (244, 236, 232), (235, 240, 246), (247, 247, 242)],
)
TIMEOUT = 600_000  # ms


def main() -> None:
    train, test = sample_drawings(SHOTS, seed=0)
    with (
        tempfile.TemporaryDirectory() as folder,
        service(Path(folder)) as link,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1320}, color_scheme="light")
        expect.set_options(timeout=TIMEOUT)
        page.goto(link)
        for index, name in enumerate(CLASSES):
            add_class(page, index, name, drawings(train, name))
        page.get_by_role("button", name="Train", exact=True).click()
        expect(page.get_by_role("button", name="Train again")).to_be_visible()
        page.set_input_files("#try-file", drawings(test, CLASSES[0])[16])
        expect(page.locator(".answer")).to_be_visible()
        page.mouse.move(2, 2)
        page.evaluate("scrollTo(0, 0)")  # Playwright has scrolled to the button that it clicked
        page.wait_for_timeout(1000)  # until animations have ended and thumbnails are loaded
        page.screenshot(path=OUT)
        browser.close()
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")


def add_class(page: Page, index: int, name: str, files: list[FilePayload]) -> None:
    """Add a class and its photos."""
    page.get_by_label("Name of a new class").fill(name)
    page.get_by_role("button", name="Add class").click()
    expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    page.locator(".class input[type=file]").nth(index).set_input_files(files)
    expect(page.locator("#polite")).to_contain_text(f"added to {name}.")


def drawings(images: LabelledImages, name: str) -> list[FilePayload]:
    """Return the drawings of one class as files."""
    label = images.classes.index(name)
    selected = [image for image, y in zip(images.sources, images.labels, strict=True) if y == label]
    return [as_file(np.asarray(image), f"{name} {i + 1}.png") for i, image in enumerate(selected)]


def as_file(pixels: np.ndarray, name: str) -> FilePayload:
    """Return a drawing as the photo of a drawing: ink on tinted paper."""
    paper = enlarge_drawing(pixels, 288)[..., None] / 255  # 1 where there is no ink
    tint = np.array(PAPERS[int(pixels.sum()) % len(PAPERS)])
    data = io.BytesIO()
    Image.fromarray((paper * tint + (1 - paper) * np.array(INK)).astype(np.uint8)).save(data, "PNG")
    return {"name": name, "mimeType": "image/png", "buffer": data.getvalue()}


@contextmanager
def service(folder: Path) -> Iterator[str]:
    """Run ``fit serve`` on a new folder and yield the link that it prints."""
    command = [sys.executable, "-m", "filmtransfer", "serve", str(folder / "data"), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            if line.rstrip() == "}" or text.rstrip().endswith("}"):
                break
        yield json.loads(text)["link"]
        process.terminate()


if __name__ == "__main__":
    main()

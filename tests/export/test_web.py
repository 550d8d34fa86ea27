"""The page in a browser: it predicts as Python does, requests nothing from elsewhere, and is accessible."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page

from filmtransfer import UpdateFileError
from filmtransfer.data import PixelSpec, to_square
from filmtransfer.export.web import find_runtime, write_web
from tests.chromium import chromium, serve_folder
from tests.conftest import picture
from tests.export.small_classifiers import classifier, lite0

pytestmark = pytest.mark.browser(seconds=20)
AXE = Path(sys.prefix) / "share" / "axe.min.js"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any, Path]]:
    folder = tmp_path_factory.mktemp("web")
    clf = classifier(lite0(), prior=[0.5, 0.3, 0.2])
    write_web(clf, folder / "page")
    for i in range(4):
        picture(i, 40 + i, size=90).resize((120, 75)).save(folder / f"{i}.png")
    picture(1, 7, size=90).save(folder / "4.jpg", quality=92)
    with serve_folder(folder / "page") as address:
        yield address, clf, folder


@pytest.fixture(scope="module")
def page(browser: Browser, site: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, bypass_csp=True)
    opened = context.new_page()
    opened.messages = []  # type: ignore[attr-defined]
    opened.on("console", lambda m: opened.messages.append(f"{m.type}: {m.text}"))  # type: ignore[attr-defined]
    opened.on("pageerror", lambda e: opened.messages.append(f"error: {e}"))  # type: ignore[attr-defined]
    opened.on("request", lambda r: opened.messages.append(r.url))  # type: ignore[attr-defined]
    opened.goto(site[0])
    opened.wait_for_selector("html[data-ready]", timeout=120_000)
    yield opened
    context.close()


def classify_photos(page: Page, folder: Path) -> tuple[list[Path], list[Any]]:
    """Give the page all photos of the folder; return them and their cards."""
    paths = sorted([*folder.glob("*.png"), *folder.glob("*.jpg")])
    before = len(page.query_selector_all("#results > li"))
    page.set_input_files("#files", [str(path) for path in paths])
    page.wait_for_selector(f"#results > li:nth-child({before + len(paths)})", timeout=120_000)
    page.wait_for_function("document.getElementById('status').textContent.endsWith(' ms).')")
    return paths, page.query_selector_all("#results > li")[: len(paths)][::-1]  # the newest is on top


def test_the_page_predicts_as_python_does(page, site):
    _, clf, folder = site
    paths, cards = classify_photos(page, folder)
    expected = clf.predict_proba(paths)
    for card, path, row in zip(cards, paths, expected, strict=True):
        assert card.get_attribute("data-class") == clf.classes_[row.argmax()]
        probabilities = np.array(json.loads(card.get_attribute("data-probabilities")))
        assert np.abs(probabilities - row).max() < (
            1e-5 if path.suffix == ".png" else 0.02
        )  # decoders of JPEG differ


def test_a_photo_of_none_of_the_classes_is_shown_as_such(page, site):
    _, clf, folder = site
    paths, cards = classify_photos(page, folder)
    classified = clf.classify(paths)
    rejected = clf.rejected(classified).tolist()
    assert 0 < sum(rejected) < len(rejected)
    for card, row, out in zip(cards, classified.probabilities, rejected, strict=True):
        best = clf.classes_[row.argmax()]
        assert card.query_selector("h3").inner_text() == ("None of these" if out else best)
        note = card.query_selector(".nearest")
        assert (note.inner_text() if note else None) == (f"Nearest class: {best}" if out else None)
    name = clf.classes_[classified.probabilities[-1].argmax()]
    assert rejected[-1]
    assert f"4.jpg: none of these, nearest to {name} (" in page.text_content("#status")
    facts = page.text_content(".facts p")
    assert "resembles none of these classes is answered with “None of these”; about 5% of the photos" in facts


def test_a_page_without_a_detector_says_that_it_assigns_every_photo(browser, site, tmp_path):
    write_web(classifier(lite0(), rejects=False), tmp_path / "page")
    with serve_folder(tmp_path / "page") as address:
        context = browser.new_context()
        opened = context.new_page()
        opened.goto(address)
        opened.wait_for_selector("html[data-ready]", timeout=120_000)
        opened.set_input_files("#files", str(site[2] / "0.png"))
        card = opened.wait_for_selector("#results > li", timeout=60_000)
        assert card.query_selector("h3").inner_text() == card.get_attribute("data-class")
        assert card.get_attribute("data-ood-score") is None
        assert "A photo of anything else is also assigned" in opened.text_content(".facts p")
        context.close()


def test_only_a_mouse_is_asked_to_drop_photos(browser, site):
    for touch, expected in ((False, "Drop photos here"), (True, "Choose or take photos")):
        context = browser.new_context(has_touch=touch)
        opened = context.new_page()
        opened.goto(site[0])
        assert opened.inner_text("#choose-title") == expected
        assert opened.get_by_role("region", name=expected).count() == 1
        context.close()


def test_a_photo_of_the_camera_is_classified(page):
    before = len(page.query_selector_all("#results > li"))
    page.click("#camera")
    page.wait_for_function("document.getElementById('video').videoWidth > 0", timeout=30_000)
    page.click("#shoot")
    page.wait_for_selector(f"#results > li:nth-child({before + 1})", timeout=60_000)


def test_a_file_that_is_no_image_is_an_error(page, site):
    bad = site[2] / "notes.txt"
    bad.write_text("not an image")
    page.set_input_files("#files", str(bad))
    page.wait_for_selector("#status.error", timeout=30_000)
    assert "notes.txt" in page.text_content("#status")


def test_the_page_is_accessible(page):
    assert AXE.is_file(), "axe-core is missing: 'make test' fetches it to .venv/share/axe.min.js"
    page.add_script_tag(content=AXE.read_text())
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        violations = page.evaluate("axe.run()")["violations"]
        assert not violations, [(v["id"], v["nodes"][0]["html"]) for v in violations]
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390


def test_the_page_requests_nothing_from_elsewhere_and_logs_no_error(page, site):
    urls = [line for line in page.messages if line.startswith(("http", "ws"))]
    assert urls
    assert all(url.startswith(site[0]) for url in urls), urls
    assert not [line for line in page.messages if line.startswith(("error", "warning"))], page.messages


def test_the_page_runs_under_its_content_security_policy(browser, site):
    """The tests above bypass the policy for axe."""
    context = browser.new_context()
    opened = context.new_page()
    messages: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.goto(site[0])
    opened.wait_for_selector("html[data-ready]", timeout=120_000)
    opened.set_input_files("#files", str(site[2] / "0.png"))
    opened.wait_for_selector("#results > li", timeout=60_000)
    context.close()
    assert not messages


@pytest.mark.parametrize("interpolation", ["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"])
def test_the_browser_resizes_as_pillow_does(page, interpolation):
    """Bit for bit, larger and smaller, squashed and cropped."""
    rng = np.random.default_rng(0)
    for (height, width), size, fit in (
        ((75, 120), 32, "squash"),
        ((20, 13), 32, "crop"),
        ((64, 90), 48, "crop"),
    ):
        rgb = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        spec = PixelSpec(size, (0, 0, 0), (1, 1, 1), interpolation, fit)  # type: ignore[arg-type]
        rgba = np.dstack([rgb, np.full((height, width), 255, np.uint8)])
        pixels = page.evaluate(
            "([data, width, height, spec]) => Array.from(toSquare({data, width, height}, spec))",
            [
                rgba.flatten().tolist(),
                width,
                height,
                {"size": size, "interpolation": interpolation, "fit": fit, "crop": 0.875},
            ],
        )
        expected = to_square(Image.fromarray(rgb), spec)
        assert (np.array(pixels, dtype=np.uint8) == expected.flatten()).all()


def test_a_folder_without_onnxruntime_web_is_refused(tmp_path):
    with pytest.raises(UpdateFileError, match="does not contain onnxruntime-web"):
        find_runtime(tmp_path)

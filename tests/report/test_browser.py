"""The page in a browser: accessible in light and dark, as wide as a phone, no errors and no requests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filmtransfer.report import write_report
from filmtransfer.report.report_data import OODPhotos
from tests.chromium import chromium
from tests.report.small_report import features, photos, report_data

pytestmark = pytest.mark.browser(seconds=15)
AXE = Path(sys.prefix) / "share" / "axe.min.js"
LABELS = np.arange(6).repeat(8)
NAMES = ["cup", "a very long name of a class that goes on", "W" * 60, "kind/of plant", "مفتاح", "keys"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """Write reports of a training with all kinds of issues, a test with OOD photos, and a training without assessment."""
    folder = tmp_path_factory.mktemp("pages")
    labels = LABELS.copy()
    labels[5] = 2
    z = features(LABELS, 0.8)
    z[9] = z[8]
    z[17] = z[0]
    train = report_data(labels, z, names=NAMES, temperature=1.4)
    fresh = features(LABELS, 0.8, seed=0) + 0.2
    ood = OODPhotos(
        photos(LABELS[:12], fresh[:12]), np.linspace(0.1, 0.7, 12), np.linspace(0.4, 0.9, 48), 0.5, 0.05
    )  # fmt: skip
    test = replace(train, kind="test", photos=photos(LABELS, fresh), ood=ood)
    made = {"train": train, "test": test, "bare": report_data(LABELS[::8], z[::8], assessed=False)}
    for name, about in made.items():
        write_report(folder / f"{name}.html", about)
    return {name: folder / f"{name}.html" for name in made}


def open_page(browser: Any, file: Path, scheme: str, width: int) -> tuple[Any, list[str]]:
    messages: list[str] = []
    view = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    view.on("console", lambda message: messages.append(message.text))
    view.on("pageerror", lambda error: messages.append(str(error)))
    view.on(
        "request",
        lambda request: (
            messages.append(request.url) if not request.url.startswith(("file:", "data:")) else None
        ),
    )
    view.goto(file.as_uri())
    return view, messages


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["train", "test", "bare"])
def test_the_page_is_accessible_without_errors_or_requests(browser, pages, name, scheme):
    assert AXE.is_file(), f"There is no {AXE}: run 'make test', which fetches it."
    view, messages = open_page(browser, pages[name], scheme, 1200)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    view.evaluate(AXE.read_text())
    result = view.evaluate("axe.run()")
    view.close()
    violations = [(v["id"], v["nodes"][0]["html"][:200]) for v in result["violations"]]
    assert violations == []
    assert messages == []


@pytest.mark.parametrize("name", ["train", "test", "bare"])
def test_the_page_fits_the_width_of_a_phone(browser, pages, name):
    view, messages = open_page(browser, pages[name], "light", 360)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert view.evaluate("document.documentElement.scrollWidth") == 360
    assert messages == []
    view.close()


@pytest.mark.parametrize("width", [360, 390])
def test_no_table_or_figure_of_five_classes_is_cut_off_on_a_phone(browser, tmp_path, width):
    labels = np.arange(5).repeat(8)
    names = ["Abyssinian", "Bengal", "Birman", "Bombay", "British_Shorthair"]
    write_report(tmp_path / "five.html", report_data(labels, features(labels, 1.2), names=names))
    view, _ = open_page(browser, tmp_path / "five.html", "light", width)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    boxes = "[...document.querySelectorAll('.wide')].map(e => [e.ariaLabel, e.scrollWidth - e.clientWidth])"
    cut_off = {label: pixels for label, pixels in view.evaluate(boxes) if pixels > 0}
    assert "mistaken for" in view.evaluate(
        "getComputedStyle(document.querySelector('.stacked td:last-child'), '::before').content"
    )
    view.close()
    assert cut_off == {}


def test_pictures_are_really_shown(browser, pages):
    view, _ = open_page(browser, pages["train"], "light", 800)
    first = view.locator("#label-issues svg.thumb").first
    first.scroll_into_view_if_needed()
    shot = first.screenshot()
    view.close()
    from io import BytesIO

    from PIL import Image

    assert len(np.unique(np.asarray(Image.open(BytesIO(shot)).convert("RGB")).reshape(-1, 3), axis=0)) > 10

"""The page as a browser shows it: accessible in light and dark, whole on a telephone, silent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import sync_playwright

from filmtransfer.report import write_report
from filmtransfer.report.subject import Strangers
from tests.report.made_up import features, photos, subject

pytestmark = pytest.mark.xdist_group("report")
AXE = Path(sys.prefix) / "share" / "axe.min.js"
QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
LABELS = torch.arange(6).repeat_interleave(8)
NAMES = ["cup", "a very long name of a class that goes on", "W" * 60, "kind/of plant", "مفتاح", "keys"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_playwright() as play:
        found = play.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu", *QUIET]
        )
        yield found
        found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    """A training with every kind of trouble, a test with strangers, and one that cannot be judged."""
    folder = tmp_path_factory.mktemp("pages")
    labels = LABELS.clone()
    labels[5] = 2
    z = features(LABELS, 0.8)
    z[9] = z[8]
    z[17] = z[0]
    train = subject(labels, z, names=NAMES, temperature=1.4)
    fresh = features(LABELS, 0.8, seed=0) + 0.2
    others = Strangers(
        photos(LABELS[:12], fresh[:12]), torch.linspace(0.1, 0.7, 12), torch.linspace(0.4, 0.9, 48), torch.rand(9), 0.5, 0.05
    )  # fmt: skip
    test = replace(train, kind="test", photos=photos(LABELS, fresh), strangers=others)
    made = {"train": train, "test": test, "bare": subject(LABELS[::8], z[::8], judge=False)}
    for name, about in made.items():
        write_report(folder / f"{name}.html", about)
    return {name: folder / f"{name}.html" for name in made}


def opened(browser: Any, file: Path, scheme: str, width: int) -> tuple[Any, list[str]]:
    heard: list[str] = []
    view = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    view.on("console", lambda message: heard.append(message.text))
    view.on("pageerror", lambda error: heard.append(str(error)))
    view.on(
        "request",
        lambda request: heard.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
    )
    view.goto(file.as_uri())
    return view, heard


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["train", "test", "bare"])
def test_the_page_is_accessible_and_silent(browser, pages, name, scheme):
    assert AXE.is_file(), f"There is no {AXE}: run 'make test', which fetches it."
    view, heard = opened(browser, pages[name], scheme, 1200)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    view.evaluate(AXE.read_text())
    found = view.evaluate("axe.run()")
    view.close()
    wrong = [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]]
    assert wrong == []
    assert heard == []


@pytest.mark.parametrize("name", ["train", "test", "bare"])
def test_a_telephone_shows_all_of_its_width(browser, pages, name):
    view, heard = opened(browser, pages[name], "light", 360)
    view.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert view.evaluate("document.documentElement.scrollWidth") == 360
    assert heard == []
    view.close()


def test_pictures_are_really_shown(browser, pages):
    view, _ = opened(browser, pages["train"], "light", 800)
    first = view.locator("#suspects svg.thumb").first
    first.scroll_into_view_if_needed()
    shot = first.screenshot()
    view.close()
    from io import BytesIO

    import numpy as np
    from PIL import Image

    assert len(np.unique(np.asarray(Image.open(BytesIO(shot)).convert("RGB")).reshape(-1, 3), axis=0)) > 10

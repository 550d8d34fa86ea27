"""Compare the page in a browser with Python on JPEGs, which both decode with their own decoders.

    python benchmarks/export.py --data FOLDER     (which calls this)

Photos are tested as they are and enlarged, since Python decodes large JPEGs at a fraction of their size and a browser does not.
"""

from __future__ import annotations

import base64
import functools
import http.server
import io
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from few_shot_tasks import task
from filmtransfer import FewShotClassifier
from filmtransfer.data import read_squares
from filmtransfer.export.web import write_web

SQUARE = """async (text) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const square = toSquare(await decode(new Blob([bytes])), model.pixels);
  const pixels = new runtime.Tensor("uint8", square, [1, 3, model.pixels.size, model.pixels.size]);
  const { probabilities } = await session.run({ pixels }, ["probabilities"]);
  return [btoa(String.fromCharCode(...square)), Array.from(probabilities.data)];
}"""


def jpegs(data: Path, name: str, size: int, count: int = 60, enlarged: int = 1600) -> list[dict[str, Any]]:
    """Measure the levels (0–255) by which the pixels differ, and the change of the probabilities."""
    few = task(data, name, 10, 0, count)
    clf = FewShotClassifier(steps=0, image_size=size).fit_images(few.learn)
    contents = [Path(cast(str | Path, source)).read_bytes() for source in few.held_out.sources]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write_web(clf, folder)
        with opened(Path(folder)) as page:
            rows.append({"photos": f"{name}, as they are", **differ(clf, page, contents)})
            larger = [enlarge(content, enlarged) for content in contents]
            rows.append({"photos": f"{name}, enlarged to {enlarged} pixels", **differ(clf, page, larger)})
    return rows


def differ(clf: FewShotClassifier, page: Page, contents: list[bytes]) -> dict[str, Any]:
    ours = clf.predict_proba(contents)
    squares, _ = read_squares(contents, clf.model_.pixels, [str(i) for i in range(len(contents))])
    levels, theirs = [], []
    for content, square in zip(contents, squares, strict=True):
        assert square is not None
        encoded, probabilities = page.evaluate(SQUARE, base64.b64encode(content).decode())
        pixels = np.frombuffer(base64.b64decode(encoded), np.uint8).astype(int)
        levels.append(np.abs(pixels - square.astype(int).flatten()))
        theirs.append(probabilities)
    change = np.abs(np.array(theirs) - ours).max(1)
    return {
        "images": len(contents),
        "same_square": float(np.mean([not level.any() for level in levels])),
        "mean_level": float(np.mean(levels)),
        "largest_level": int(np.max(levels)),
        "agreement": float((np.array(theirs).argmax(1) == ours.argmax(1)).mean()),
        "mean_change": float(change.mean()),
        "largest_change": float(change.max()),
    }


def enlarge(content: bytes, side: int) -> bytes:
    image = Image.open(io.BytesIO(content)).convert("RGB")
    scale = side / max(image.size)
    wide, high = (round(scale * length) for length in image.size)
    out = io.BytesIO()
    image.resize((wide, high), Image.Resampling.BICUBIC).save(out, "JPEG", quality=92)
    return out.getvalue()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def opened(folder: Path) -> Iterator[Page]:
    """Open the page of the folder in a browser."""
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        page.wait_for_selector("html[data-ready]", timeout=120_000)
        yield page
        browser.close()
    server.shutdown()
    server.server_close()

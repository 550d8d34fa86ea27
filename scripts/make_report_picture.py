"""Make docs/report.png: the top of a report on the sample drawings, with a wrong label and a duplicate.

    python scripts/make_report_picture.py

Needs chromium and playwright.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from filmtransfer import FewShotClassifier
from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import enlarge_drawing, sample_drawings
from filmtransfer.report import PhotoRecorder, collect_training, write_report
from filmtransfer.training.callbacks import Callbacks

TARGET = Path(__file__).parents[1] / "docs" / "report.png"
CLASSES, SHOTS = 6, 10
WIDTH, HEIGHT = 1040, 1180


def flawed_drawings() -> LabelledImages:
    """Return six classes of drawings, one with the label of another class, and one drawing twice."""
    train, _ = sample_drawings(SHOTS, 0)
    selected = [i for i, label in enumerate(train.labels) if label < CLASSES]
    sources, labels = (
        [enlarge_drawing(train.sources[i]) for i in selected],
        [train.labels[i] for i in selected],
    )
    labels[2 * SHOTS] = 1
    return LabelledImages([*sources, sources[5]], [*labels, labels[5]], train.classes[:CLASSES])


def main() -> None:
    recorder = PhotoRecorder()
    callbacks = Callbacks(on_fitted=recorder.on_training)
    clf = FewShotClassifier(seed=0, steps=0).fit_images(flawed_drawings(), callbacks)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        update, page = Path(folder, "drawings.safetensors"), Path(folder, "report.html")
        clf.save(update)
        write_report(page, collect_training(clf, recorder, update))
        browser = play.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        view = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        view.goto(page.as_uri())
        view.screenshot(path=str(TARGET))
        browser.close()


if __name__ == "__main__":
    main()

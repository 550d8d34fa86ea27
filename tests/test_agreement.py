"""One classifier, one answer: Python, the report, HTTP, ONNX and the exported page agree for every head.

The temperature is not 1 and the prior is uneven, so that a softmax written elsewhere, or in another order, shows. Some of
the photos are rejected as none of the classes: by all or by none, at the same OOD score.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from filmtransfer import FewShotClassifier
from filmtransfer.cli import main
from filmtransfer.export.folded import folded_graph
from filmtransfer.export.parity import run_folded, run_shared
from filmtransfer.export.quantisation import quantise
from filmtransfer.export.shared import shared_backbone, user_file
from filmtransfer.export.web import write_web
from filmtransfer.heads import HEADS
from filmtransfer.report.collect import collect_test
from filmtransfer.report.pictures import PhotoRecorder
from filmtransfer.runtime.parity import difference, spread
from tests.chromium import chromium, serve_folder
from tests.conftest import picture
from tests.serve.conftest import SETTINGS, run_service
from tests.serve.updates import engine

pytestmark = [pytest.mark.browser(seconds=60), pytest.mark.xdist_group("agreement")]
CLASSES = ("bars", "disc", "plain")
PRIOR, TEMPERATURE, SIZE = [0.6, 0.1, 0.3], 1.7, 64
TOLERANCE = 1e-5


@dataclass
class Trained:
    """A classifier, its file, photos in a lossless format, and what Python says of them."""

    classifier: FewShotClassifier
    file: Path
    photos: list[Path]
    probabilities: np.ndarray
    ood_scores: np.ndarray
    rejected: np.ndarray

    def check_rejection(self, rejected: np.ndarray, scores: np.ndarray | None = None) -> None:
        """Check which photos are rejected and, relative to their spread, the scores."""
        assert rejected.tolist() == self.rejected.tolist()
        if scores is not None:
            assert difference(scores, self.ood_scores, spread(self.ood_scores)) < TOLERANCE

    def check(self, probabilities: np.ndarray) -> None:
        np.testing.assert_allclose(probabilities, self.probabilities, rtol=0, atol=TOLERANCE)
        assert (probabilities.argmax(1) == self.probabilities.argmax(1)).all()


@pytest.fixture(scope="module", params=HEADS)
def trained(request, tmp_path_factory) -> Trained:
    folder = tmp_path_factory.mktemp(request.param)
    images = [picture(kind, 10 * kind + i) for kind in range(3) for i in range(4)]
    labels = [name for name in ("disc", "bars", "plain") for _ in range(4)]
    classifier = FewShotClassifier(
        head=request.param, steps=2, image_size=SIZE, train_size=SIZE, prior=PRIOR, film_from=5
    ).fit(images, labels)
    classifier.update_ = replace(classifier.update_, temperature=TEMPERATURE)
    classifier.save(folder / "update.safetensors")
    photos = []
    for i in range(4):
        photos.append(folder / f"{i}.png")
        picture(i, 40 + i, size=90).resize((120, 75)).save(photos[-1])
    classifier = FewShotClassifier.load(folder / "update.safetensors")
    classified = classifier.classify(photos)
    return Trained(
        classifier,
        folder / "update.safetensors",
        photos,
        classified.probabilities,
        classifier.predictor_.ood_scores(classified.predictions),
        classifier.rejected(classified),
    )


@pytest.fixture(scope="module")
def pixels(trained) -> np.ndarray:
    from filmtransfer.data import read_squares

    squares, skipped = read_squares(
        trained.photos, trained.classifier.model_.pixels, map(str, trained.photos)
    )
    assert not skipped
    return np.stack(squares)


def test_python_follows_the_formula(trained):
    """softmax(logits / T + log π), written out."""
    logits = trained.classifier.classify(trained.photos).predictions.logits
    unnormalised = np.exp((logits - logits.max(1, keepdims=True)) / TEMPERATURE) * PRIOR
    trained.check(unnormalised / unnormalised.sum(1, keepdims=True))


def test_some_photos_are_rejected_and_some_are_not(trained):
    """Else the tests below would compare nothing."""
    assert trained.rejected.tolist() == [True, False, False, True]


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_the_command_rejects(trained, capsys, runtime):
    options = ["--reject", "--runtime", runtime, "--json"]
    assert main(["predict", str(trained.file), *map(str, trained.photos), *options]) == 0
    answers = json.loads(capsys.readouterr().out)["predictions"]
    trained.check_rejection(np.array([answer["rejected"] for answer in answers]))


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_the_command(trained, capsys, runtime):
    options = ["--top", "3", "--runtime", runtime, "--json"]
    assert main(["predict", str(trained.file), *map(str, trained.photos), *options]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["runtime"] == runtime
    answers = printed["predictions"]
    rows = [{p["class"]: p["p"] for p in answer["probabilities"]} for answer in answers]
    trained.check(np.array([[row[name] for name in CLASSES] for row in rows]))
    assert [a["class"] for a in answers] == [CLASSES[c] for c in trained.probabilities.argmax(1)]


def test_the_report(trained):
    recorder = PhotoRecorder()
    classified = trained.classifier.classify(trained.photos, on_images=recorder.on_images)
    data = collect_test(trained.classifier, recorder, np.zeros(4, np.int64), classified, trained.file)
    trained.check(data.predictions.probabilities)
    assert data.predictions.predicted.tolist() == trained.probabilities.argmax(1).tolist()


@pytest.mark.parametrize("runtime", ["onnx", "torch"])
def test_http(trained, tmp_path, runtime):
    for service in run_service(tmp_path, engine(SIZE, runtime), SETTINGS):
        service.add_user("anna")
        anna = service.client("anna")
        headers = {"Content-Type": "application/octet-stream"}
        anna.post("/api/versions", content=trained.file.read_bytes(), headers=headers).raise_for_status()
        rows, rejected = [], []
        for photo in trained.photos:
            answer = anna.post(
                "/api/predictions", content=photo.read_bytes(), headers={"Content-Type": "image/png"}
            )
            answer.raise_for_status()
            row = {p["class"]: p["p"] for p in answer.json()["probabilities"]}
            rows.append([row[name] for name in CLASSES])
            rejected.append(answer.json()["unknown"])
        trained.check(np.array(rows))
        trained.check_rejection(np.array(rejected))


def test_onnx(trained, pixels):
    folded = run_folded(folded_graph(trained.classifier))
    shared = run_shared(shared_backbone(trained.classifier), user_file(trained.classifier))
    for run in (folded, shared):
        outputs = run(pixels)
        trained.check(outputs["probabilities"])
        trained.check_rejection(outputs["rejected"], outputs["ood_score"])


def test_int8_rejects_the_same_photos(trained, pixels):
    """Scores move by one or two units of their spread; these photos are further from the threshold."""
    quantised = quantise(folded_graph(trained.classifier), [{"pixels": pixels}])
    trained.check_rejection(run_folded(quantised)(pixels)["rejected"])


@pytest.fixture(scope="module")
def page(trained, tmp_path_factory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("page") / "page"
    write_web(trained.classifier, folder)
    with serve_folder(folder) as address:
        yield address


def test_the_exported_page_in_chromium(trained, page):
    with chromium() as browser:
        opened = browser.new_page()
        opened.goto(page)
        opened.wait_for_selector("html[data-ready]", timeout=120_000)
        opened.set_input_files("#files", [str(photo) for photo in trained.photos])
        opened.wait_for_selector(f"#results > li:nth-child({len(trained.photos)})", timeout=120_000)
        cards = opened.query_selector_all("#results > li")[::-1]  # the newest is on top
        rows = [json.loads(card.get_attribute("data-probabilities")) for card in cards]
        names = [card.get_attribute("data-class") for card in cards]
        scores = [float(card.get_attribute("data-ood-score")) for card in cards]
        titles = [card.query_selector("h3").inner_text() for card in cards]
    trained.check(np.array(rows))
    trained.check_rejection(np.array([title == "None of these" for title in titles]), np.array(scores))
    assert names == [CLASSES[c] for c in trained.probabilities.argmax(1)]

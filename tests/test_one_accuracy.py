"""One accuracy: commands, Python, the report, the service and the model card show the estimate that the update stores."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from filmtransfer import FewShotClassifier, Predictor
from filmtransfer.cli import main
from filmtransfer.export.model_card import model_card
from filmtransfer.export.rejection import Rejection
from filmtransfer.formatting import accuracy_figures
from filmtransfer.model import Estimate, Update
from filmtransfer.serve.training import train_user
from tests.cli.running import document, run
from tests.conftest import picture
from tests.serve.conftest import SETTINGS, run_service
from tests.serve.updates import backbone, engine, photo

pytestmark = pytest.mark.slow(seconds=20)
SIZE = 64


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """Return an update that was fine-tuned on three classes of eight photos, of which a quarter was held out."""
    root = tmp_path_factory.mktemp("accuracy")
    for c, name in enumerate(("disc", "bars", "plain")):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(8):
            kind = (c + 1) % 3 if i == 0 else c  # some are mislabelled, so that the accuracy is not 100%
            picture(kind, 10 * c + i).save(root / "photos" / name / f"{i}.png")
    out = root / "a.safetensors"
    options = ["--steps", "3", "--image-size", str(SIZE), "--train-size", "48", "--keep-statistics"]
    assert main(["train", str(root / "photos"), "--out", str(out), *options]) == 0
    return out


@pytest.fixture(scope="module")
def stored(file) -> Estimate:
    estimate = Update.load(file).estimate
    assert estimate is not None
    assert estimate.unseen
    assert estimate.images == 6, "a quarter of the 24 photos, and not all of them"
    return estimate


def test_commands(file, stored, capsys, tmp_path):
    again = ["train", file.parent / "photos", "--out", tmp_path / "b.safetensors", "--no-report"]
    options = ["--steps", 3, "--image-size", SIZE, "--train-size", 48, "--keep-statistics"]
    assert f" {stored.percentage} (95% interval" in stored.text
    assert stored.text in run(capsys, *again, *options)[1]
    assert stored.text in " ".join(run(capsys, "show", file)[1].split()), "wrapped, but not changed"
    assert Estimate.read(document(capsys, "show", file)["results"]) == stored
    renamed = ["edit", "rename", file, "disc", "round", "--out", tmp_path / "c.safetensors"]
    assert stored.text in run(capsys, *renamed)[1]


def test_python(file, stored):
    assert FewShotClassifier.load(file).estimate_ == stored
    assert Predictor.load(file, runtime="torch").estimate_ == stored


def test_report(file, stored):
    page = file.with_name("a.report.html").read_text()
    accuracy, low, high = accuracy_figures(stored)
    assert f'<span class="number">{accuracy}</span>' in page
    assert f"anywhere from {low} to {high}." in page
    assert re.search(
        rf"\b{round(stored.accuracy * stored.images)} of the {stored.images} photos|all {stored.images} photos",
        page,
    )


def test_model_card(file, stored):
    update = Update.load(file)
    card = model_card(update, "hub", Rejection.of(update.predictor()))
    assert f"- {stored.text}" in card
    assert f"value: {stored.accuracy:.4f}" in card


def test_http_of_an_uploaded_file(file, stored, tmp_path):
    for service in run_service(tmp_path, engine(SIZE), SETTINGS):
        service.add_user("anna")
        anna = service.client("anna")
        headers = {"Content-Type": "application/octet-stream"}
        uploaded = anna.post("/api/versions", content=file.read_bytes(), headers=headers).json()
        assert uploaded["estimate"] == stored.to_dict()
        assert [uploaded[name] for name in ("accuracy", "low", "high")] == [
            stored.accuracy,
            stored.low,
            stored.high,
        ]
        assert anna.get("/api/me").json()["current"]["estimate"] == stored.to_dict()
        damaged = Update.load(file)
        damaged.results["estimate"]["low"] = 7
        refused = anna.post("/api/versions", content=damaged.to_bytes(), headers=headers)
        assert refused.status_code == 400
        assert "estimate is not valid" in refused.json()["error"]["message"]


def test_http_of_a_version_that_was_trained_there(tmp_path):
    """The confusion matrix counts all photos; the estimate, and every figure of the API, only the unseen ones."""
    images = [photo(c, 10 * c + i) for c in range(3) for i in range(8)]
    labels = [name for name in ("disc", "bars", "plain") for _ in range(8)]
    for service in run_service(tmp_path, engine(SIZE), SETTINGS):
        project = service.store.projects.resolve(service.add_user("anna"))
        anna = service.client("anna")
        files = []

        def publish(content, summary, service=service, project=project, files=files):
            for prediction in summary["photos"]:
                prediction["id"] = f"{prediction['index']:016x}"
            service.store.versions.publish(project, content, "trained", summary)
            files.append(content)

        options = {"steps": 3, "image_size": SIZE, "seed": 0}
        train_user(images, labels, backbone=backbone(), options=options, publish=publish)
        for number, content in enumerate(files, 1):
            update = Update.from_bytes(content)
            check = anna.get(f"/api/versions/{number}/check").json()
            version = anna.get("/api/versions").json()["versions"][-number]
            assert version["estimate"] == check["estimate"] == update.estimate.to_dict()
            figures = [update.estimate.accuracy, update.estimate.low, update.estimate.high]
            assert [check[name] for name in ("accuracy", "low", "high")] == figures
            assert check["images"] == sum(map(sum, check["confusion"])) == len(check["photos"]) == 24
            assert check["unseen_images"] == update.estimate.images == (24, 6)[number - 1]
        assert "fine-tuning has seen 18 of them" in check["text"]

"""Texts that people write: lists of images, and policies of a federation's client."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from filmtransfer.data.images import LabelledImages
from filmtransfer.errors import FitError
from filmtransfer.federated.policy import Policy

POLICY = b"""secure_aggregation_only = true
min_clients = 3
epsilon = 8.0
delta = 1e-5
max_rounds = 20
plans = ["2f1b"]
releases = ["train", "evaluation"]
"""
LIST = b'\xef\xbb\xbfname,path,label\nx,a.png,cat\n"y, z","b.png",dog\n,,\n,"c\nd.png",cat\n'


def seeds() -> list[bytes]:
    return [bytes([kind]) + text for kind, text in enumerate((LIST, POLICY))]


def run(data: bytes) -> None:
    kind, text = (data[0] % 2 if data else 0), data[1:]
    with tempfile.TemporaryDirectory() as folder, suppress(FitError):
        file = Path(folder, "x.csv")
        file.write_bytes(text)
        if kind == 0:
            for name in ("a.png", "b.png"):
                Path(folder, name).touch()
            LabelledImages.from_path(file)
        else:
            Policy.load(file)

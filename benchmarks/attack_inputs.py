"""The attacks of attacks.py: each is an input at the limit of a budget, or beyond it."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

from attack_service import BINARY, JSON, AttackedService, Outcome, classifier
from filmtransfer.model import Update

SIDE = 9990  # the largest square within 100 megapixels
PREDICT = "/api/predictions"


@dataclass(frozen=True)
class Attack:
    """An attack by its name, and what it sends."""

    name: str
    run: Callable[[AttackedService], Outcome]


def image(mode: str, kind: str, side: int = SIDE, **options: Any) -> bytes:
    """Return an image of one colour, which compresses to almost nothing."""
    out = BytesIO()
    Image.new(mode, (side, side)).save(out, kind, **options)
    return out.getvalue()


def many_scans(side: int, scans: int) -> bytes:
    """Return a progressive JPEG, one of whose scans is repeated: each costs a pass over all its blocks."""
    content = image("L", "JPEG", side, quality=50, progressive=True)
    position, scan, tables = 2, b"", b""
    while content[position + 1] != 0xD9:  # the end of the image
        marker, length = content[position + 1], int.from_bytes(content[position + 2 : position + 4], "big")
        end = position + 2 + length
        if marker == 0xC4:
            tables = content[position:end]
        if marker == 0xDA:  # a scan, and its data up to the next marker
            while not (content[end] == 0xFF and content[end + 1] not in (0, *range(0xD0, 0xD8))):
                end += 1
            spectral = content[position + 5 + 2 * content[position + 4]]
            scan = tables + content[position:end] if spectral and not scan else scan
        position = end
    return content[:position] + scan * scans + content[position:]


def large_directory(tags: int, size: int) -> bytes:
    """Return a PNG whose EXIF has many tags that all have the same bytes as their value."""
    entries = b"".join(struct.pack("<HHII", 1000 + i, 7, size, 8) for i in range(tags))
    directory = (
        b"II*\0" + struct.pack("<I", 8 + size) + b"\0" * size + struct.pack("<H", tags) + entries + b"\0" * 4
    )
    out = BytesIO()
    Image.new("RGB", (64, 64)).save(out, "PNG", exif=directory)
    return out.getvalue()


def predictions(make: Callable[[], bytes], count: int) -> Callable[[AttackedService], Outcome]:
    """Return an attack by several predictions of one image at the same time."""

    def run(service: AttackedService) -> Outcome:
        return service.ask_together([("POST", PREDICT, make())] * count)

    return run


def slow_bodies(count: int, seconds: float, rate: int) -> Callable[[AttackedService], Outcome]:
    """Return an attack by bodies that arrive slowly, in bytes a second each."""

    def run(service: AttackedService) -> Outcome:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\n"
        head += f"Content-Type: {BINARY}\r\nContent-Length: 19000000\r\n\r\n"
        return silent_connections(count, seconds, head.encode(), rate)(service)

    return run


def two_photos(mode: str, kind: str, **options: Any) -> Callable[[AttackedService], Outcome]:
    """Return an attack by two large images at the same time: one to be classified, one to be kept."""

    def run(service: AttackedService) -> Outcome:
        content = image(mode, kind, **options)
        keep = f"/api/classes/{service.class_id}/photos"
        return service.ask_together([("POST", PREDICT, content), ("POST", keep, content)])

    return run


def update(**changes: Any) -> Update:
    """Return a valid update with some fields replaced."""
    return replace(Update.from_bytes(classifier(keep_statistics=False)), **changes)


def many_names(length: int, classes: int) -> Callable[[AttackedService], Outcome]:
    """Return an attack by uploads with long class names, whose versions are then listed three times at once."""

    def run(service: AttackedService) -> Outcome:
        few = update(ood=None)
        features = few.head_tensors["weight"].shape[1]
        crafted = replace(
            few,
            classes=[f"{i:04}" + "x" * (length - 4) for i in range(classes)],
            counts=[1] * classes,
            head_tensors={
                "weight": np.zeros((classes, features), np.float32),
                "bias": np.zeros(classes, np.float32),
            },
        )
        content = crafted.to_bytes()
        outcome = Outcome([service.ask("POST", "/api/versions", content) for _ in range(10)])
        lists = service.ask_together([("GET", "/api/versions", None)] * 3)
        return Outcome(outcome.answers + lists.answers)

    return run


def uneven_classes(examples: int, classes: int) -> Callable[[AttackedService], Outcome]:
    """Return an attack by a QDA classifier of one large and many small classes, which then predicts."""

    def run(service: AttackedService) -> Outcome:
        generator = np.random.default_rng(0)
        few = update(head="lda")
        features = few.head_tensors["weight"].shape[1]
        counts = [examples] + [1] * (classes - 1)
        crafted = replace(
            few,
            head="qda",
            head_options={},
            classes=[f"class {i}" for i in range(classes)],
            counts=counts,
            head_weights=np.zeros(3, np.float32),
            head_tensors={
                "rows": generator.standard_normal((sum(counts), features)).astype(np.float32),
                "mean": generator.standard_normal((features,)).astype(np.float32),
                "labels": np.repeat(np.arange(classes), counts),
            },
            ood=None,
        )
        upload = service.ask("POST", "/api/versions", crafted.to_bytes())
        return Outcome([upload, service.ask("POST", PREDICT, image("RGB", "JPEG", 256))])

    return run


def nested_json(service: AttackedService) -> Outcome:
    """Send the deepest JSON that fits into a body."""
    depth = service_json_bytes() // 2
    body = b"[" * depth + b"]" * depth
    return Outcome([service.ask("POST", "/api/classes", body, JSON) for _ in range(20)])


def service_json_bytes() -> int:
    """Return the largest JSON body."""
    from filmtransfer.serve.settings import ServiceSettings

    return ServiceSettings().max_json_bytes - 100


def silent_connections(
    count: int, seconds: float, begin: bytes, rate: int = 1
) -> Callable[[AttackedService], Outcome]:
    """Return an attack by connections that send the beginning of a request, and then some bytes each second."""

    def run(service: AttackedService) -> Outcome:
        host, _, port = service.address.rpartition(":")
        connections = []
        for _ in range(count):
            connection = socket.create_connection((host, int(port)), timeout=5)
            connection.sendall(begin)
            connections.append(connection)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for connection in connections:
                try:
                    connection.sendall(b"x" * rate if begin else b"")
                except OSError:
                    pass
            time.sleep(1)
        answers = []
        for connection in connections:
            connection.setblocking(False)
            try:
                answers.append(("ended by the service" if not connection.recv(1000) else "answered", b""))
            except BlockingIOError:
                answers.append(("still open", b""))
            except OSError:
                answers.append(("ended by the service", b""))
            connection.close()
        return Outcome(answers)

    return run


ATTACKS = [
    Attack("two grey 16-bit PNGs of 9990×9990", two_photos("I;16", "PNG")),
    Attack("two RGBA PNGs of 9990×9990", two_photos("RGBA", "PNG")),
    Attack("two RGB JPEGs of 9990×9990", two_photos("RGB", "JPEG")),
    Attack("two CMYK TIFFs of 9990×9990, compressed", two_photos("CMYK", "TIFF", compression="tiff_deflate")),
    Attack("two float TIFFs of 9990×9990, compressed", two_photos("F", "TIFF", compression="tiff_deflate")),
    Attack("two WebPs of 9990×9990", two_photos("RGBA", "WEBP", lossless=True)),
    Attack("ten uploads with class names of 1 MB", many_names(1_000_000, 2)),
    Attack("ten uploads with 100 class names of 100 characters", many_names(100, 100)),
    Attack("a QDA classifier with 600 examples in one of 200 classes", uneven_classes(600, 200)),
    Attack("20 JSON bodies as deep as they are long", nested_json),
    Attack("300 connections that send nothing, for 20 s", silent_connections(300, 20, b"")),
    Attack(
        "300 connections that send a byte of their header a second, for 20 s",
        silent_connections(300, 20, b"POST /api/predictions HTTP/1.1\r\nx: "),
    ),
    Attack("200 predictions of one user at once", predictions(lambda: image("RGB", "JPEG", 256), 200)),
    Attack(
        "8 progressive JPEGs of 9990×9990 with 300 repeated scans",
        predictions(lambda: many_scans(SIDE, 300), 8),
    ),
    Attack(
        "2 PNGs whose EXIF repeats a megabyte in 3,000 tags",
        predictions(lambda: large_directory(3000, 1 << 20), 2),
    ),
    Attack("16 bodies at 20 kB a second, for 20 s", slow_bodies(16, 20, 20_000)),
]

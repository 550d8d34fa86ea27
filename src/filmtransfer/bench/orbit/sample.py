"""A small set in ORBIT's published layout: coloured shapes that wander about, alone or among others.

    python -m filmtransfer.bench.orbit.sample DIR            frames, test and train users
    python -m filmtransfer.bench.orbit.sample DIR --videos   one user's .mp4 files

Clean videos show an object alone, clutter videos among other shapes; two and two objects have one colour. It is made to
try the protocol with, not to measure anything.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from ...errors import FitError, MissingExtraError
from ...seeding import make_generator

COLOURS = ("crimson", "royalblue", "goldenrod", "seagreen", "mediumorchid", "darkorange")
SHAPES = ("disc", "square", "triangle", "ring", "cross", "bar")


def make_sample(
    root: str | Path,
    *,
    users: int = 3,
    objects: int = 3,
    clean: int = 3,
    clutter: int = 2,
    frames: int = 24,
    size: int = 64,
    mode: str = "test",
    as_videos: bool = False,
    seed: int = 0,
) -> Path:
    """``root/mode/USER/OBJECT/{clean,clutter}/VIDEO/…jpg``, or ``….mp4`` with ``as_videos`` (and no mode)."""
    base = Path(root) if as_videos else Path(root) / mode
    for u in range(users):
        user = f"P{u + 1:03d}"
        for o in range(objects):
            number = (u + o) % len(SHAPES), (u + o // 2) % len(COLOURS)  # two and two of one colour
            thing = f"{COLOURS[number[1]]} {SHAPES[number[0]]}"
            for kind, count in (("clean", clean), ("clutter", clutter)):
                for v in range(count):
                    name = f"{user}--{thing.replace(' ', '-')}--{kind}--{v:02d}"
                    shown = moving(number, kind, frames, size, make_generator(seed, mode, name))
                    place = base / user / thing / kind
                    if as_videos:
                        place.mkdir(parents=True, exist_ok=True)
                        write_video(place / f"{name}.mp4", shown)
                    else:
                        write_frames(place / name, shown)
    return Path(root)


def moving(
    number: tuple[int, int], kind: str, frames: int, size: int, generator: torch.Generator
) -> list[Image.Image]:
    """A video of an object: it drifts, turns and grows a little on a noisy ground."""
    draws = torch.rand(64, generator=generator).tolist()
    ground = tuple(int(90 + 120 * x) for x in draws[:3])
    others = [(int(6 * draws[10 + i]), int(6 * draws[20 + i])) for i in range(6 if kind == "clutter" else 0)]
    pictures = []
    for t in range(frames):
        noise = torch.randint(-12, 13, (size, size, 3), generator=generator).numpy()
        canvas = Image.fromarray((np.array(ground) + noise).clip(0, 255).astype(np.uint8))
        pencil = ImageDraw.Draw(canvas)
        for i, (shape, colour) in enumerate(others):
            at = (size * draws[30 + i], size * draws[40 + i])
            _draw(pencil, SHAPES[shape], COLOURS[colour], at, size * 0.12, draws[50 + i])
        phase = 2 * math.pi * (draws[3] + t / frames)
        at = (size * (0.5 + 0.2 * math.cos(phase)), size * (0.5 + 0.2 * math.sin(2 * phase)))
        radius = size * (0.2 + 0.05 * draws[4] + 0.03 * math.sin(phase)) * (0.7 if others else 1)
        _draw(pencil, SHAPES[number[0]], COLOURS[number[1]], at, radius, draws[5] + t / frames)
        pictures.append(canvas)
    return pictures


def write_frames(place: Path, pictures: list[Image.Image]) -> None:
    """As ORBIT does: VIDEO/VIDEO-00001.jpg and so on."""
    place.mkdir(parents=True, exist_ok=True)
    for i, picture in enumerate(pictures, 1):
        picture.save(place / f"{place.name}-{i:05d}.jpg", quality=90)


def write_video(path: Path, pictures: list[Image.Image], rate: int = 8, rotation: int = 0) -> None:
    """An mp4 file; ``rotation`` as a telephone notes it."""
    try:
        import av
    except ImportError:
        raise MissingExtraError("Writing videos", "video") from None
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height = pictures[0].size
        stream.pix_fmt, stream.bit_rate = "yuv420p", 2_000_000
        if rotation:
            stream.set_display_rotation(rotation)
        for picture in pictures:
            frame: Any = av.VideoFrame.from_ndarray(np.array(picture), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def _draw(
    pencil: ImageDraw.ImageDraw, shape: str, colour: str, at: tuple[float, float], radius: float, turn: float
) -> None:
    x, y = at
    box = (x - radius, y - radius, x + radius, y + radius)

    def corners(count: int, reach: float = 1.0) -> list[tuple[float, float]]:
        angles = [2 * math.pi * (turn + (i + 0.5) / count) for i in range(count)]
        return [(x + reach * radius * math.cos(a), y + reach * radius * math.sin(a)) for a in angles]

    if shape == "disc":
        pencil.ellipse(box, fill=colour)
    elif shape == "ring":
        pencil.ellipse(box, outline=colour, width=max(2, round(radius / 2.5)))
    elif shape in ("square", "triangle"):
        pencil.polygon(corners(4 if shape == "square" else 3, 1.2), fill=colour)
    else:
        ends = corners(4 if shape == "cross" else 2, 1.2)
        for a, b in zip(ends[: len(ends) // 2], ends[len(ends) // 2 :], strict=True):
            pencil.line([a, b], fill=colour, width=max(2, round(radius / 2)))


def main(words: list[str]) -> int:
    """The command; says what it made."""
    if len(words) not in (1, 2) or words[1:] not in ([], ["--videos"]) or words[0].startswith("-"):
        print("usage: python -m filmtransfer.bench.orbit.sample DIR [--videos]", file=sys.stderr)
        return 2
    try:
        if "--videos" in words:
            make_sample(words[0], users=1, as_videos=True)
        else:
            make_sample(words[0])
            make_sample(words[0], users=2, mode="train", seed=1)
    except (FitError, OSError) as error:
        print(f"{words[0]} cannot be made: {error}", file=sys.stderr)
        return 3
    print(f"Made {words[0]}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

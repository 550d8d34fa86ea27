"""A small dataset in ORBIT's published layout: videos of coloured shapes, alone or among others.

    python -m filmtransfer.bench.orbit.sample DIR            frames, test and train users
    python -m filmtransfer.bench.orbit.sample DIR --videos   the .mp4 files of one user

Clean videos show an object alone, clutter videos show it among other shapes; every two objects have the same colour. It
serves to try the protocol, not to measure accuracy.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw

from ...errors import FitError, MissingExtraError
from ...seeding import make_generator

COLOURS = ("crimson", "royalblue", "goldenrod", "seagreen", "mediumorchid", "darkorange")
SHAPES = ("disc", "square", "triangle", "ring", "cross", "bar")


@dataclass(frozen=True)
class OrbitSample:
    """The size and seed of a sample; videos per object, frames per video, pixels per side."""

    users: int = 3
    objects: int = 3
    clean: int = 3
    clutter: int = 2
    frames: int = 24
    size: int = 64
    mode: str = "test"
    seed: int = 0

    def write(self, root: str | Path, *, as_videos: bool = False) -> Path:
        """Write ``root/mode/USER/OBJECT/{clean,clutter}/VIDEO/…jpg``, or ``….mp4`` files without a mode."""
        base = Path(root) if as_videos else Path(root) / self.mode
        for u in range(self.users):
            user = f"P{u + 1:03d}"
            for o in range(self.objects):
                shape, colour = (u + o) % len(SHAPES), (u + o // 2) % len(COLOURS)
                name = f"{COLOURS[colour]} {SHAPES[shape]}"
                for kind, count in (("clean", self.clean), ("clutter", self.clutter)):
                    for v in range(count):
                        video = f"{user}--{name.replace(' ', '-')}--{kind}--{v:02d}"
                        generator = make_generator(self.seed, self.mode, video)
                        images = draw_video((shape, colour), kind, self.frames, self.size, generator)
                        folder = base / user / name / kind
                        if as_videos:
                            folder.mkdir(parents=True, exist_ok=True)
                            write_video(folder / f"{video}.mp4", images)
                        else:
                            write_frames(folder / video, images)
        return Path(root)


def draw_video(
    appearance: tuple[int, int], kind: str, frames: int, size: int, generator: torch.Generator
) -> list[Image.Image]:
    """Draw the frames of an object, given by shape and colour, that moves, turns and grows on a noisy background."""
    draws = torch.rand(64, generator=generator).tolist()
    background = tuple(int(90 + 120 * x) for x in draws[:3])
    others = [(int(6 * draws[10 + i]), int(6 * draws[20 + i])) for i in range(6 if kind == "clutter" else 0)]
    images = []
    for t in range(frames):
        noise = torch.randint(-12, 13, (size, size, 3), generator=generator).numpy()
        image = Image.fromarray((np.array(background) + noise).clip(0, 255).astype(np.uint8))
        canvas = ImageDraw.Draw(image)
        for i, (shape, colour) in enumerate(others):
            at = (size * draws[30 + i], size * draws[40 + i])
            _draw(canvas, SHAPES[shape], COLOURS[colour], at, size * 0.12, draws[50 + i])
        phase = 2 * math.pi * (draws[3] + t / frames)
        at = (size * (0.5 + 0.2 * math.cos(phase)), size * (0.5 + 0.2 * math.sin(2 * phase)))
        radius = size * (0.2 + 0.05 * draws[4] + 0.03 * math.sin(phase)) * (0.7 if others else 1)
        _draw(canvas, SHAPES[appearance[0]], COLOURS[appearance[1]], at, radius, draws[5] + t / frames)
        images.append(image)
    return images


def write_frames(folder: Path, images: list[Image.Image]) -> None:
    """Write frames with the names of ORBIT: VIDEO/VIDEO-00001.jpg and so on."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, image in enumerate(images, 1):
        image.save(folder / f"{folder.name}-{i:05d}.jpg", quality=90)


def write_video(path: Path, images: list[Image.Image], rate: int = 8, rotation: int = 0) -> None:
    """Write an mp4 file; ``rotation`` is stored as phones do."""
    try:
        import av
    except ImportError:
        raise MissingExtraError("Writing videos", "video") from None
    with av.open(str(path), "w") as container:
        track = container.add_stream("mpeg4", rate=rate)
        track.width, track.height = images[0].size
        track.pix_fmt, track.bit_rate = "yuv420p", 2_000_000
        if rotation:
            track.set_display_rotation(rotation)
        for image in images:
            frame: Any = av.VideoFrame.from_ndarray(np.array(image), format="rgb24")
            container.mux(track.encode(frame))
        container.mux(track.encode())


def _draw(
    canvas: ImageDraw.ImageDraw, shape: str, colour: str, at: tuple[float, float], radius: float, turn: float
) -> None:
    x, y = at
    box = (x - radius, y - radius, x + radius, y + radius)

    def corners(count: int, reach: float = 1.0) -> list[tuple[float, float]]:
        angles = [2 * math.pi * (turn + (i + 0.5) / count) for i in range(count)]
        return [(x + reach * radius * math.cos(a), y + reach * radius * math.sin(a)) for a in angles]

    if shape == "disc":
        canvas.ellipse(box, fill=colour)
    elif shape == "ring":
        canvas.ellipse(box, outline=colour, width=max(2, round(radius / 2.5)))
    elif shape in ("square", "triangle"):
        canvas.polygon(corners(4 if shape == "square" else 3, 1.2), fill=colour)
    else:
        ends = corners(4 if shape == "cross" else 2, 1.2)
        for a, b in zip(ends[: len(ends) // 2], ends[len(ends) // 2 :], strict=True):
            canvas.line([a, b], fill=colour, width=max(2, round(radius / 2)))


def main(arguments: list[str]) -> int:
    """Run the command and return its exit code."""
    valid = arguments[1:] in ([], ["--videos"]) and len(arguments) > 0 and not arguments[0].startswith("-")
    if not valid:
        print("usage: python -m filmtransfer.bench.orbit.sample DIR [--videos]", file=sys.stderr)
        return 2
    folder = arguments[0]
    try:
        if "--videos" in arguments:
            OrbitSample(users=1).write(folder, as_videos=True)
        else:
            OrbitSample().write(folder)
            OrbitSample(users=2, mode="train", seed=1).write(folder)
    except (FitError, OSError) as error:
        print(f"{folder} cannot be written: {error}", file=sys.stderr)
        return 3
    print(f"Wrote {folder}.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

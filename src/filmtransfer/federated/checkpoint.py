"""What a server needs to go on after it was killed: ψ, the rounds so far, and the plan they were made with.

One file, written whole after every round. ``rounds.jsonl`` beside it is for people and programs to follow; it is
made anew from the checkpoint, so that the two never disagree.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UpdateFileError, UsageError
from ..files import write_atomically
from .plan import Plan

FILE, LINES = "checkpoint.npz", "rounds.jsonl"
MAY_CHANGE = (
    "rounds",
    "timeout",
    "min_clients",
    "evaluate_every",
)  # of a plan, in the middle of a federation


@dataclass
class Checkpoint:
    """After ``len(rounds)`` rounds (``began`` is what was measured before the first)."""

    psi: np.ndarray
    classes: list[str]
    rounds: list[dict[str, Any]] = field(default_factory=list)
    began: dict[str, Any] = field(default_factory=dict)
    spent: str = ""  # the privacy accountant's, where there is one

    @property
    def done(self) -> int:
        return len(self.rounds)

    def save(self, folder: Path, plan: Plan) -> None:
        about = {
            "plan": plan.to_dict(),
            "classes": self.classes,
            "rounds": self.rounds,
            "began": self.began,
            "spent": self.spent,
        }
        buffer = io.BytesIO()
        np.savez(buffer, psi=self.psi, about=np.array(json.dumps(about, sort_keys=True)))
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, buffer.getvalue())
        lines = "".join(
            json.dumps(line, sort_keys=True) + "\n" for line in [self.began, *self.rounds] if line
        )
        write_atomically(folder / LINES, lines.encode())

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> Checkpoint | None:
        """What is there, if anything; refuses what was made with another plan."""
        if not (folder / FILE).exists():
            return None
        try:
            with np.load(io.BytesIO((folder / FILE).read_bytes())) as stored:
                about = json.loads(str(stored["about"]))
                found = cls(stored["psi"], about["classes"], about["rounds"], about["began"], about["spent"])
            before = about["plan"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
            raise UpdateFileError(
                f"{folder / FILE} is not a checkpoint of a federation.", "Use another folder."
            ) from None
        now = plan.to_dict()
        changed = sorted(k for k in now if before.get(k) != now[k] and k not in MAY_CHANGE)
        if changed:
            raise UsageError(
                f"{folder} holds a federation with another plan (it differs in {', '.join(changed)}).",
                "Go on with the same plan, or use another folder.",
            )
        return found

"""The checkpoint from which a server resumes: ψ, the records of the rounds so far, and their plan.

It is one file, replaced atomically as soon as a round has its ψ and before that is sent to anyone: ψ and the privacy
spent on it are on disk together, so that no kill of the server separates them. ``rounds.jsonl`` beside it is for people
and programs to follow; it is rewritten from the checkpoint once a round is finished.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import UpdateFileError, UsageError
from ..files import make_folder, write_atomically
from .plan import Plan
from .records import RoundRecord

CHECKPOINT_FILE, ROUNDS_FILE = "checkpoint.npz", "rounds.jsonl"
SUMMED = "summed/"  # prefix of the summed statistics in the file
DAMAGED = (  # what numpy, zipfile and json raise for a file that is not what it should be
    ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, SyntaxError, TypeError,
    ValueError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# Settings that a resumed plan may change.
CHANGEABLE = ("rounds", "timeout", "clients_per_round", "min_clients", "evaluate_every", "assess")


@dataclass(frozen=True)
class SavedSums:
    """The summed statistics as arrays, with their classes and clients."""

    arrays: dict[str, np.ndarray]
    classes: list[str]
    clients: list[str]


@dataclass
class Checkpoint:
    """The state of a federation after ``done`` rounds."""

    psi: np.ndarray
    classes: list[str]
    rounds: list[RoundRecord] = field(default_factory=list)
    initial: RoundRecord = field(default_factory=RoundRecord)  # the evaluation before the first round
    accountant: str = ""  # of differential privacy, as JSON
    summed: SavedSums | None = None  # under ψ, once the rounds are over

    @property
    def done(self) -> int:
        """The number of completed rounds."""
        return len(self.rounds)

    def save(self, folder: Path, plan: Plan) -> None:
        """Write the checkpoint into a folder; when this returns, it survives a kill and a power failure."""
        about = {
            "plan": plan.to_dict(),
            "classes": self.classes,
            "rounds": self.rounds,
            "began": self.initial,
            "spent": self.accountant,
        }
        arrays = {"psi": self.psi}
        if self.summed:
            about["summed"] = {"classes": self.summed.classes, "clients": self.summed.clients}
            arrays |= {SUMMED + name: array for name, array in self.summed.arrays.items()}
        buffer = io.BytesIO()
        np.savez(buffer, about=np.array(json.dumps(about, sort_keys=True)), **arrays)  # type: ignore[arg-type]
        make_folder(folder, parents=True)
        write_atomically(folder / CHECKPOINT_FILE, buffer.getvalue())

    def write_rounds(self, folder: Path) -> None:
        """Write the records of the rounds into ``rounds.jsonl`` in a folder."""
        lines = [
            json.dumps(record, sort_keys=True) + "\n" for record in [self.initial, *self.rounds] if record
        ]
        write_atomically(folder / ROUNDS_FILE, "".join(lines).encode())

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> Checkpoint | None:
        """Return the checkpoint of a folder, None if there is none; refuse one of another plan."""
        path = folder / CHECKPOINT_FILE
        if not path.exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes())) as stored:
                about = json.loads(str(stored["about"]))
                for record in about["rounds"]:
                    if "outvoted" in record:  # the name in earlier versions
                        record["outliers"] = record.pop("outvoted")
                    # Earlier versions did not record it; nobody else has contributed.
                    record.setdefault("contributed", record["clients"])
                checkpoint = cls(
                    stored["psi"], about["classes"], about["rounds"], about["began"], about["spent"]
                )
                if "summed" in about:  # not in earlier versions
                    sums = {n.removeprefix(SUMMED): stored[n] for n in stored.files if n.startswith(SUMMED)}
                    checkpoint.summed = SavedSums(
                        sums, about["summed"]["classes"], about["summed"]["clients"]
                    )
            stored_plan = about["plan"]
        except DAMAGED:
            raise UpdateFileError(
                f"{path} is not a checkpoint of a federation.", "Use another folder."
            ) from None
        settings = plan.to_dict()
        changed = sorted(k for k in settings if stored_plan.get(k) != settings[k] and k not in CHANGEABLE)
        if changed:
            raise UsageError(
                f"{folder} holds a federation with another plan (it differs in {', '.join(changed)}).",
                "Continue with the same plan, or use another folder.",
            )
        return checkpoint

"""The methods of the paper's table of ORBIT, and their runs on every task of every user."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...errors import InputError, UpdateFileError, UsageError, check_choice, check_count
from ...files import reading
from ..recipe import Run
from ..rows import RunSettings
from .dataset import VIDEO_KINDS, OrbitUser, read_user, user_names
from .tasks import OrbitProtocol, split_videos

CNAPS = "cnaps"


class MethodSpec(NamedTuple):
    """A method: its name on the command line and in the paper, its settings, and its parameters per user."""

    option: str
    title: str
    settings: RunSettings
    per_user: str


METHODS = {
    spec.option: spec
    for spec in (
        MethodSpec("finetuner", "FineTuner", {"head": "linear", "train": "none"}, "(d + 1)C"),
        MethodSpec(CNAPS, "Simple CNAPs", {"head": "mahalanobis", "train": "none"}, "d(d + 3)/2 · C"),
        MethodSpec("protonets", "ProtoNets", {"head": "protonets", "train": "none"}, "dC"),
        MethodSpec("frozen-lda", "Frozen-LDA", {"head": "lda", "train": "none"}, "(d + 1)C"),
        MethodSpec("fit-lda", "FiT-LDA", {"head": "lda"}, "(d + 1)C + |ψ|"),
        MethodSpec("fit-qda", "FiT-QDA", {"head": "qda"}, "d(d + 3)/2 · C + |ψ|"),
        MethodSpec("fit-protonets", "FiT-ProtoNets", {"head": "protonets"}, "dC + |ψ|"),
        MethodSpec("bit", "BiT", {"head": "linear", "train": "all", "preset": "bit"}, "(d + 1)C + |θ|"),
    )
}


@dataclass(frozen=True)
class OrbitExperiment:
    """Which methods to run on which users of ORBIT, and how."""

    methods: Sequence[str]  # keys of METHODS
    backbone: str
    users: int | None = None  # only the first ones
    tasks: int = 5  # of each user
    mode: str = "test"
    rate: float | None = None  # frames a second of video files
    seed: int = 0
    cnaps: Path | None = None
    settings: RunSettings = field(default_factory=dict)

    def runs(self, root: Path) -> tuple[list[Run], list[str]]:
        """Return the runs, task by task, so that a table of one task is complete before the next; and notes."""
        self._check()
        protocol = OrbitProtocol.from_settings(self.settings)
        names = user_names(root, self.mode)[: self.users]
        users = [read_user(root, name, self.mode, self.rate) for name in names]
        notes = [f"{user.name}: {note}" for user in users for note in user.notes]
        queries = [(user, kind) for user in users for kind in _query_kinds(user, protocol, notes)]
        if not queries:
            raise InputError(
                f"No user of {root} has query videos.", notes[-1] if notes else "Two objects are needed."
            )
        fingerprints = {user.name: _fingerprint(user) for user in users}
        common = self._common_settings()
        runs = []
        for task in range(self.tasks):
            for user, kind in queries:
                for option in self.methods:
                    method = METHODS[option]
                    run = {**common, **method.settings, **self.settings, "method": method.title}
                    run |= {"user": user.name, "task": task, "videos": kind, "data": fingerprints[user.name]}
                    if option == CNAPS and self.cnaps is not None:
                        run |= {"cnaps": str(self.cnaps.resolve()), "cnaps_sha256": _digest(self.cnaps)}
                    runs.append(Run(run))
        return runs, notes

    def _check(self) -> None:
        for option in self.methods:
            check_choice("The method", option, METHODS)
        check_count("tasks", self.tasks)
        if self.users is not None:
            check_count("users", self.users)
        if CNAPS in self.methods and self.cnaps is None:
            raise UsageError(
                "Simple CNAPs has not been trained.", "Name its file with --cnaps ('fit bench cnaps train')."
            )

    def _common_settings(self) -> dict[str, object]:
        preset = "orbit_bit" if "bit" in self.backbone.split("_")[0] else "orbit_b0"
        common: dict[str, object] = {"protocol": "orbit", "dataset": "orbit", "seed": self.seed}
        common |= {"backbone": self.backbone, "preset": preset}
        if self.mode != "test":
            common["mode"] = self.mode
        if self.rate is not None:
            common["rate"] = self.rate
        return common


def _query_kinds(user: OrbitUser, protocol: OrbitProtocol, notes: list[str]) -> list[str]:
    """Return the kinds of query videos that a user has; add a note for each missing one."""
    if len(user.objects) < 2:
        notes.append(f"{user.name} has fewer than two objects with clean videos: skipped.")
        return []
    kinds = [
        kind for kind in VIDEO_KINDS if any(split_videos(item, kind, protocol)[1] for item in user.objects)
    ]
    notes += [f"{user.name} has no {kind} query video." for kind in VIDEO_KINDS if kind not in kinds]
    return kinds


def _fingerprint(user: OrbitUser) -> str:
    """Return a digest of a user's videos: a user of the same name with other videos is another run."""
    content = [
        [item.name, kind, video.name, len(video.frames)]
        for item in user.objects
        for kind in VIDEO_KINDS
        for video in getattr(item, kind)
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def _digest(path: Path) -> str:
    with reading(path, "Train it with 'fit bench cnaps train'.", UpdateFileError):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]

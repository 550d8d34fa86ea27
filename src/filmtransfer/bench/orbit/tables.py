"""ORBIT's tasks as runs of a sweep, and the paper's table of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError, UpdateFileError, UsageError, invalid_choice
from ...files import write_atomically
from ..published import BACKBONES, Published, lookup, published
from ..recipe import Run
from ..result_table import WRITERS, Cell, Count, ResultTable
from ..rows import Row
from .dataset import OrbitUser, read_user, user_names
from .evaluation import Summary, summarise
from .tasks import QUERY_KINDS, OrbitProtocol, divide

TABLE = "orbit_results"
# By the word on the command line: the paper's name, and what it does.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "finetuner": ("FineTuner", {"head": "linear", "train": "none"}),
    "cnaps": ("Simple CNAPs", {"head": "mahalanobis", "train": "none"}),
    "protonets": ("ProtoNets", {"head": "protonets", "train": "none"}),
    "frozen-lda": ("Frozen-LDA", {"head": "lda", "train": "none"}),
    "fit-lda": ("FiT-LDA", {"head": "lda"}),
    "fit-qda": ("FiT-QDA", {"head": "qda"}),
    "fit-protonets": ("FiT-ProtoNets", {"head": "protonets"}),
    "bit": ("BiT", {"head": "linear", "train": "all", "preset": "bit"}),
}
PER_USER = {
    "FineTuner": "(d + 1)C",
    "Simple CNAPs": "d(d + 3)/2 · C",
    "ProtoNets": "dC",
    "Frozen-LDA": "(d + 1)C",
    "FiT-LDA": "(d + 1)C + |ψ|",
    "FiT-QDA": "d(d + 3)/2 · C + |ψ|",
    "FiT-ProtoNets": "dC + |ψ|",
    "BiT": "(d + 1)C + |θ|",
}
ORBIT = (17, 158)  # users and objects of its test part
LEGEND = (
    "Percent over all videos of all tasks of all users, ± 1.96 standard errors over these videos (the paper's interval; "
    "the one over users is in the second table). Parameters in millions. "
)
COMPARED = "In brackets: the published number, ours less it, and whether it lies within the two intervals together (✓) or not (✗)."
ELSEWHERE = (
    "These are not the {} users and {} objects of ORBIT's test part: the published rows say how it went there, and cannot "
    "be compared with ours."
)
BY_USER = "Percent over a user's videos; below, the mean over users ± 1.96 standard errors over users."


def orbit_runs(
    root: Path,
    methods: Sequence[str],
    *,
    backbone: str,
    users: int | None = None,
    tasks: int = 5,
    mode: str = "test",
    rate: float | None = None,
    seed: int = 0,
    cnaps: Path | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[list[Run], list[str]]:
    """The runs, task by task so that a table of one task is whole before the next; and what is left out."""
    for word in methods:
        if word not in METHODS:
            raise invalid_choice("The method", word, METHODS)
    for name, value in (("users", users), ("tasks", tasks)):
        if value is not None and value < 1:
            raise UsageError(f"{name} cannot be {value}.", "It is a whole number of at least 1.")
    protocol = OrbitProtocol.of(settings or {})
    names = user_names(root, mode)[:users]
    found = [read_user(root, name, mode, rate) for name in names]
    notes = [f"{user.name}: {note}" for user in found for note in user.notes]
    places = [(user, asked) for user in found for asked in _asked(user, protocol, notes)]
    known = {user.name: _fingerprint(user) for user in found}
    if not places:
        raise InputError(
            f"No user of {root} can be asked for anything.", notes[-1] if notes else "Two objects are needed."
        )
    common: dict[str, Any] = {"protocol": "orbit", "dataset": "orbit", "seed": seed, "backbone": backbone}
    common |= {"preset": "orbit_bit" if "bit" in backbone.split("_")[0] else "orbit_b0"}
    if mode != "test":
        common["mode"] = mode
    if rate is not None:
        common["rate"] = rate
    made = []
    for task in range(tasks):
        for user, asked in places:
            for word in methods:
                title, own = METHODS[word]
                chosen = {**common, **own, **(settings or {}), "method": title}
                chosen |= {"user": user.name, "task": task, "videos": asked, "data": known[user.name]}
                if word == "cnaps" and cnaps is not None:
                    chosen |= {"cnaps": str(cnaps.resolve()), "cnaps_sha256": _digest(cnaps)}
                made.append(Run(chosen))
    return made, notes


def _asked(user: OrbitUser, protocol: OrbitProtocol, notes: list[str]) -> list[str]:
    """The kinds of videos that a user can be asked for."""
    if len(user.objects) < 2:
        notes.append(f"{user.name} has fewer than two objects that can be learned: left out.")
        return []
    kinds = [kind for kind in QUERY_KINDS if any(divide(thing, kind, protocol)[1] for thing in user.objects)]
    notes += [
        f"{user.name} has no {kind} video to be asked for." for kind in QUERY_KINDS if kind not in kinds
    ]
    return kinds


def _fingerprint(user: OrbitUser) -> str:
    """Another user of the same name, or one with other videos, is another run."""
    seen = [
        [thing.name, kind, video.name, len(video.frames)]
        for thing in user.objects
        for kind in QUERY_KINDS
        for video in getattr(thing, kind)
    ]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:12]


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise UpdateFileError(
            f"{path} cannot be read ({error.strerror}).", "Train it with 'fit bench cnaps train'."
        ) from None


def orbit_tables(rows: Sequence[Row]) -> list[ResultTable]:
    """The paper's table of the results at hand, and the same by user."""
    backbone = str(rows[0]["settings"]["backbone"])
    titles = {title: i for i, (title, _) in enumerate(METHODS.values())}
    methods = sorted({str(row["settings"]["method"]) for row in rows}, key=lambda m: titles[m])
    summaries = {
        (method, kind, metric): summarise(own, metric)
        for method in methods
        for kind in QUERY_KINDS
        for metric in ("frame", "video")
        if (own := _of(rows, method, kind))
    }
    return [_table(rows, methods, backbone, summaries), _by_user(methods, backbone, summaries)]


_Summaries = Mapping[tuple[str, str, str], Summary]


def _table(rows: Sequence[Row], methods: Sequence[str], backbone: str, summaries: _Summaries) -> ResultTable:
    users = {str(row["settings"]["user"]): int(row["result"]["classes"]) for row in rows}
    same = (len(users), sum(users.values())) == ORBIT
    heads: list[tuple[str, str]] = []
    cells: list[list[Cell | Count | None]] = []
    for method in methods:
        line: list[Cell | Count | None] = []
        printed: list[Published | None] = []
        for kind in QUERY_KINDS:
            for metric in ("frame", "video"):
                found = summaries.get((method, kind, metric))
                printed.append(published_orbit_number(backbone, method, f"{metric}_accuracy", videos=kind))
                theirs = printed[-1] if same else None
                line.append(None if found is None else _cell(found.mean, found.over_videos, theirs))
        own = _of(rows, method)
        by_user = {row["settings"]["user"]: row["result"]["numbers"] for row in own}
        shared, average = own[0]["result"]["shared"], sum(by_user.values()) / len(by_user)
        for name, value in (("shared_parameters_m", shared), ("parameters_m", average)):
            printed.append(published_orbit_number(backbone, method, name))
            line.append(Count(value / 1e6, 3, printed[-1] if same else None))
        heads.append((method, PER_USER[method]))
        cells.append(line)
        if printed[0] is not None and not same:
            heads.append((f"{method}, published on ORBIT with {printed[0].backbone}", PER_USER[method]))
            cells.append([_printed(p) for p in printed])
    tasks = {(row["settings"]["user"], row["settings"]["task"]) for row in rows}
    return ResultTable(
        f"ORBIT, {_count(len(users), 'user')} and {_count(len(tasks), 'task')}",
        backbone,
        ("method", "per user"),
        heads,
        ("clean: frame", "clean: video", "clutter: frame", "clutter: video", "shared", "average"),
        cells,
        _notes(rows),
        LEGEND + (COMPARED if same else ELSEWHERE.format(*ORBIT)),
    )


def _by_user(methods: Sequence[str], backbone: str, summaries: _Summaries) -> ResultTable:
    heads: list[tuple[str, str, str]] = []
    cells: list[list[Cell | Count | None]] = []
    users = sorted({user for found in summaries.values() for user in found.by_user})
    for kind in QUERY_KINDS:
        for metric in ("frame", "video"):
            found = {m: summaries[m, kind, metric] for m in methods if (m, kind, metric) in summaries}
            if not found:
                continue
            for user in users:
                if any(user in summary.by_user for summary in found.values()):
                    heads.append((kind, metric, user))
                    cells.append(
                        [
                            Cell(found[m].by_user[user], None, 1)
                            if m in found and user in found[m].by_user
                            else None
                            for m in methods
                        ]
                    )
            heads.append((kind, metric, "mean of users"))
            cells.append(
                [
                    _cell(found[m].mean_of_users, found[m].over_users, None) if m in found else None
                    for m in methods
                ]
            )
    return ResultTable(
        "ORBIT by user", backbone, ("videos", "accuracy", "user"), heads, methods, cells, (), BY_USER
    )


def published_orbit_number(backbone: str, method: str, metric: str, **setting: str) -> Published | None:
    """The published number: on this backbone if the table has it, else on the first that the method has there."""
    has = list(dict.fromkeys(p.backbone for p in published() if p.table == TABLE and p.method == method))
    if not has:
        return None
    ours = BACKBONES.get(backbone)
    return lookup(TABLE, "orbit", method, metric, ours if ours in has else has[0], **setting)


def write_orbit(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Both tables in three formats."""
    files = []
    for name, table in zip(("table", "users"), orbit_tables(rows), strict=True):
        for suffix, writer in WRITERS.items():
            write_atomically(folder / f"{name}.{suffix}", writer(table).encode())
            files.append(folder / f"{name}.{suffix}")
    return files


def _of(rows: Iterable[Row], method: str, kind: str | None = None) -> list[Row]:
    return [
        row
        for row in rows
        if row["settings"]["method"] == method and kind in (None, row["settings"]["videos"])
    ]


def _cell(mean: float, half: float, theirs: Published | None) -> Cell:
    return Cell(mean, None if math.isnan(half) else half, 1, theirs)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _printed(p: Published | None) -> Cell | Count | None:
    if p is None:
        return None
    return Count(p.value, 2) if p.metric.endswith("_m") else Cell(p.value, p.half_width, 1)


def _notes(rows: Sequence[Row]) -> list[str]:
    """What was left out, each once with its users; and runs that ended before their last step."""
    said: dict[str, list[str]] = {}
    for row in rows:
        for note in row["result"].get("notes", ()):
            said.setdefault(note, []).append(str(row["settings"]["user"]))
    notes = [f"{', '.join(dict.fromkeys(users))}: {note}" for note, users in said.items()]
    ended = sum(row["result"].get("stopped") == "not finite" for row in rows)
    if ended:
        notes.append(f"{ended} runs ended at numbers that are not finite; their last good ones are used.")
    return notes

"""The worst mistakes, and the photos that the classifier was least sure of."""

from __future__ import annotations

import torch
from torch import Tensor

from ...formatting import count
from ..markup import Markup, join, paragraph, tag
from ..pictures import Sheet
from ..subject import Judged, Subject
from . import Section
from .cards import card, cards, file_name, more, photo, verdict

MOST = 12


def worst(judged: Judged) -> Tensor:
    """Rows of wrong answers, the surest first."""
    rows = torch.nonzero(~judged.right).flatten()
    return rows[(judged.sure - judged.own)[rows].argsort(descending=True, stable=True)]


def doubtful(judged: Judged) -> Tensor:
    """Rows of right answers, those first that were nearly another one."""
    if judged.probabilities.shape[1] < 2:
        return torch.empty(0, dtype=torch.long)
    two = judged.probabilities.topk(2).values
    rows = torch.nonzero(judged.right).flatten()
    return rows[(two[:, 0] - two[:, 1])[rows].argsort(stable=True)]


def part(subject: Subject, sheet: Sheet) -> Section | None:
    judged = subject.judged
    if judged is None:
        return None

    def shown(rows: Tensor) -> list[Markup]:
        return [
            card(
                photo(subject, sheet, int(judged.index[row])),
                verdict(subject, judged, row),
                file_name(subject.photos.names[int(judged.index[row])]),
            )
            for row in rows.tolist()
        ]

    wrong, unsure = worst(judged), doubtful(judged)
    unsure = unsure[judged.sure[unsure] < 0.9]
    if len(wrong):
        said = f"{count(len(wrong), 'photo was', 'photos were')} called something else, the surest mistake first."
        first = join(
            tag("h3", "Worst mistakes"),
            paragraph(said[0].upper() + said[1:]),
            cards(shown(wrong[:MOST])),
            more(len(wrong) - MOST, "mistakes"),
        )
    else:
        first = paragraph("No photo was called something else.")
    if len(unsure):
        second = join(
            tag("h3", "Right, but nearly not"),
            paragraph(
                "Rightly called, but another class was close. Photos like these are the most useful to add."
            ),
            cards(shown(unsure[:MOST])),
            more(len(unsure) - MOST, "doubtful photos"),
        )
    else:
        second = paragraph("No right answer was in doubt.")
    return Section("mistakes", "Mistakes and doubts", join(first, second), subject.basis(judged))

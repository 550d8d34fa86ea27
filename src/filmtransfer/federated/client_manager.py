"""Who takes part: clients describe themselves once, and those that could not work with the others are refused.

Everybody has the same backbone, pixels and layout of ψ, spells the classes alike, and has a name of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import FitError
from ..model import AdaptedModel
from . import messages
from .parameters import layout_of
from .partition import same_classes
from .plan import Plan
from .transport import Transport

PAUSE = 0.5  # seconds between two looks for clients
SECONDS = 300.0  # to read its images and say who it is


class FederationError(FitError):
    """The federation cannot go on; what was learned is on disk."""


@dataclass(frozen=True)
class ClientInfo:
    """A client as it described itself."""

    name: str
    classes: list[str]
    counts: list[int]
    tests: int  # images to try its classifier on


class ClientManager:
    """The clients by node."""

    def __init__(
        self, talk: Transport, plan: Plan, model: AdaptedModel, say: Callable[[str], None], wait: float
    ) -> None:
        self.talk, self.plan, self.say, self.wait = talk, plan, say, wait
        self.members: dict[int, ClientInfo] = {}
        self.strangers: dict[int, str] = {}  # refused for good, and why
        self.same = {
            "digest": model.backbone.digest,
            "pixels": json.dumps(asdict(model.pixels), sort_keys=True),
            "layout": layout_of(model).digest,
        }

    def __len__(self) -> int:
        return len(self.members)

    def here(self) -> dict[str, int]:
        """The members that are connected, by name."""
        present = self.talk.present()
        return {member.name: node for node, member in sorted(self.members.items()) if node in present}

    def classes(self) -> list[str]:
        """Of all members that are connected."""
        return same_classes({name: self.members[node].classes for name, node in self.here().items()})

    def gather(self) -> None:
        """Hear who new clients are; wait until there are enough for a round."""
        deadline, told = time.monotonic() + self.wait, -1
        while True:
            new = self.talk.present() - self.members.keys() - self.strangers.keys()
            if new:
                self.meet(sorted(new))
            ready = len(self.here())
            if ready >= self.plan.min_clients:
                return
            if time.monotonic() > deadline:
                refused = "".join(f" {why}" for why in sorted(set(self.strangers.values())))
                raise FederationError(
                    f"{ready} clients are there, and a round needs {self.plan.min_clients}.{refused}",
                    "Start more of them, or lower min_clients. What was learned is kept.",
                )
            if ready != told:
                self.say(f"Waiting for clients: {ready} of at least {self.plan.min_clients} are there.")
                told = ready
            time.sleep(PAUSE)

    def meet(self, nodes: list[int]) -> None:
        """Ask new clients who they are. Who does not answer is asked again before the next round."""
        content = messages.request(self.plan)
        patience = min(self.plan.timeout, SECONDS)
        answers, _ = self.talk.exchange(
            messages.DESCRIBE, dict.fromkeys(nodes, content), "describing", patience
        )
        registered = self.talk.registered()
        for node in sorted(answers):
            about = messages.config_of(answers[node], "about")
            name = str(about.get("name", node))
            why = self._stranger(name, about)
            if (owner := registered.get(node, name)) != name:
                why = f"its key is that of {owner}. A client goes by the name that its key was made for."
            if why:
                self.strangers[node] = f"{name}: {why}"
                self.say(f"{name} is refused: {why}")
            else:
                self.members[node] = ClientInfo(
                    name, list(about["classes"]), list(about["counts"]), int(about["tests"])
                )

    def _stranger(self, name: str, about: dict[str, Any]) -> str:
        """Why this client cannot take part, if it cannot."""
        if "refused" in about:
            return str(about["refused"])
        for what, mine in self.same.items():
            if what == "layout" and self.plan.head == "linear":
                continue  # it depends on the classes of all
            if about.get(what) != mine:
                theirs = str(about.get(what))
                return (
                    f"its {what} is {theirs}, the server's is {mine}. Both need the same backbone and plan."
                )
        present = self.talk.present()
        for node, member in list(self.members.items()):
            if member.name == name:
                if node in present:
                    return "another client of this name is here already. Each needs a name of its own."
                del self.members[node]  # it was started again
        try:
            known = {m.name: m.classes for m in self.members.values()}
            same_classes({**known, name: list(about["classes"])})
        except FitError as error:
            return str(error)
        return ""

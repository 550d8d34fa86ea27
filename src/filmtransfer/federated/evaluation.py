"""The evaluation of a deployed federation after a round, on images that clients and server have of their own.

The personalized classifiers are evaluated by the clients on their test images. Where no client has any, they evaluate
by leave-one-out on their training images: too high for a classifier that has been fine-tuned on them, but it shows
whether training helps. The classifier over all classes is evaluated by the server, if it has test images.

What a client replies about its training images is not protected by secure aggregation or differential privacy. With
either, only test images of the clients are used in each round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
import torch
from flwr.app import RecordDict

from ..budgets import MAX_EXAMPLES
from ..errors import FitError
from ..heads import SingularError
from ..model import AdaptedModel
from . import messages
from .client import Examples
from .communication import Communication, no_failures
from .parameters import set_parameters
from .records import RoundRecord
from .statistics import of_present_classes


@dataclass(frozen=True)
class ServerTest:
    """The server's own test images."""

    examples: Examples

    def accuracy(self, model: AdaptedModel, classes: list[str]) -> tuple[float, int]:
        """Return the accuracy of the model's head on the images of its classes, and their number."""
        index = [classes.index(name) if name in classes else -1 for name in self.examples.classes]
        labels = torch.tensor(index)[self.examples.labels]
        predicted = model.head.logits(self.examples.embed.features()).argmax(1)
        known = int((labels >= 0).sum())
        return float((predicted == labels).sum()) / max(known, 1), known


class ClientEvaluation:
    """Asks clients to evaluate ψ: the connected ones that have something to evaluate."""

    def __init__(self, communication: Communication, test: ServerTest | None = None) -> None:
        self.communication, self.clients = communication, communication.clients
        plan, clients = communication.plan, communication.clients
        self.plan = plan
        connected = list(clients.connected().values())
        with_tests = [node for node in connected if clients.clients[node].num_test_examples]
        protected = plan.secure or plan.privacy is not None
        self.leave_one_out = not with_tests and not protected
        # Second moments are megabytes, too much to send in every round.
        self.test = test if not protected and plan.scatter == "none" else None
        self.asked = connected if self.leave_one_out or self.test else with_tests
        if plan.trained_by == "batches":  # there are no personalized classifiers, and no statistics
            self.asked = []

    def evaluate(
        self, model: AdaptedModel, number: int, psi: np.ndarray, sent: Mapping[str, np.ndarray]
    ) -> RoundRecord:
        """Return the accuracies that can be had after a round under ψ, which is sent as ``sent``."""
        classes = self.clients.classes()
        requested: dict[str, messages.ConfigValue] = {"classes": classes} if self.test else {}
        content = messages.make_request(
            self.plan, number, sent, leave_one_out=int(self.leave_one_out), **requested
        )
        requests = dict.fromkeys(self.asked, content)
        replies = self.communication.request(messages.EVALUATE, requests, "evaluating", no_failures())
        record = _personalized(replies, self.leave_one_out)
        if self.test:
            set_parameters(model, psi)
            record |= self._global(model, self.test, replies, classes)
        return record

    def _global(
        self, model: AdaptedModel, test: ServerTest, replies: Mapping[str, RecordDict], classes: list[str]
    ) -> RoundRecord:
        """Return the accuracy of the classifier over all classes on the server's test images, if it can be built."""
        nodes = {self.clients.clients[node].name: node for node in self.asked}
        parts = []
        for name, reply in sorted(replies.items()):
            try:
                parts.append(self.clients.read_statistics(messages.read_arrays(reply), classes, nodes[name]))
            except FitError as error:
                self.communication.log(f"The statistics of {name} are refused: {error}")
        if not parts:
            return {}
        total, present = of_present_classes(reduce(add, parts), classes)
        if len(present) < 2:
            return {}
        try:
            model.head.configure_from(total)
        except SingularError:
            return {}
        accuracy, images = test.accuracy(model, present)
        return {"accuracy": accuracy, "test_images": images} if images else {}


def _personalized(replies: Mapping[str, RecordDict], leave_one_out: bool) -> RoundRecord:
    """Return the accuracy over the images of all clients, and that of each client."""
    correct, images = 0.0, 0
    accuracies: dict[str, float] = {}
    for name, reply in sorted(replies.items()):
        accuracy, count = (messages.read_finite_metric(reply, key) for key in ("accuracy", "num-examples"))
        if accuracy is not None and count is not None and 0 <= accuracy <= 1 <= count <= MAX_EXAMPLES:
            accuracies[name] = accuracy
            correct, images = correct + accuracy * count, images + int(count)
    if not images:
        return {}
    return {
        "personalized": correct / images,
        "clients_accuracy": accuracies,
        "evaluated_images": images,
        "leave_one_out": leave_one_out,
    }

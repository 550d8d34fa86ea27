"""The end of a federation: the classifier over all classes, calibrated by summed scores of held-out images.

The head comes from summed statistics. Its temperature, its OOD detector and the estimate of its accuracy come from one
more request (two, where there are enough images for quantiles): clients get the sums, classify their images by the head
without them, and reply with sums (scores.py). Images that fine-tuning has not seen are preferred: test images and those
of clients that have not contributed to any round. Then only the clients that have such images are asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import to_numpy, unit_rows
from ..errors import FitError, InputError
from ..formatting import count, digits_for, list_names, percent
from ..model import Estimate, Update
from ..model.ood import FALSE_ALARM, MIN_SCORES, OODDetector
from ..model.score_sums import ScoreSums
from ..training.assess.calibration import loss_at, lowest_temperature
from ..training.assess.evaluation import wilson
from . import messages
from .checkpoint import Checkpoint
from .communication import no_failures
from .fixed_point import SCORE_BITS
from .global_classifier import global_update
from .records import RoundRecord
from .scores import (
    HISTOGRAM_SHAPES,
    OWN,
    SCORE_SHAPES,
    TEST,
    SummedScores,
    check_histogram,
    check_scores,
)
from .server import FederatedServer, SummedStatistics
from .statistics import of_present_classes, to_arrays

PRIVATE = (
    "it comes from a federation with differential privacy, which releases no scores of images",
    "Its probabilities are not calibrated either. A federation without privacy settings can do both.",
)
NOT_PLANNED = (
    "it comes from a federation whose plan has assess=false",
    "Its probabilities are not calibrated either. Run the federation with assess=true.",
)
NOT_USABLE = "Its probabilities are not calibrated either. A client may have sent false sums."
NO_SPARE_IMAGE = (
    "none of the federation's classes has an image to spare",
    "Give each class two or more photos in all.",
)


def complete(server: FederatedServer, state: Checkpoint) -> Update:
    """Return the classifier over all classes after the last round."""
    server.on_status("Summing the statistics of all classes")
    summed = _of_sent_classes(server, server.final_statistics(state))
    update = global_update(server.model, server.plan, state.psi, summed.statistics, summed.classes)
    update.results |= {"rounds": state.done, "steps": state.done * (server.plan.training.steps or 0)}
    return Assessor(server, state.psi, summed, trained_clients(state)).assess(update)


def _of_sent_classes(server: FederatedServer, summed: SummedStatistics) -> SummedStatistics:
    """Return the sums without classes of which no client sent examples."""
    statistics, classes = of_present_classes(summed.statistics, summed.classes)
    if len(classes) == len(summed.classes) or len(classes) < 2:
        return summed
    missing = [name for name in summed.classes if name not in set(classes)]
    server.log(f"No client sent examples of {list_names(missing, 5)}: the classifier does not have them.")
    return replace(summed, statistics=statistics, classes=classes)


def trained_clients(state: Checkpoint) -> list[str]:
    """Return the clients whose images have contributed to ψ."""
    return sorted({name for record in state.rounds for name in record["contributed"]})


@dataclass(frozen=True)
class HeldOutImages:
    """Which kinds of images of which nodes are classified, and whether fine-tuning has seen none of them."""

    kinds: dict[int, list[str]]
    unseen: bool


class Assessor:
    """Asks the clients for sums of scores under a global classifier, and calibrates it."""

    def __init__(
        self, server: FederatedServer, psi: np.ndarray, summed: SummedStatistics, trained: list[str]
    ) -> None:
        self.server, self.psi, self.summed, self.trained = server, psi, summed, trained

    def assess(self, update: Update) -> Update:
        """Return the update with temperature, OOD detector and estimate, or with the reason why it has none."""
        plan = self.server.plan
        if plan.privacy is not None:
            return self._without(update, *PRIVATE)
        if not plan.assess:
            return self._without(update, *NOT_PLANNED)
        self.server.on_status("Summing the scores of held-out images")
        failures = no_failures()
        answer = self._scores(failures)
        if answer is None:
            return self._without(update, *_not_sent(failures))
        images, used = answer
        if not used.count:
            return self._without(update, *NO_SPARE_IMAGE)
        try:
            return self._calibrated(update, images, used)
        except (
            FitError,
            ArithmeticError,
            ValueError,
        ) as error:  # whatever the sums are, the classifier is not lost
            return self._without(update, f"the sums of scores cannot be used ({error})", NOT_USABLE)

    def _calibrated(self, update: Update, images: HeldOutImages, used: SummedScores) -> Update:
        """Return the update with what follows from the sums of scores; raise an error if nothing does."""
        temperature = lowest_temperature(used.losses)
        if not ScoreSums.of(used.moments).fits():
            raise InputError("their moments are not those of images")
        on = (
            f"on {count(used.count, 'held-out image')} of the clients, which fine-tuning had not seen"
            if images.unseen
            else f"by leave-one-out on {count(used.count, 'image')} of the clients, which fine-tuning had seen"
        )
        self.server.log(
            f"Calibrated {on}: "
            f"temperature {temperature:g}, accuracy {percent(used.correct / used.count, digits_for(used.count))}."
        )
        return replace(
            update,
            temperature=temperature,
            ood=self._detector(used, images),
            results=update.results | {"estimate": _estimate(used, temperature, unseen=images.unseen)},
        )

    def _scores(self, failures: RoundRecord) -> tuple[HeldOutImages, SummedScores] | None:
        """Return the preferred images with enough scores, and the sums of these; None if no client sent any."""
        for images in self._candidates():
            arrays = self._sum(images, SCORE_SHAPES, failures)
            if arrays is None:
                continue
            used = SummedScores.read(arrays)
            # With secure aggregation one sum is enough: the difference of two could be that of a single client.
            final = not images.unseen or (self.server.plan.secure and used.count > 0)
            if final or used.count >= MIN_SCORES:
                return images, used
        return None

    def _candidates(self) -> Iterator[HeldOutImages]:
        """Yield images to be classified, the preferred ones first, as far as the clients have any."""
        server, connected = self.server, self.server.clients.connected()
        unseen: dict[int, list[str]] = {}
        expected = 0
        nodes = [connected[name] for name in self.summed.clients if name in connected]
        for node in nodes:
            client = server.clients.clients[node]
            own = 0 if client.name in self.trained else client.num_examples
            kinds = [kind for kind, n in ((OWN, own), (TEST, client.num_test_examples)) if n]
            if kinds:
                unseen[node] = kinds
                expected += own + client.num_test_examples
        if expected >= MIN_SCORES:
            yield HeldOutImages(unseen, unseen=True)
        yield HeldOutImages({node: [OWN] for node in nodes}, unseen=False)

    def _detector(self, used: SummedScores, images: HeldOutImages) -> OODDetector | None:
        """Return the OOD detector; with enough images for a quantile, its threshold is one."""
        if used.count < MIN_SCORES:
            return None
        sums = ScoreSums.of(used.moments)
        if math.floor(FALSE_ALARM * (used.count + 1)) >= MIN_SCORES:
            counted = self._sum(
                images, HISTOGRAM_SHAPES, no_failures(), mean=sums.mean.tolist(), spread=sums.spread.tolist()
            )
            if counted is not None and round(float(counted["histogram"].sum())) == used.count:
                sums = ScoreSums.of(used.moments, counted["histogram"])
            else:
                self.server.log(
                    "The threshold for rejections assumes a normal distribution: no histogram of scores."
                )
        means = to_numpy(self.summed.statistics.means()).astype(np.float32)
        return OODDetector.from_sums(unit_rows(means), sums)

    def _sum(
        self,
        images: HeldOutImages,
        shapes: dict[str, tuple[int, ...]],
        failures: RoundRecord,
        **settings: messages.ConfigValue,
    ) -> dict[str, np.ndarray] | None:
        """Return the sums of scores, or of their histogram, over these images."""
        server, summed = self.server, self.summed
        content = messages.make_request(
            server.plan, 0, server.compress_parameters(self.psi)[0], classes=summed.classes, **settings
        )
        content[messages.TOTAL] = messages.make_array_record(to_arrays(summed.statistics))
        requests = {
            node: messages.with_settings(content, images=kinds) for node, kinds in images.kinds.items()
        }
        check_sums = check_scores if shapes is SCORE_SHAPES else check_histogram

        def check(arrays: Mapping[str, np.ndarray], node: int | None) -> None:
            check_sums(arrays, None if node is None else self._number_of_images(node, images.kinds[node]))

        try:
            total = server.communication.sum_over_clients(
                messages.SCORES, requests, shapes, check, failures, SCORE_BITS
            )
        except FitError as error:  # of a sum that is not possible, under secure aggregation
            server.log(f"The sums of scores cannot be used: {error}")
            return None
        return None if total is None else total.arrays

    def _number_of_images(self, node: int, kinds: list[str]) -> int:
        client = self.server.clients.clients[node]
        return client.num_examples * (OWN in kinds) + client.num_test_examples * (TEST in kinds)

    def _without(self, update: Update, reason: str, hint: str) -> Update:
        self.server.log(f"The classifier is not calibrated and cannot reject images: {reason}.")
        return replace(update, results=update.results | {"not_assessed": {"reason": reason, "hint": hint}})


def _not_sent(failures: RoundRecord) -> tuple[str, str]:
    reasons = {**failures["missing"], **failures["refused"]}
    named = "; ".join(f"{name}: {why.rstrip('.')}" for name, why in sorted(reasons.items())[:3])
    return (
        "the federation's clients sent no scores of held-out images" + (f" ({named})" if named else ""),
        "Its probabilities are not calibrated either. All clients need the version of the server.",
    )


def _estimate(used: SummedScores, temperature: float, *, unseen: bool) -> dict[str, object]:
    """Return the estimate of the accuracy as an update stores it."""
    estimate = Estimate(used.correct / used.count, *wilson(used.correct, used.count), used.count, unseen)
    losses = [loss_at(used.losses, t) / used.count for t in (1.0, temperature)]
    return estimate.stored(losses)

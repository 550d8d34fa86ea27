"""The end of a federation: a calibrated classifier that can reject, or the true reason why not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import RecordDict

from filmtransfer.errors import InputError
from filmtransfer.federated import messages
from filmtransfer.federated.client import Client
from filmtransfer.federated.client_population import ClientPopulation
from filmtransfer.federated.completion import complete, trained_clients
from filmtransfer.federated.fixed_point import SCORE_BITS, from_fixed_point, to_fixed_point
from filmtransfer.federated.masking import WORK
from filmtransfer.federated.parameters import set_parameters
from filmtransfer.federated.plan import Privacy
from filmtransfer.federated.scores import OWN, SCORE_SHAPES, HeldOutScores
from filmtransfer.federated.server import FederatedServer
from filmtransfer.model import FeaturePredictor, Predictions, Update
from filmtransfer.training.assess.assessment import assess
from filmtransfer.training.assess.calibration import fit_temperature
from tests.federated.tiny import ALL, CONFIG, PLAN, make_server, population, read_images, with_test_images


def finish(clients: ClientPopulation, **options) -> tuple[Update, list[str]]:
    """Run a federation and return its classifier, through the bytes of a file, and the log."""
    log: list[str] = []
    server = make_server(clients, log=log.append, **options)
    update = complete(server, server.run())
    return Update.from_bytes(update.to_bytes()), log


PRIVACY = Privacy(noise=2.0, clip=0.1, delta=0.01, epsilon=50.0)
Sent = list[tuple[str, int, RecordDict]]


def record_messages(server: FederatedServer) -> Sent:
    """Return a list that will have the type, node and content of each message that the server sends from now on."""
    sent: Sent = []
    send = server.grid.send_and_receive

    def record(messages, **options):
        sent.extend((m.metadata.message_type, m.metadata.dst_node_id, m.content) for m in messages)
        return send(messages, **options)

    server.grid.send_and_receive = record
    return sent


def pooled_features(clients: ClientPopulation) -> tuple[np.ndarray, np.ndarray]:
    rows = torch.cat([clients.rows(i) for i in range(len(clients))])
    return clients.pool.features()[rows].numpy(), clients.labels[rows].numpy()


def reject(update: Update, features: np.ndarray) -> np.ndarray:
    predictor: FeaturePredictor = update.predictor()
    return predictor.rejected(predictor.predict(features))


@pytest.mark.slow
@pytest.mark.parametrize("head", ["protonets", "lda", "cosine"])
def test_it_is_calibrated_like_a_local_classifier_of_the_same_images(head):
    clients = population(replace(ALL, head=head))
    server = make_server(clients)
    state = server.run()
    update = complete(server, state)
    set_parameters(clients.model, state.psi)
    features, labels = pooled_features(clients)
    local = assess(
        clients.model.head,
        features,
        labels,
        np.zeros(len(labels), bool),
        np.zeros(len(clients.classes)),
        seed=0,
    )
    assert local is not None
    estimate = update.results["estimate"]
    assert estimate["images"] == len(labels) == 36
    assert not estimate["unseen"]
    # Here one image of each class of a client is held out at a time, there one of each class of all.
    assert update.temperature == pytest.approx(local.temperature, rel=0.35)
    assert estimate["accuracy"] == pytest.approx(local.estimate.accuracy, abs=0.15)
    assert estimate["low"] <= estimate["accuracy"] <= estimate["high"]
    assert update.ood is not None
    ours, theirs = (detector.centre_and_spread() for detector in (update.ood, local.ood))
    np.testing.assert_allclose(ours[0], theirs[0], rtol=0.2)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0.5)
    assert update.ood.threshold() == pytest.approx(local.ood.threshold(), abs=0.7)


def test_its_temperature_is_that_of_the_clients_logits():
    clients = population(ALL)
    server = make_server(clients)
    state = server.run()
    update = complete(server, state)
    summed = server.collect_statistics(state.psi)
    set_parameters(clients.model, state.psi)
    scores = [clients.client(i).scores(summed.classes, summed.statistics, [OWN]) for i in range(4)]
    logits, labels = (np.concatenate([getattr(s, key) for s in scores]) for key in ("logits", "labels"))
    assert update.temperature == pytest.approx(fit_temperature(logits, labels), rel=2e-3)
    assert update.temperature != 1
    assert update.results["estimate"]["accuracy"] == pytest.approx(
        (logits.argmax(1) == labels).mean(), abs=1e-4
    )


def test_it_rejects_what_is_far_from_all_classes():
    clients = population(ALL)
    update, log = finish(clients)
    features, _ = pooled_features(clients)
    away = np.random.default_rng(0).normal(0, 1, features.shape).astype(np.float32)
    away *= np.linalg.norm(features, axis=1, keepdims=True) / np.linalg.norm(away, axis=1, keepdims=True)
    assert reject(update, features).mean() < 0.2
    assert reject(update, away).all()
    text = "Calibrated by leave-one-out on 36 images of the clients, which fine-tuning had seen: "
    assert any(line.startswith(text) for line in log)


@pytest.mark.slow
def test_secure_aggregation_gives_the_same_figures():
    plain, _ = finish(population(ALL))
    secure, _ = finish(population(replace(ALL, secure=True)))
    assert secure.temperature == pytest.approx(plain.temperature, rel=1e-2)
    assert secure.results["estimate"]["images"] == plain.results["estimate"]["images"]
    assert secure.ood.threshold() == pytest.approx(plain.ood.threshold(), abs=0.1)


def test_squares_of_large_logits_fit_into_secure_sums():
    """Sixty images a client, ten clients, with the squared distances of ProtoNets on features of a large backbone."""
    scores = HeldOutScores(np.zeros(60, np.int64), np.full((60, 3), -1e5), np.linspace(0.3, 0.9, 60))
    sums = scores.sums()
    encoded = [to_fixed_point(sums, SCORE_SHAPES, SCORE_BITS, 10) for _ in range(10)]
    total = from_fixed_point(sum(encoded), SCORE_SHAPES, SCORE_BITS)
    assert total["moments"] == pytest.approx(10 * sums["moments"], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_many_images_give_a_quantile_as_threshold(secure):
    plan = replace(ALL, secure=secure)
    clients = ClientPopulation(replace(CONFIG, shots=6), plan, read_images)
    update, _ = finish(clients)
    sums = update.ood.sums
    assert sums.count == 72
    assert sums.histogram.sum() == 72
    assert update.ood.threshold(0.05) == sums.ranked(3)


def test_images_of_clients_that_never_trained_are_preferred():
    clients = population(replace(PLAN, rounds=1))  # three of four clients
    server = make_server(clients)
    state = server.run()
    assert len(trained_clients(state)) == 3
    update = complete(server, state)
    assert update.results["estimate"]["images"] == 9
    assert update.results["estimate"]["unseen"] is True


def test_only_clients_with_unseen_images_are_asked_for_scores():
    clients = population(ALL)
    server = make_server(clients, client=with_test_images(clients, {0: 2, 2: 7}))
    state = server.run()
    sent = record_messages(server)
    update = complete(server, state)
    assert update.results["estimate"] | {"images": 9, "unseen": True} == update.results["estimate"]
    assert [node for kind, node, _ in sent if kind == messages.SCORES] == [1, 3]


# With secure aggregation.

MASKED = messages.SECURE + "masked"


def asked_for(sent: Sent) -> list[tuple[int, list[str]]]:
    """Return the nodes that were asked for scores under secure aggregation, and for which images."""
    configs = [
        (node, content.config_records[WORK + "config"]) for kind, node, content in sent if kind == MASKED
    ]
    return [(node, config["images"]) for node, config in configs if "images" in config]


def test_the_scores_of_the_only_client_that_never_trained_are_not_summed_alone():
    server = make_server(population(replace(PLAN, rounds=1, secure=True)))  # three of four clients
    state = server.run()
    assert len(trained_clients(state)) == 3
    sent = record_messages(server)
    update = complete(server, state)
    assert update.results["estimate"] | {"images": 36, "unseen": False} == update.results["estimate"]
    assert asked_for(sent) == [(node, [OWN]) for node in (1, 2, 3, 4)]


@pytest.mark.parametrize("min_clients", [2, 3])
def test_the_test_images_of_too_few_clients_are_not_summed(min_clients):
    plan = replace(ALL, secure=True, min_clients=min_clients)
    clients = population(plan)
    server = make_server(clients, client=with_test_images(clients, dict.fromkeys(range(min_clients - 1), 5)))
    state = server.run()
    sent = record_messages(server)
    update = complete(server, state)
    assert update.results["estimate"] | {"images": 36, "unseen": False} == update.results["estimate"]
    assert asked_for(sent) == [(node, [OWN]) for node in (1, 2, 3, 4)]


def test_unseen_images_of_several_clients_are_summed_over_these_alone():
    server = make_server(population(replace(PLAN, rounds=1, clients_per_round=2, secure=True)))
    state = server.run()
    sent = record_messages(server)
    update = complete(server, state)
    assert update.results["estimate"] | {"images": 18, "unseen": True} == update.results["estimate"]
    untrained = [i + 1 for i in range(4) if f"client-{i}" not in trained_clients(state)]
    assert asked_for(sent) == [(node, [OWN]) for node in untrained]


def test_a_client_that_drops_out_does_not_leave_another_one_alone():
    """Two clients have test images, and one of them fails when it is asked for their scores."""
    clients = population(replace(ALL, secure=True))
    intact = with_test_images(clients, {0: 5, 1: 5})

    def client(i: int) -> Client:
        instance = intact(i)
        if i == 1:
            instance.scores = lambda *_: (_ for _ in ()).throw(InputError("its disk is full."))
        return instance

    update, _ = finish(clients, client=client)
    assert update.results["estimate"] | {"images": 27, "unseen": False} == update.results["estimate"]


def test_without_rounds_nothing_was_seen():
    update, _ = finish(population(replace(ALL, rounds=0)))
    assert update.results["estimate"] | {"images": 36, "unseen": True} == update.results["estimate"]
    assert update.results["steps"] == 0


def reason_of(update: Update) -> str:
    with pytest.raises(InputError) as caught:
        update.predictor().rejected(Predictions(np.ones((1, 4)), np.ones((1, 2)), np.ones((1, 2)) / 2))
    return str(caught.value)


def test_differential_privacy_releases_no_scores_and_the_file_says_so():
    clients = population(replace(ALL, privacy=PRIVACY))
    asked: list[str] = []
    server = make_server(clients)
    exchange = server.transport.exchange
    server.transport.exchange = lambda kind, *rest: (asked.append(kind), exchange(kind, *rest))[1]
    update = Update.from_bytes(complete(server, server.run()).to_bytes())
    assert messages.SCORES not in asked
    assert update.ood is None
    assert update.temperature == 1
    assert "estimate" not in update.results
    assert "it comes from a federation with differential privacy, which releases no scores" in reason_of(
        update
    )


def test_a_plan_may_have_no_assessment():
    update, _ = finish(population(replace(ALL, assess=False)))
    assert "whose plan has assess=false" in reason_of(update)


def test_clients_that_do_not_know_the_request_are_named():
    """Clients of an earlier version, which refuse it."""
    clients = population(ALL)

    def client(i: int) -> Client:
        old = clients.client(i)
        handle = old.handle

        def refuse(kind, *rest):
            return handle("query.unknown" if kind == messages.SCORES else kind, *rest)

        old.handle = refuse
        return old

    update, log = finish(clients, client=client)
    reason = reason_of(update)
    assert "clients sent no scores of held-out images (client-0: client-0 does not know the message" in reason
    assert "All clients need the version of the server" in reason
    assert any("not calibrated" in line for line in log)


def test_one_client_without_scores_does_not_spoil_those_of_the_others():
    clients = population(ALL)

    def client(i: int) -> Client:
        instance = clients.client(i)
        if i == 1:
            instance.scores = lambda *_, **__: (_ for _ in ()).throw(InputError("its disk is full."))
        return instance

    update, log = finish(clients, client=client)
    assert update.results["estimate"]["images"] == 27
    assert any("client-1" in line and "its disk is full" in line for line in log)


def test_a_file_of_an_earlier_federation_has_its_own_reason():
    update, _ = finish(population(ALL))
    earlier = replace(update, ood=None, results={})
    assert "a federation that collected no scores of held-out images, or fewer than 3" in reason_of(earlier)
    local = replace(earlier, settings={"preset": "fast"})
    assert "fewer than 3 leave-one-out scores" in reason_of(local)


@pytest.mark.parametrize("head", ["protonets", "lda"])
def test_a_server_that_is_started_again_does_not_sum_the_statistics_again(head, tmp_path):
    """The difference of two sums of other clients under the same ψ would be the statistics of one."""
    clients = population(replace(ALL, head=head))
    server = make_server(clients, tmp_path)
    update = complete(server, server.run())
    again = make_server(clients, tmp_path)
    again.transport.connected_nodes = lambda: dict.fromkeys((1, 2, 4), "")
    sent = record_messages(again)
    second = complete(again, again.run())
    assert messages.STATISTICS not in [kind for kind, _, _ in sent]
    assert messages.SCORES in [kind for kind, _, _ in sent]
    assert second.classes == update.classes
    for name, tensor in update.head_tensors.items():
        np.testing.assert_array_equal(second.head_tensors[name], tensor)


def test_more_rounds_need_new_statistics(tmp_path):
    server = make_server(population(ALL), tmp_path)
    complete(server, server.run())
    further = make_server(population(replace(ALL, rounds=2)), tmp_path)
    sent = record_messages(further)
    complete(further, further.run())
    assert [kind for kind, _, _ in sent].count(messages.STATISTICS) == 4


def test_the_personalized_classifier_is_assessed_by_its_client(tmp_path):
    clients = population(ALL)
    server = make_server(clients, tmp_path, state=True)
    state = server.run()
    assert set(server.finish(state.psi, trained_clients(state))) == set(clients.names)
    update = Update.load(tmp_path / "clients" / "client-1" / "personal.safetensors")
    assert update.ood is not None
    assert update.temperature != 1
    assert update.results["estimate"]["images"] == 9
    assert update.results["estimate"]["unseen"] is False


@pytest.mark.parametrize("change", [{}, {"privacy": PRIVACY}, {"secure": True}, {"assess": False}])
def test_no_client_learns_which_others_have_trained(change):
    clients = population(replace(PLAN, rounds=1, clients_per_round=2, **change))
    server = make_server(clients)
    sent = record_messages(server)
    state = server.run()
    complete(server, state)
    server.finish(state.psi, trained_clients(state))
    assert 0 < len(trained_clients(state)) < 4
    assert {messages.STATISTICS, messages.FINISH} <= {
        kind.replace("secure_masked", "statistics") for kind, *_ in sent
    }
    for _, _, content in sent:
        settings = [str(dict(record)) for record in content.config_records.values()]
        assert not any(name in text for text in settings for name in clients.names)


def test_each_client_learns_whether_it_has_trained_itself(tmp_path):
    clients = population(replace(PLAN, rounds=1))  # three of four clients
    server = make_server(clients, tmp_path, state=True)
    state = server.run()
    server.finish(state.psi, trained_clients(state))
    for name in clients.names:
        update = Update.load(tmp_path / "clients" / name / "personal.safetensors")
        assert update.results["estimate"]["unseen"] is (name not in trained_clients(state))


def test_the_scores_never_leave_a_client_one_by_one():
    """What a client replies has the same shapes, however many images it has."""
    clients = population(ALL)
    server = make_server(clients)
    state = server.run()
    summed = server.collect_statistics(state.psi)
    client = clients.client(0)
    content = messages.make_request(
        ALL, 0, server.compress_parameters(state.psi)[0], classes=summed.classes, images=[OWN]
    )
    content[messages.TOTAL] = messages.make_array_record(
        {"counts": summed.statistics.counts.double().numpy(), "sums": summed.statistics.sums.numpy()}
    )
    arrays = messages.read_arrays(client.handle(messages.SCORES, content, None, 1))
    assert {name: array.shape for name, array in arrays.items()} == SCORE_SHAPES


def test_a_class_of_which_nobody_sends_examples_is_left_out():
    """Its only client refuses its statistics, which does not cost the others the classifier."""
    clients = population(ALL)
    missing = sorted(
        set(clients.client(0).examples.classes)
        - {n for i in (1, 2, 3) for n in clients.client(i).examples.classes}
    )

    def client(i: int) -> Client:
        instance = clients.client(i)
        handle = instance.handle

        def refusing(kind, *rest):
            if i == 0 and kind == messages.STATISTICS:
                raise InputError("its policy allows no statistics.")
            return handle(kind, *rest)

        instance.handle = refusing
        if missing == []:
            describe = instance.describe
            instance.describe = lambda: describe() | ({"classes": ["a class of its own"]} if i == 0 else {})
        return instance

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    update = complete(server, server.run())
    names = missing or ["a class of its own"]
    assert not set(names) & {str(name) for name in update.classes}
    assert any(line.startswith("No client sent examples of") and names[0] in line for line in log)
    assert update.results["estimate"] is not None

"""NOAH: a supernet set to a subnet equals that subnet, and the search finds what an exhaustive search finds."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.adapters import noah
from filmtransfer.adapters.search import search
from filmtransfer.adapters.search_space import SearchSpace
from filmtransfer.errors import UsageError

from .small import attach_adapter, images, perturb, trainable, transformer

SUBNETS = {
    "all": ((2, 3, 4), (1, 2, 3), (4, 1, 2)),
    "prompts that stay": ((2, 3, 4), (1, 0, 0), (0, 0, 0)),
    "late": ((0, 0, 0), (0, 3, 2), (3, 0, 0)),
    "no LoRA": ((2, 0, 3), (2, 0, 3), (0, 0, 0)),
    "nothing": ((0, 0, 0), (0, 0, 0), (0, 0, 0)),
}


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.slow
@pytest.mark.parametrize("subnet", SUBNETS.values(), ids=SUBNETS.keys())
@torch.no_grad()
def test_a_supernet_set_to_a_subnet_is_that_subnet(subnet):
    supernet = attach_adapter(transformer(), "noah", supernet=4, scale=0.5)
    perturb(supernet)
    largest = supernet(images())
    noah.set_subnet(supernet, subnet)
    ordinary = attach_adapter(transformer(), "noah", subnet=subnet, scale=0.5)
    count = sum(p.numel() for p in trainable(ordinary).values())
    assert count == noah.search_space(transformer()).parameter_count(subnet)

    largest_parameters, parameters = trainable(supernet), {}
    names = {"lora_A.default.weight": "down", "lora_B.default.weight": "up"}
    for key, parameter in trainable(ordinary).items():
        source = key
        for peft, ours in names.items():
            source = source.replace(peft, ours)
        value = largest_parameters[source]
        for axis, size in enumerate(parameter.shape):
            value = value.narrow(axis, 0, size)
        parameters[key] = value
    ordinary.load_state_dict(parameters, strict=False)
    assert (supernet(images()) - ordinary(images())).abs().max() < 1e-10
    noah.set_subnet(supernet, ((4, 4, 4),) * 3)
    assert torch.equal(supernet(images()), largest)


@torch.no_grad()
def test_prompts_stay_until_a_block_has_its_own():
    subnet = ((0, 0, 4), (0, 0, 0), (0, 0, 2))
    network = attach_adapter(transformer(), "noah", subnet=subnet)
    bare, parameters = transformer(), trainable(network)
    x = bare._pos_embed(bare.patch_embed(images()))
    tokens = x.shape[1]
    x = torch.cat([x, parameters["blocks.0.prompts"].expand(5, -1, -1)], dim=1)
    x = bare.blocks[1](bare.blocks[0](x))[:, :tokens]
    x = torch.cat([x, parameters["blocks.2.prompts"].expand(5, -1, -1)], dim=1)
    x = bare.norm(bare.blocks[2](x))[:, 0]
    assert (network(images()) - x).abs().max() < 1e-10


@torch.no_grad()
def test_without_prompts_the_initial_features_are_those_of_the_backbone():
    network = attach_adapter(transformer(), "noah", subnet=[[2, 3, 0]] * 3)
    assert (network(images()) - transformer()(images())).abs().max() < 1e-10


def test_only_the_subnet_of_a_supernet_has_a_gradient():
    network = attach_adapter(transformer(), "noah", supernet=4)
    perturb(network)
    noah.set_subnet(network, ((2, 1, 3), (0, 0, 0), (2, 1, 3)))
    network(images()).square().mean().backward()
    gradient = {key: p.grad for key, p in trainable(network).items()}
    prompts = gradient["blocks.0.prompts"]
    assert bool((prompts[:3] != 0).all())
    assert not bool(prompts[3:].any())
    ranks = gradient["blocks.0.block.attn.qkv.down"]
    assert bool(ranks[:1].any())
    assert not bool(ranks[1:].any())
    assert gradient["blocks.1.block.mlp.adapter.up"] is None


def test_a_subnet_with_a_wrong_number_of_rows():
    with pytest.raises(UsageError, match="2 rows, the network 3 blocks"):
        attach_adapter(transformer(), "noah", subnet=[[1, 1, 1]] * 2)


def test_the_published_search_space():
    space = SearchSpace(12, 768)
    assert space.depths == (3, 6, 9, 12)
    assert space.parameter_count(noah.PUBLISHED) == 431_686
    assert space.parameter_count(((8, 0, 0),) * 12) == 156_768
    assert space.parameter_count(((0, 8, 0),) * 12) == 294_912
    assert space.parameter_count(((0, 0, 50),) * 12) == 460_800
    assert SearchSpace(2, 24).depths == (1, 2)


def belongs(space: SearchSpace, subnet) -> bool:
    """Return whether each module is in the first blocks down to one of the depths, with sizes of the space."""
    for column in zip(*subnet, strict=True):
        depth = sum(size > 0 for size in column)
        if depth not in space.depths or any(column[depth:]) or not set(column[:depth]) <= set(space.sizes):
            return False
    return len(subnet) == space.blocks


def test_subnets_lists_every_subnet_once():
    space = SearchSpace(2, 24, (1, 3))
    subnets = list(space.subnets())
    assert len(set(subnets)) == len(subnets) == space.count() == 6**3
    assert all(belongs(space, subnet) for subnet in subnets)


def test_drawn_mutated_crossed_and_shrunk_subnets_are_in_the_space():
    space, generator = SearchSpace(4, 24, (1, 3, 7)), make_generator()
    seen = set()
    first = space.draw(generator)
    for _ in range(300):
        second = space.draw(generator)
        mutant = space.mutate(first, generator)
        child = space.crossover(first, second, generator)
        small = space.shrink(second, 3000, generator)
        assert all(belongs(space, subnet) for subnet in (second, mutant, child, small))
        assert space.parameter_count(small) <= 3000
        assert all(
            c in pair
            for c, *pair in zip(
                zip(*child, strict=True), zip(*first, strict=True), zip(*second, strict=True), strict=True
            )
        )
        assert space.shrink(small, 3000, generator) == small
        seen |= {second, mutant}
        first = mutant
    assert len(seen) > 290
    assert {sum(row[1] > 0 for row in subnet) for subnet in seen} == set(space.depths)
    assert {row[2] for subnet in seen for row in subnet} == {0, 1, 3, 7}


def test_a_mutation_keeps_most_modules():
    space, generator = SearchSpace(12, 768), make_generator()
    parent = space.draw(generator)
    children = [space.mutate(parent, generator) for _ in range(200)]
    kept = [
        a == b
        for child in children
        for a, b in zip(zip(*parent, strict=True), zip(*child, strict=True), strict=True)
    ]
    assert 0.7 < sum(kept) / len(kept) < 0.95


def random_score(space: SearchSpace, seed: int):
    """Return a score in which modules and blocks interact, and larger sizes are not always better."""
    weights = torch.rand(space.blocks, 3, 8, generator=make_generator(seed))
    pairs = torch.rand(3, 8, 8, generator=make_generator(seed + 100))

    def score(subnet) -> float:
        single = sum(weights[b, m, size] for b, row in enumerate(subnet) for m, size in enumerate(row))
        paired = sum(pairs[0, a, r] + pairs[1, r, p] for a, r, p in subnet)
        return float(single + 0.5 * paired)

    return score


@pytest.mark.parametrize("seed", range(3))
def test_search_finds_the_best_subnet_of_an_exhaustive_search(seed):
    space = SearchSpace(3, 24, (1, 3))  # 2,744 subnets, of which the search scores a fifth at most
    assert space.count() == 14**3
    limit = 1100
    score = random_score(space, seed)
    scores = sorted((score(s) for s in space.subnets() if space.parameter_count(s) <= limit), reverse=True)
    assert len(scores) > 500
    scored = []

    def recording_score(subnet) -> float:
        scored.append(subnet)
        return score(subnet)

    best = search(recording_score, space, limit, make_generator(seed), population=40, generations=12)
    assert space.parameter_count(best) <= limit
    assert all(space.parameter_count(subnet) <= limit for subnet in scored)
    assert len(set(scored)) == len(scored) <= 40 * 13
    assert score(best) == pytest.approx(scores[0])
    again = search(score, space, limit, make_generator(seed), population=40, generations=12)
    assert again == best, "the same seed, the same subnet"


def test_a_small_space_is_searched_exhaustively():
    space = SearchSpace(2, 24, (1, 3))
    score = random_score(space, 7)
    best = max((s for s in space.subnets() if space.parameter_count(s) <= 700), key=score)
    assert search(score, space, 700, make_generator(), population=20, generations=12) == best


def test_among_equal_scores_the_smallest_subnet_is_returned():
    space = SearchSpace(2, 24, (1, 3))
    best = search(lambda subnet: 1.0, space, 10**6, make_generator())
    assert best == ((1, 1, 1), (0, 0, 0))


def test_the_search_of_a_large_space_uses_the_limit():
    space = SearchSpace(12, 768)
    best = search(
        lambda subnet: space.parameter_count(subnet),
        space,
        430_000,
        make_generator(),
        population=20,
        generations=4,
    )
    assert 415_000 < space.parameter_count(best) <= 430_000


@pytest.mark.parametrize("population", [50, 2])
def test_a_limit_below_the_smallest_subnet(population):
    space = SearchSpace(2, 24, (1, 3))
    least = space.parameter_count(((1, 1, 1),))
    with pytest.raises(UsageError, match=f"The smallest has {least}"):
        search(lambda subnet: 0.0, space, least - 1, make_generator(), population=population)
    assert search(lambda subnet: 0.0, space, least, make_generator(), population=population) == (
        (1, 1, 1),
        (0, 0, 0),
    )

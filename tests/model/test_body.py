"""What of the backbone is learned: an adapter, all of it, or nothing; and how it travels in the update file."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.backbones import assemble, build, load_backbone, record_for
from filmtransfer.errors import UpdateFileError, UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body, Update
from filmtransfer.model.network import load_parameters

PIXELS = torch.randint(0, 256, (6, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 0, 0, 1, 1, 1])
BODIES = {
    "film": Body(),
    "film late": Body(film_from=5),
    "lora": Body.of("adapter", "lora"),
    "all": Body("all"),
    "none": Body("none"),
}


@pytest.fixture(scope="module")
def vit():
    record = record_for("vit_tiny_patch16_224")
    return assemble(record, build(record))


def moved_model(backbone, body: Body, head: str = "lda") -> AdaptedModel:
    model = AdaptedModel(backbone, make_head(head), 64, body=body, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.backbone_parameters().values():
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=generator))
    model.configure(PIXELS, LABELS)
    return model


def update_of(model: AdaptedModel) -> Update:
    body = model.body
    settings = {
        "train": body.train, "adapter": body.adapter, "film_from": body.film_from,
        "adapter_options": dict(body.options),
    }  # fmt: skip
    return Update.of(model, ["a", "b"], settings=settings, results={}, seed=0, versions={})


@pytest.mark.parametrize("name", BODIES)
def test_what_is_learned_travels_in_the_file_and_nothing_else(name):
    body = BODIES[name]
    model = moved_model(load_backbone("efficientnet_lite0", fold=body.folds), body)
    content = update_of(model).to_bytes()
    again = Update.from_bytes(content)
    assert again.body() == body
    assert set(again.parameters) == set(model.backbone_parameters())
    assert bool(again.film) == name.startswith("film")
    fresh = again.apply(load_backbone("efficientnet_lite0", fold=body.folds))
    assert torch.equal(fresh.logits(PIXELS), model.logits(PIXELS))
    assert len(content) < 4.2 * sum(p.numel() for p in model.backbone_parameters().values()) + 30_000


@pytest.mark.parametrize("adapter", ["lora", "vpt", "adapter", "adaptformer", "convpass", "noah"])
def test_an_adapter_of_a_transformer_comes_back_bit_for_bit(vit, adapter):
    model = moved_model(vit, Body.of("adapter", adapter))
    again = Update.from_bytes(update_of(model).to_bytes()).apply(vit)
    assert torch.equal(again.logits(PIXELS), model.logits(PIXELS))
    bare = AdaptedModel(vit, make_head("lda"), 64, body=Body("none"))
    assert not torch.allclose(bare.features(PIXELS), model.features(PIXELS), atol=1e-4), "it does something"


def test_models_of_one_backbone_do_not_disturb_each_other(vit):
    bare = AdaptedModel(vit, make_head("lda"), 64, body=Body("none"))
    before = bare.features(PIXELS)
    for adapter in ("lora", "convpass"):
        moved_model(vit, Body.of("adapter", adapter))
    assert torch.equal(bare.features(PIXELS), before)


def test_all_weights_are_a_copy():
    backbone = load_backbone("efficientnet_lite0", fold=False)
    before = backbone.module.conv_stem.weight.clone()
    moved_model(backbone, Body("all"))
    assert torch.equal(backbone.module.conv_stem.weight, before)


def test_nothing_learned_is_nothing_to_learn():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("protonets"), 64, body=Body("none"))
    assert model.trainable_parameters() == []


def test_a_folded_backbone_cannot_learn_its_weights():
    with pytest.raises(UsageError, match="fold=False"):
        AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 64, body=Body("all"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("some", "film"), "adapter, all, none"),
        (("adapter", "ia3"), "film, lora"),
        (("all", "lora"), "trains no adapter"),
        (("adapter", "lora", 0, {"rank": 0}), "rank"),
        (("adapter", "film", 0, {"rank": 8}), "no option"),
    ],
)
def test_wrong_words(words, said):
    with pytest.raises(UsageError, match=said):
        Body.of(*words)


def test_parameters_of_another_body_are_refused():
    model = moved_model(load_backbone("efficientnet_lite0"), Body())
    good = {k: p.detach().clone() for k, p in model.backbone_parameters().items()}
    first = next(iter(good))
    for bad in ({}, good | {"more": torch.zeros(1)}, good | {first: torch.zeros(1)}):
        with pytest.raises(UpdateFileError):
            load_parameters(model.network, bad)
    with pytest.raises(UpdateFileError, match="finite"):
        load_parameters(model.network, good | {first: torch.full_like(good[first], float("nan"))})
    assert all(torch.equal(p, good[k]) for k, p in model.backbone_parameters().items())


def test_a_file_that_names_an_unknown_adapter_is_a_bad_file():
    update = update_of(moved_model(load_backbone("efficientnet_lite0"), Body()))
    update.settings["adapter"] = "hypernet"
    with pytest.raises(UpdateFileError, match="hypernet"):
        update.body()


@pytest.mark.parametrize(
    ("train", "head", "counted"), [("all", "linear", "full"), ("adapter", "lda", "body")]
)
def test_updateable_parameters_by_the_papers_count(train, head, counted):
    from filmtransfer.backbones import backbone_facts

    backbone = load_backbone("efficientnet_lite0", fold=train != "all")
    found, full = update_of(moved_model(backbone, Body(train), head)).updateable(
        backbone_facts("efficientnet_lite0")
    )
    assert full == 3_371_008 + 2 * 1280
    assert found == {"full": full, "body": 20_544 + 2 * 1281 + 2}[counted]

"""Counts as the paper prints them, and weights that classify real photographs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from filmtransfer import backbones, film
from filmtransfer.backbones import (
    CATALOGUE,
    BackboneRecord,
    assemble,
    backbone_facts,
    build,
    digest,
    load_backbone,
    record_for,
)
from filmtransfer.backbones.weights import load_state, package_file
from filmtransfer.data import PixelSpec, decode, normalise, to_square
from filmtransfer.errors import UnavailableError, UpdateFileError, UsageError

RECORDED = Path(__file__).with_name("recorded_logits.json")


def test_counts_are_exact():
    found = {
        n: (len(backbone_facts(n).site_names), backbone_facts(n).film_parameters)
        for n in ("bit_m_r50x1", "efficientnet_b0", "efficientnetv2_m")
    }
    assert found == {
        "bit_m_r50x1": (17, 11_648),
        "efficientnet_b0": (18, 20_544),
        "efficientnetv2_m": (59, 137_472),
    }
    assert backbone_facts("vit_b16").film_parameters == 38_400
    assert backbone_facts("efficientnet_lite0").film_parameters == 20_544
    assert backbone_facts("bit_m_r50x1").parameters == 23_500_352
    assert backbone_facts("bit_m_r50x1").features == 2048


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_sites_exist_once_and_in_order(name):
    with torch.device("meta"):
        model = build(record_for(name))
    sites = backbones.film_sites(model)
    assert len(sites) == len(set(sites)) == len(backbone_facts(name).site_names)
    assert all(hasattr(model.get_submodule(site), "weight") for site in sites)


# Small ones of every family and of the odd members that timm has.
ODD = (
    "mobilenetv3_small_050", "mobilenetv4_conv_small", "convnext_atto", "resnetv2_50x1_bit", "resnetv2_18",
    "resnetv2_50d_gn", "regnetx_002", "resnet18", "vit_small_patch14_dinov2", "deit_tiny_distilled_patch16_224",
    "tf_efficientnet_lite0", "mobilenetv2_050", "vit_tiny_patch16_224", "efficientnet_b0",
)  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_every_family_embeds_and_takes_a_step(name):
    from filmtransfer.episodes import episodes
    from filmtransfer.heads import make_head
    from filmtransfer.model import AdaptedModel
    from filmtransfer.training.finetune.gradient import accumulate

    torch.manual_seed(0)
    backbone = assemble(record_for(name), build(record_for(name)))
    model = AdaptedModel(backbone, make_head("lda"), 64)
    size = model.pixels.size
    pixels = torch.randint(
        0, 256, (8, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    assert model.features(pixels[:2]).shape == (2, backbone.features) == (2, backbone_facts(name).features)
    episode = next(episodes(torch.arange(2).repeat(4), "split", 8, 0))
    accumulate(lambda i: model.embed(pixels[i]), model.head, episode, 8)
    film_layers = film.layers(model.network)
    assert len(film_layers) == len(backbone_facts(name).site_names) > 4
    assert all(layer.beta.grad is not None for layer in film_layers.values())


@torch.no_grad()
def test_weights_are_standardised_once():
    from filmtransfer.backbones.frozen import standardise_weights

    torch.manual_seed(0)
    model = build(record_for("bit_m_r50x1")).double()
    x = torch.randn(1, 3, 61, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    want = model(x)
    assert standardise_weights(model) == 53
    assert (model(x) - want).abs().max() <= 1e-10 * want.abs().max()
    assert standardise_weights(model) == 0


def photographs() -> dict[str, Image.Image]:
    """Real photographs that ship inside scikit-image, scikit-learn and matplotlib."""
    import matplotlib.cbook
    import skimage.data
    from sklearn.datasets import load_sample_image

    hopper = matplotlib.cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)
    return {
        "chelsea": Image.fromarray(skimage.data.chelsea()),
        "coffee": Image.fromarray(skimage.data.coffee()),
        "rocket": Image.fromarray(skimage.data.rocket()),
        "hopper": decode(hopper),
        "flower": Image.fromarray(load_sample_image("flower.jpg")),
    }


# ImageNet-1k class indices that a person would accept among the best three.
MEANT = {
    "chelsea": {281, 282, 285},  # tabby, tiger cat, Egyptian cat
    "coffee": {504, 967, 968},  # coffee mug, espresso, cup
    "rocket": {657, 744, 812},  # missile, projectile, space shuttle
    "hopper": {457, 652, 906},  # bow tie, military uniform, Windsor tie
}


def scores(name: str, *, spec: PixelSpec | None = None, architecture: str = "") -> dict[str, np.ndarray]:
    """The publishers' own 1000 class scores: our loading, plus their last layer."""
    record = record_for(name)
    raw = torch.load(package_file(record), map_location="cpu", weights_only=True)
    model = build(BackboneRecord(architecture, architecture, "") if architecture else record)
    load_state(model, raw, "package")
    spec = spec or PixelSpec(**{**vars(load_backbone(name).pixels), "fit": "crop"})
    batch = torch.stack([to_square(image, spec) for image in photographs().values()])
    with torch.no_grad():
        features = model(normalise(batch, spec))
    logits = features @ raw["_fc.weight"].T + raw["_fc.bias"]
    return dict(zip(photographs(), logits.numpy(), strict=True))


@pytest.mark.parametrize("name", ["efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"])
def test_the_published_weights_classify_real_photographs(name):
    found = scores(name)
    recorded = json.loads(RECORDED.read_text())[name]
    for photo, logits in found.items():
        best = recorded[photo]
        assert int(logits.argmax()) == best["top"][0], photo
        np.testing.assert_allclose(logits[best["top"]], best["logits"], atol=2e-3, err_msg=photo)
        if photo in MEANT:
            assert MEANT[photo] & set(logits.argsort()[::-1][:3].tolist()), photo


def test_wrong_padding_normalisation_or_order_would_be_noticed():
    """The recorded logits are no test if a wrong loading passed them."""
    right = scores("efficientnet_lite0")
    top = {photo: logits.max() for photo, logits in right.items()}
    spec = PixelSpec(**{**vars(load_backbone("efficientnet_lite0").pixels), "fit": "crop"})
    imagenet = PixelSpec(**{**vars(spec), "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)})
    for wrong in (
        scores("efficientnet_lite0", spec=imagenet),
        scores("efficientnet_lite0", architecture="efficientnet_lite0"),  # symmetric padding, other ε
    ):
        away = [abs(wrong[p][right[p].argmax()] - top[p]) for p in right]
        assert sorted(away)[1] > 0.3, "far outside the tolerance of the recorded logits on all photos but one"


def test_frozen_norms_fold_into_their_convolutions():
    plain, folded = load_backbone("efficientnet_lite0", fold=False), load_backbone("efficientnet_lite0")
    x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        want, got = plain.module(x), folded.module(x)
    assert (got - want).abs().max() < 1e-5 * want.abs().max()
    left = [m for m in folded.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(left) == len(folded.sites)
    assert plain.digest == folded.digest


@pytest.mark.parametrize("name", ["resnet18", "regnetx_002", "mobilenetv3_small_050", "tf_efficientnetv2_b0"])
@torch.no_grad()
def test_folding_is_exact_for_every_family_with_batch_norm(name):
    from tests.film.test_film import make

    model = make(name).double()
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    want = model(x)
    sites = backbones.film_sites(model)
    from filmtransfer.backbones.frozen import fold_frozen_norms

    assert fold_frozen_norms(model, sites, 64) > 0
    assert (model(x) - want).abs().max() < 1e-10 * want.abs().max()
    assert all(isinstance(model.get_submodule(s), torch.nn.BatchNorm2d) for s in sites)


def make_bit_npz(path: Path, model: torch.nn.Module) -> None:
    """BiT's published format: names and axis order of its .npz files."""
    arrays: dict[str, np.ndarray] = {}

    def kernel(name: str, weight: torch.Tensor) -> None:
        arrays[f"resnet/{name}/standardized_conv2d/kernel"] = weight.permute(2, 3, 1, 0).numpy()

    def norm(name: str, module: torch.nn.Module) -> None:
        arrays[f"resnet/{name}/gamma"] = module.weight.numpy()
        arrays[f"resnet/{name}/beta"] = module.bias.numpy()

    kernel("root_block", model.stem.conv.weight)
    norm("group_norm", model.norm)
    arrays["resnet/head/conv2d/kernel"] = np.zeros((1, 1, 2048, 3), np.float32)
    arrays["resnet/head/conv2d/bias"] = np.zeros(3, np.float32)
    for i, stage in enumerate(model.stages, 1):
        for j, block in enumerate(stage.blocks, 1):
            unit = f"block{i}/unit{j:02d}"
            for part, number in (("a", 1), ("b", 2), ("c", 3)):
                kernel(f"{unit}/{part}", getattr(block, f"conv{number}").weight)
                norm(f"{unit}/{part}/group_norm", getattr(block, f"norm{number}"))
            if block.downsample is not None:
                kernel(f"{unit}/a/proj", block.downsample.conv.weight)
    np.savez(path, **arrays)


@pytest.fixture(scope="module")
def bit() -> torch.nn.Module:
    torch.manual_seed(3)
    model = build(record_for("bit_m_r50x1")).requires_grad_(False)
    torch.nn.init.normal_(model.norm.weight, 1.0, 0.2)  # so that a forgotten last norm shows
    torch.nn.init.normal_(model.norm.bias)
    return model


@pytest.mark.parametrize("kind", ["npz", "safetensors", "pth"])
def test_a_users_weights_file_is_loaded_whole(kind, bit, tmp_path):
    file = tmp_path / f"bit.{kind}"
    if kind == "npz":
        make_bit_npz(file, bit)
    elif kind == "safetensors":
        save_file({k: v.contiguous() for k, v in bit.state_dict().items()}, file)
    else:
        torch.save({"state_dict": {f"module.{k}": v for k, v in bit.state_dict().items()}}, file)
    loaded = load_backbone("bit_m_r50x1", file)
    assert loaded.digest == digest(bit), "every tensor, the last GroupNorm too"
    released = load_backbone("bit_m_r50x1_released", file)
    assert torch.equal(released.module.norm.weight, torch.ones(2048))
    assert released.digest != loaded.digest


def test_damaged_or_foreign_weights_are_refused(bit, tmp_path):
    file = tmp_path / "bit.safetensors"
    state = {k: v.contiguous() for k, v in bit.state_dict().items()}
    save_file({k: v for k, v in state.items() if k != "norm.weight"}, file)
    with pytest.raises(UpdateFileError, match="1 tensors missing"):
        load_backbone("bit_m_r50x1", file)
    with pytest.raises(UpdateFileError, match="does not hold weights of this backbone"):
        load_backbone("resnet18", file)
    save_file(state | {"norm.bias": torch.full((2048,), float("nan"))}, file)
    with pytest.raises(UpdateFileError, match="not finite"):
        load_backbone("bit_m_r50x1", file)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UpdateFileError, match="not a whole safetensors file"):
        load_backbone("bit_m_r50x1", file)
    (tmp_path / "x.pth").write_bytes(b"nothing")
    with pytest.raises(UpdateFileError, match=r"cannot be read|more than plain weights"):
        load_backbone("resnet18", tmp_path / "x.pth")
    (tmp_path / "x.npz").write_bytes(b"nothing")
    with pytest.raises(UpdateFileError):
        load_backbone("bit_m_r50x1", tmp_path / "x.npz")
    with pytest.raises(UpdateFileError, match="no weights file"):
        load_backbone("resnet18", tmp_path / "none.pth")
    (tmp_path / "x.h5").write_bytes(b"x")
    with pytest.raises(UsageError, match=r"\.safetensors"):
        load_backbone("resnet18", tmp_path / "x.h5")


class Bomb:
    def __reduce__(self):
        import os

        return os.system, ("echo a weights file ran code >&2; exit 1",)


def test_a_weights_file_never_runs_code(tmp_path):
    file = tmp_path / "bomb.pth"
    torch.save({"weight": Bomb()}, file)
    with pytest.raises(UpdateFileError, match="more than plain weights"):
        load_backbone("resnet18", file)


def test_what_cannot_be_had_offline_is_said_at_once(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnavailableError, match="HF_HUB_OFFLINE") as error:
        load_backbone("bit_m_r50x1")
    assert "--weights FILE" in error.value.hint
    assert "efficientnet_lite0" in error.value.hint
    assert error.value.exit_code == 5
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # loopback, nobody listens
    with pytest.raises(UnavailableError, match="cannot be reached"):
        load_backbone("bit_m_r50x1")


def test_unknown_names():
    with pytest.raises(UsageError, match="No backbone is called 'resnet9000'"):
        load_backbone("resnet9000")
    with pytest.raises(backbones.weights.UnavailableError):
        load_backbone("resnet34")  # a timm name outside the catalogue: known, but not here


def test_listing_says_what_can_be_used_now():
    rows = {row.record.name: row for row in backbones.list_backbones()}
    assert rows["efficientnet_lite0"].usable
    assert "package" in rows["efficientnet_lite0"].source
    assert not rows["bit_m_r50x1"].usable
    assert "goog_in21k" in rows["bit_m_r50x1"].source


def test_random_weights_for_measuring():
    backbone = assemble(record_for("resnet18"), build(record_for("resnet18")))
    film.attach(backbone.module, backbone.sites)
    assert film.count(backbone.module) == backbone_facts("resnet18").film_parameters


def test_the_slim_relu6_is_relu6():
    from filmtransfer.backbones.frozen import ReLU6

    values = torch.tensor([-1.0, 0.0, 1e-8, 3.0, 6.0, 6.0000005, 9.0], dtype=torch.float64)
    results = []
    for act in (torch.nn.ReLU6(), ReLU6()):
        x = values.clone().requires_grad_()
        y = act(2 * x)  # a new tensor: it works in place
        (y * torch.arange(1.0, 8.0)).sum().backward()
        results.append((y.detach(), x.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_frozen_work_changes_no_gradient():
    """FiLM's gradient through the folded network is that through the one timm builds."""
    from filmtransfer.heads import make_head
    from filmtransfer.model import AdaptedModel

    pixels = torch.randint(0, 256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    found = []
    for fold in (False, True):
        model = AdaptedModel(load_backbone("efficientnet_lite0", fold=fold), make_head("lda"), 64).double()
        model.network(pixels.double() / 127.5 - 1).square().sum().backward()
        found.append(torch.cat([p.grad.flatten() for p in film.parameters(model.network)]))
    assert (found[1] - found[0]).norm() <= 1e-5 * found[0].norm()  # it is folded in float32

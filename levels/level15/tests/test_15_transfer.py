"""Judges transfer.py by loops over prompts, tokens and heads, and by complex numbers for the rotations. The maps here
are drawn: no fit is needed to judge what is made with one.
"""

import pytest
import torch

from dojo.models import Config
from level15.cachemap import HeadMaps, fit_cache_map
from level15.transfer import map_heads, transfer_cache


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def turned(k, positions, theta, sign=1):
    """Plane i of half-split keys turned by sign · position · theta^(-2 i / D), in float64."""
    half = k.shape[-1] // 2
    angle = positions.double()[:, None] * theta ** (-torch.arange(half).double() / half)
    z = torch.complex(k[..., :half].double(), k[..., half:].double()) * torch.exp(1j * sign * angle)
    return torch.cat([z.real, z.imag], -1)


def heads_of(sources, maps):
    """Oracle of map_heads in float64: a token's row is gathered layer by layer and head by head."""
    batch, _, num_tokens, _ = sources[0].shape
    out = torch.zeros(batch, len(maps.heads), num_tokens, maps.heads[0][1].shape[0]).double()
    for b in range(batch):
        for s in range(num_tokens):
            for head, (W, bias) in enumerate(maps.heads):
                read = [head] if maps.head_local else range(sources[0].shape[1])
                row = torch.cat([sources[layer][b, h, s].double() for layer in maps.source_layers for h in read])
                out[b, head, s] = (row[:, None] * W).sum(0) + bias
    return out


def cache_of(maps, source, old, new, source_config, target_config):
    """Oracle of transfer_cache, rounded to the source's dtype at the end."""
    dtype = source[0][0].dtype
    content = [turned(keys, old, source_config.rope_theta, -1) for keys, _ in source]
    made = []
    for of_keys, of_values in maps:
        keys = turned(heads_of(content, of_keys), new, target_config.rope_theta)
        made.append((keys.to(dtype), heads_of([values for _, values in source], of_values).to(dtype)))
    return made


def drawn_maps(source_layers, n_heads, width, target_width, head_local, seed):
    pairs = [(draw(width, target_width, seed=seed + i), draw(target_width, seed=seed + 9 + i)) for i in range(n_heads)]
    return HeadMaps(source_layers, [(W.double(), b.double()) for W, b in pairs], head_local)


# ---- map_heads, judged with transfer_cache


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_one_head_made_of_two_by_hand(expect):
    """A token's row is [head 0, head 1]; the map's intercept counts for each token."""
    sources = [torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]])]  # (1, 2, 2, 2)
    W = torch.tensor([[1.0], [0.0], [10.0], [100.0]]).double()
    maps = HeadMaps([0], [(W, torch.tensor([0.5]).double())], False)
    expect(map_heads, sources, maps).equals(torch.tensor([[[[651.5], [873.5]]]]))


@pytest.mark.kata("level15.transfer.transfer_cache")
@pytest.mark.parametrize("layers", [[1], [2, 0], [0, 1, 2]], ids=str)
def test_heads_from_the_layers_of_the_map(expect, layers):
    """Oracle: loops. 3 heads of 4 from 2 heads of 3; the layers stand in the map's order, whatever their numbers."""
    sources = [draw(2, 2, 5, 3, seed=i) for i in range(3)]
    maps = drawn_maps(layers, 3, len(layers) * 6, 4, False, 10)
    expect(map_heads, sources, maps).equals(heads_of(sources, maps).float(), abs=1e-5)


@pytest.mark.kata("level15.transfer.transfer_cache")
@pytest.mark.parametrize("head_local", [True, False])
def test_heads_from_their_own_number(expect, head_local):
    """Oracle: loops. 3 heads from 3 heads: with head_local each reads its own columns of both layers."""
    sources = [draw(2, 3, 4, 2, seed=20 + i) for i in range(3)]
    maps = drawn_maps([2, 1], 3, 2 * 2 * (1 if head_local else 3), 5, head_local, 30)
    expect(map_heads, sources, maps).equals(heads_of(sources, maps).float(), abs=1e-5)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_products_are_float64(expect):
    """Bfloat16 values, rounded once: what cancels in float64 would be noise in bfloat16."""
    sources = [(draw(1, 2, 6, 4, seed=40) + 50).bfloat16()]
    maps = drawn_maps([0], 1, 8, 3, False, 41)
    expect(map_heads, sources, maps).equals(heads_of(sources, maps).bfloat16(), rel=0, abs=0)
    wide = [x.double() + 1e6 / 3 for x in sources]
    thirds = maps._replace(heads=[(W / 3, b / 3) for W, b in maps.heads])
    expect(map_heads, wide, thirds).equals(heads_of(wide, thirds), rel=1e-12, abs=1e-8)


# ---- transfer_cache

SOURCE = Config(3, 8, 4, 2, 6, 8, 9, rope_theta=50.0)  # 3 layers, 2 KV heads of 6
TARGET = Config(2, 8, 6, 3, 4, 8, 9, rope_theta=7.0)  # 2 layers, 3 KV heads of 4
LOCAL = Config(4, 8, 6, 2, 8, 8, 9, rope_theta=700.0)  # 4 layers, 2 KV heads of 8
OLD, NEW = torch.tensor([3, 4, 9, 10, 25]), torch.tensor([40, 41, 7, 60, 2])


def prompt(batch=2, seed=100, dtype=torch.float32, num_tokens=5):
    shape = (batch, 2, num_tokens, 6)
    return [
        (draw(*shape, seed=seed + 2 * i).to(dtype), draw(*shape, seed=seed + 2 * i + 1).to(dtype)) for i in range(3)
    ]


WIDE = [
    (drawn_maps([2, 0], 3, 24, 4, False, 200), drawn_maps([1, 2], 3, 24, 4, False, 220)),
    (drawn_maps([1, 0], 3, 24, 4, False, 240), drawn_maps([0, 1], 3, 24, 4, False, 260)),
]
NARROW = [
    (drawn_maps([i % 3], 2, 6, 8, True, 300 + 40 * i), drawn_maps([2 - i % 3], 2, 6, 8, True, 320 + 40 * i))
    for i in range(4)
]


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_one_token_by_hand(expect):
    """Content [1, 0] was turned to 2. The map doubles it and adds 1 to the second feature: [2, 1], which goes to 3.
    Values are mapped, and never turned."""
    config = Config(1, 2, 1, 1, 2, 2, 9)
    keys, values = torch.tensor([[[[-0.41614684, 0.90929743]]]]), torch.tensor([[[[5.0, 7.0]]]])
    double = torch.eye(2).double() * 2
    maps = [
        (
            HeadMaps([0], [(double, torch.tensor([0.0, 1.0]).double())], False),
            HeadMaps([0], [(-double, torch.tensor([0.5, 0.0]).double())], True),
        )
    ]
    right = [(torch.tensor([[[[-2.121105, -0.707752]]]]), torch.tensor([[[[-9.5, -14.0]]]]))]
    places = torch.tensor([2]), torch.tensor([3])
    expect(transfer_cache, maps, [(keys, values)], *places, config, config).equals(right, abs=2e-6)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_a_cache_for_another_model(expect):
    """Oracle: loops and complex numbers. Other depth, heads, width and base, and other positions."""
    right = cache_of(WIDE, prompt(), OLD, NEW, SOURCE, TARGET)
    expect(transfer_cache, WIDE, prompt(), OLD, NEW, SOURCE, TARGET).equals(right, abs=2e-5)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_a_cache_head_by_head(expect):
    """Oracle: the target is deeper than the source, and its heads are wider."""
    right = cache_of(NARROW, prompt(3, 120), OLD, NEW, SOURCE, LOCAL)
    expect(transfer_cache, NARROW, prompt(3, 120), OLD, NEW, SOURCE, LOCAL).equals(right, abs=2e-5)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_the_same_model_and_the_same_place(expect):
    """Identity maps, one base and old == new: the source comes back, digits and all."""
    config = Config(3, 8, 4, 2, 6, 8, 9, rope_theta=50.0)
    same = [(torch.eye(12).double()[:, i * 6 : i * 6 + 6], torch.zeros(6).double()) for i in range(2)]
    maps = [(HeadMaps([layer], same, False), HeadMaps([layer], same, False)) for layer in range(3)]
    expect(transfer_cache, maps, prompt(), OLD, OLD, SOURCE, config).equals(prompt(), abs=2e-6)
    moved = [(turned(turned(k, OLD, 50.0, -1), NEW, 50.0).float(), v) for k, v in prompt()]
    expect(transfer_cache, maps, prompt(), OLD, NEW, SOURCE, config).equals(moved, abs=2e-6)


@pytest.mark.kata("level15.transfer.transfer_cache")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_rounded_once_at_the_end(expect, dtype):
    """The cache has the source's dtype. Content, products and rotation are float64: bfloat16 keys that are rounded on
    the way are off by more than half a step. Oracle: the exact result, rounded; a tie of its float32 tables may fall
    to the other side, so one value in a hundred may be a step off."""
    source = prompt(dtype=dtype)
    right = cache_of(WIDE, source, OLD, NEW, SOURCE, TARGET)

    def close(made):
        mine, true = (torch.cat([x.flatten() for pair in layers for x in pair]) for layers in (made, right))
        if mine.dtype != true.dtype or mine.shape != true.shape:
            return "another dtype or shape than the source's"
        if dtype == torch.float64:
            return bool((mine - true).abs().max() < 2e-5)
        return (mine != true).double().mean().item() < 0.01

    expect(transfer_cache, WIDE, source, OLD, NEW, SOURCE, TARGET).holds(close, "rounded once, at the end")


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_prompts_and_tokens_of_any_number(expect):
    """One prompt of one token, and a prompt of which nothing has come; as many tokens as heads."""
    for batch, num_tokens in ((1, 1), (2, 0), (2, 2), (1, 3)):
        source, old, new = prompt(batch, 140, num_tokens=num_tokens), OLD[:num_tokens], NEW[:num_tokens]
        right = cache_of(WIDE, source, old, new, SOURCE, TARGET)
        expect(transfer_cache, WIDE, source, old, new, SOURCE, TARGET).equals(right, abs=2e-5)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_where_the_source_read_it_does_not_matter(expect):
    """The same contents, read by the source at two places, make the same cache at one place of the target."""
    contents = [(draw(1, 2, 5, 6, seed=170 + i).double(), draw(1, 2, 5, 6, seed=180 + i).double()) for i in range(3)]
    right = None
    for old in (OLD, torch.tensor([0, 1, 2, 3, 4]), OLD + 30):
        source = [(turned(k, old, SOURCE.rope_theta), v) for k, v in contents]
        right = right or cache_of(WIDE, source, old, NEW, SOURCE, TARGET)
        expect(transfer_cache, WIDE, source, old, NEW, SOURCE, TARGET).equals(right, abs=2e-5)


def from_calibration(calibration, target, places, source, old, new):
    """The whole way: maps from the calibration tokens, then the cache of a prompt that they have not seen."""
    maps = fit_cache_map(calibration, target, places, SOURCE, TARGET, lam=0.0)
    return transfer_cache(maps, source, old, new, SOURCE, TARGET)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_calibrated_at_the_front_and_used_elsewhere(expect):
    """A target whose content is an affine function of the source's: what it would have held itself at the new
    positions is what comes, exactly, from calibration tokens that stood at 0 to 4."""
    places = torch.arange(5)
    truth = [
        (drawn_maps([1], 3, 12, 4, False, 400), drawn_maps([0], 3, 12, 4, False, 420)),
        (drawn_maps([2], 3, 12, 4, False, 440), drawn_maps([2], 3, 12, 4, False, 460)),
    ]
    calibration = prompt(4, 480, torch.float64)
    target = cache_of(truth, calibration, places, places, SOURCE, TARGET)
    source = prompt(2, 500)
    right = cache_of(truth, source, OLD, NEW, SOURCE, TARGET)
    expect(from_calibration, calibration, target, places, source, OLD, NEW).equals(right, abs=1e-4)


@pytest.mark.kata("level15.transfer.transfer_cache")
def test_a_cache_that_does_not_fit_is_refused(expect):
    """A map or a layer too few, another model's heads, a position too few: none may be broadcast or dropped."""
    source = prompt(1, 600)
    right = cache_of(WIDE, source, OLD, NEW, SOURCE, TARGET)
    expect(transfer_cache, WIDE, source, OLD, NEW, SOURCE, TARGET).equals(right, abs=2e-5)
    other = [(keys[:, :1], values[:, :1]) for keys, values in source]
    for maps, layers, old, new in (
        (WIDE[:1], source, OLD, NEW),
        (WIDE, source[:2], OLD, NEW),
        (WIDE, other, OLD, NEW),
        (WIDE, source, OLD[:1], NEW),
        (WIDE, source, OLD, NEW[:1]),
    ):
        expect(transfer_cache, maps, layers, old, new, SOURCE, TARGET).raises(ValueError)

"""Judges cachemap.py by another program for the whole chain: complex numbers for the rotation, least squares on
augmented rows for ridge, an index of four loops for the columns.
"""

import pytest
import torch

from dojo.models import Config
from level15.cachemap import HeadMaps, fit_cache_map, fit_heads, head_columns


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def turned(k, positions, theta, sign=1):
    """Plane i of half-split keys turned by sign · position · theta^(-2 i / D), in float64."""
    half = k.shape[-1] // 2
    angle = positions.double()[:, None] * theta ** (-torch.arange(half).double() / half)
    z = torch.complex(k[..., :half].double(), k[..., half:].double()) * torch.exp(1j * sign * angle)
    return torch.cat([z.real, z.imag], -1)


def ridge(X, Y, lam):
    n, p = X.shape
    rows = torch.cat([X, torch.ones(n, 1).double()], 1)
    price = torch.cat([lam**0.5 * torch.eye(p).double(), torch.zeros(p, 1).double()], 1)
    right = torch.cat([Y, torch.zeros(p, Y.shape[1]).double()])
    solved = torch.linalg.lstsq(torch.cat([rows, price]), right, driver="gelsd").solution
    return solved[:p], solved[p]


def rows_of(x):
    """A row per token of each prompt, columns [head][feature]."""
    return torch.stack([x[b, :, s].double().flatten() for b in range(x.shape[0]) for s in range(x.shape[2])])


def unexplained(X, Y, lam):
    W, b = ridge(X, Y, lam)
    return ((X @ W + b - Y) ** 2).sum().item()


def heads_of(sources, target, lam, k, head_local):
    """Oracle of fit_heads."""
    rows, wanted = [rows_of(x) for x in sources], rows_of(target)
    chosen = sorted(range(len(rows)), key=lambda layer: unexplained(rows[layer], wanted, lam))[:k]
    width, D = target.shape[3], sources[0].shape[3]
    maps = []
    for head in range(target.shape[1]):
        local = slice(head * D, head * D + D) if head_local else slice(None)
        X = torch.cat([rows[layer][:, local] for layer in chosen], 1)
        maps.append(ridge(X, wanted[:, head * width : (head + 1) * width], lam))
    return HeadMaps(chosen, maps, head_local)


def maps_of(source, target, positions, source_config, target_config, lam=0.01, k=1, head_local=False):
    """Oracle of fit_cache_map."""
    contents = [turned(keys, positions, source_config.rope_theta, -1) for keys, _ in source]
    right = []
    for keys, values in target:
        content = turned(keys, positions, target_config.rope_theta, -1)
        of_values = heads_of([v for _, v in source], values, lam, k, head_local)
        right.append((heads_of(contents, content, lam, k, head_local), of_values))
    return right


# ---- head_columns, judged with fit_cache_map


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_columns_of_a_head(expect):
    """A row is [layer][head][feature]: the features of a head are neighbours, its layers far apart."""
    expect(head_columns, 2, 3, 2, 1).equals([2, 3, 8, 9])
    expect(head_columns, 1, 2, 3, 0).equals([0, 1, 2])
    expect(head_columns, 3, 2, 1, 1).equals([1, 3, 5])
    expect(head_columns, 2, 1, 3, 0).equals([0, 1, 2, 3, 4, 5])
    place = torch.arange(4 * 3 * 5).view(4, 3, 5)
    expect(head_columns, 4, 3, 5, 2).equals(place[:, 2].flatten().tolist())
    expect(head_columns, 2, 3, 2, 3).raises(ValueError)


# ---- fit_heads, judged with fit_cache_map


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_a_map_for_each_head(expect):
    """Oracle: all sizes differ, 3 heads are made from 2. A map may come out of two layers, the better one first."""
    sources = [draw(2, 2, 7, 3, seed=i).double() for i in range(3)]
    target = (sources[2] * 2 + 0.7 * sources[1] + 1)[:, [0, 1, 0]] + 0.1 * draw(2, 3, 7, 3, seed=5)
    assert heads_of(sources, target, 0.3, 2, False).source_layers == [2, 1]
    expect(fit_heads, sources, target, 0.3, 2, False).equals(heads_of(sources, target, 0.3, 2, False))
    expect(fit_heads, sources, target[..., :2], 0.3, 1, False).equals(heads_of(sources, target[..., :2], 0.3, 1, False))
    expect(fit_heads, sources, target, 0.3, 1, True).raises(ValueError)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
@pytest.mark.parametrize("head_local", [True, False])
def test_head_by_head_or_all_heads(expect, head_local):
    """Equal numbers of heads, and both ways. A head's own columns are those of its number in each layer; what it is
    not told to leave out, it reads."""
    sources = [draw(2, 3, 8, 2, seed=10 + i).double() for i in range(3)]
    target = draw(2, 3, 8, 4, seed=13).double() + sources[2][..., [0, 1, 0, 1]] + 0.5 * sources[0][..., [1, 1, 0, 0]]
    right = heads_of(sources, target, 0.3, 2, head_local)
    assert right.source_layers == [2, 0]
    expect(fit_heads, sources, target, 0.3, 2, head_local).equals(right)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_layers_are_chosen_once_by_all_columns(expect):
    """Layer 1 predicts head 0 best, but layer 0 the two together; head by head too, all columns choose."""
    sources = [draw(1, 2, 12, 2, seed=20 + i).double() for i in range(2)]
    target = 3 * sources[0]
    target[:, 0] = sources[1][:, 0]
    for head_local in (False, True):
        right = heads_of(sources, target, 0.5, 1, head_local)
        assert right.source_layers == [0]
        expect(fit_heads, sources, target, 0.5, 1, head_local).equals(right)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_layers_are_chosen_at_the_same_price(expect):
    """Layer 0 has all of the target, but so small that its map would be dear: at lam = 10 layer 1 is the better one."""
    target = draw(1, 1, 20, 2, seed=30).double()
    sources = [target * 1e-3, target + 0.5 * draw(1, 1, 20, 2, seed=31)]
    for lam, chosen in ((10.0, [1]), (1e-9, [0])):
        right = heads_of(sources, target, lam, 1, False)
        assert right.source_layers == chosen
        expect(fit_heads, sources, target, lam, 1, False).equals(right, rel=1e-4)


# ---- fit_cache_map

SOURCE = Config(3, 8, 4, 2, 6, 8, 9, rope_theta=50.0)  # 3 layers, 2 KV heads of 6
TARGET = Config(2, 8, 6, 3, 4, 8, 9, rope_theta=3.0)  # 2 layers, 3 KV heads of 4
LOCAL = Config(2, 8, 6, 2, 4, 8, 9, rope_theta=3.0)
PLACES = torch.tensor([3, 4, 9, 10, 25])


def caches(target_config, seed, batch=6):
    """Keys (as they are rotated) and values of both models: independent numbers with means that are not 0."""
    drawn = []
    for config in (SOURCE, target_config):
        shape = (batch, config.n_kv_heads, len(PLACES), config.head_dim)
        seed += 50
        drawn.append([(draw(*shape, seed=seed + 2 * i) + 1, draw(*shape, seed=seed + 2 * i + 1) - i) for i in range(3)])
    return drawn[0][: SOURCE.n_layers], drawn[1][: target_config.n_layers]


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_the_maps_of_a_pair(expect):
    """Oracle: two models of other depth, heads, widths and base. Two source layers are read, keys and values each
    from their own two. The tables of level 00 are float32, so the maps agree to 1e-4."""
    source, target = caches(TARGET, 100)
    right = maps_of(source, target, PLACES, SOURCE, TARGET, 0.5, 2)
    assert len({str(maps.source_layers) for pair in right for maps in pair}) > 1
    expect(fit_cache_map, source, target, PLACES, SOURCE, TARGET, 0.5, 2).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_the_maps_of_a_pair_head_by_head(expect):
    """Oracle: 2 heads and 2 heads, of 6 and of 4 features."""
    source, target = caches(LOCAL, 300)
    right = maps_of(source, target, PLACES, SOURCE, LOCAL, 0.25, 2, True)
    expect(fit_cache_map, source, target, PLACES, SOURCE, LOCAL, 0.25, 2, True).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_one_layer_and_a_small_price_unless_told_otherwise(expect):
    """The defaults: lam = 0.01, the best layer alone, all of its heads."""
    source, target = caches(LOCAL, 500)
    right = maps_of(source, target, PLACES, SOURCE, LOCAL)
    expect(fit_cache_map, source, target, PLACES, SOURCE, LOCAL).equals(right, rel=1e-4, abs=1e-4)


def related(batch, places, seed):
    """A target whose content, and whose values, are affine functions of the source's second layer."""
    content = [draw(batch, 2, len(places), 2, seed=seed + i).double() for i in range(2)]
    values = [draw(batch, 2, len(places), 2, seed=seed + 5 + i).double() for i in range(2)]
    source = [(turned(c, places, 10.0), v) for c, v in zip(content, values)]
    joined = content[1].transpose(1, 2).flatten(2) @ WEIGHTS + 2
    keys = joined.unflatten(2, (2, 2)).transpose(1, 2)
    return source, [(turned(keys, places, 70.0), 3 * values[1][:, [1, 0]] - 1)]


WEIGHTS = torch.tensor([[1.0, 0, 2, 0], [0, -1, 0, 1], [3, 0, 1, 0], [0, 0.5, 0, 2]]).double()
SMALL, OTHER = Config(2, 4, 2, 2, 2, 4, 9, rope_theta=10.0), Config(1, 4, 2, 2, 2, 4, 9, rope_theta=70.0)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
@pytest.mark.parametrize("first", [0, 40])
def test_the_map_is_one_of_contents(expect, first):
    """The weights that made the target's content are found, wherever the calibration tokens stood: a map of rotated
    keys holds at their positions alone."""
    places = first + torch.tensor([0, 1, 2, 5, 9])
    source, target = related(4, places, 700)
    swapped = torch.tensor([[0.0, 0, 3, 0], [0, 0, 0, 3], [3, 0, 0, 0], [0, 3, 0, 0]]).double()
    two, one = torch.full((2,), 2.0).double(), torch.full((2,), -1.0).double()
    of_keys = HeadMaps([1], [(WEIGHTS[:, :2], two), (WEIGHTS[:, 2:], two)], False)
    of_values = HeadMaps([1], [(swapped[:, :2], one), (swapped[:, 2:], one)], False)
    expect(fit_cache_map, source, target, places, SMALL, OTHER, lam=0.0).equals([(of_keys, of_values)], abs=1e-5)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_bfloat16_keys_are_not_rounded_again(expect):
    """Caches are bfloat16. Content rounded to three digits once more would show in the second digit of a map."""
    source, target = caches(LOCAL, 900, batch=3)
    source, target = ([tuple(part.bfloat16() for part in pair) for pair in layers] for layers in (source, target))
    right = maps_of(source, target, PLACES, SOURCE, LOCAL, 0.02)
    expect(fit_cache_map, source, target, PLACES, SOURCE, LOCAL, 0.02).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level15.cachemap.fit_cache_map")
def test_caches_that_do_not_belong_together(expect):
    """Another prompt's tokens, a layer too few, more layers than there are, heads that have no partner: refused."""
    source, target = caches(TARGET, 1100, batch=2)
    right = maps_of(source, target, PLACES, SOURCE, TARGET, 1.0)
    expect(fit_cache_map, source, target, PLACES, SOURCE, TARGET, 1.0).equals(right, rel=1e-4, abs=1e-4)
    shorter = [(keys[:, :, 1:], values[:, :, 1:]) for keys, values in target]
    fewer = [(keys[:1], values[:1]) for keys, values in target]
    for other in (shorter, fewer, target[:1]):
        expect(fit_cache_map, source, other, PLACES, SOURCE, TARGET).raises(ValueError)
    expect(fit_cache_map, source, target, PLACES[1:], SOURCE, TARGET).raises(ValueError)
    expect(fit_cache_map, source, target, PLACES, SOURCE, TARGET, k=4).raises(ValueError)
    expect(fit_cache_map, source, target, PLACES, SOURCE, TARGET, head_local=True).raises(ValueError)

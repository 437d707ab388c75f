"""Judges handoff.py by what a cache is told, by listing heads and tokens, and by which names are equal."""

import random
from types import MappingProxyType

import pytest
import torch

from dojo.models import Config
from level02.cache import KVCache
from level12.hash_chain import hash_full_blocks
from level15.handoff import cache_salt, head_offsets, load_cache, remaining

# ---- head_offsets, judged with load_cache


def dealt(n_kv_heads, n_ranks):
    """Oracle: heads and ranks are both cut into the same finest slots, in order; a rank starts with its first slot."""
    slots = [head for head in range(n_kv_heads) for _ in range(n_ranks)]
    return [slots[rank * n_kv_heads] for rank in range(n_ranks)]


@pytest.mark.kata("level15.handoff.load_cache")
def test_a_copy_of_a_head_is_no_head_of_its_own(expect):
    """2 KV heads on 4 ranks: two ranks hold each. Counted as 4 heads, the receiver would make room for twice the cache,
    and look for heads that nobody sends (sglang #19086, LMCache #1629)."""
    expect(head_offsets, 2, 4).equals([0, 0, 1, 1])
    expect(head_offsets, 8, 4).equals([0, 2, 4, 6])
    expect(head_offsets, 1, 3).equals([0, 0, 0])


@pytest.mark.kata("level15.handoff.load_cache")
def test_ranks_share_out_the_heads(expect):
    """Oracle: all heads dealt out. As many ranks as heads, one rank, more heads than ranks, more ranks than heads."""
    for heads, ranks in ((3, 3), (8, 1), (6, 2), (9, 3), (12, 4), (2, 6), (3, 6), (4, 32), (1, 1)):
        expect(head_offsets, heads, ranks).equals(dealt(heads, ranks))
    expect(head_offsets, 3, 2).raises(ValueError)


# ---- remaining, judged with load_cache


@pytest.mark.kata("level15.handoff.load_cache")
def test_the_rest_goes_on_where_the_cache_ends(expect):
    """10 tokens, 4 received. Run at positions 0 .. 5, the rest would be turned like the beginning of the text, and
    answers would repeat it (tt-inference-server #4082)."""
    expect(remaining, list(range(50, 60)), 4).equals(([54, 55, 56, 57, 58, 59], [4, 5, 6, 7, 8, 9]))
    expect(remaining, [7, 8, 9], 2).equals(([9], [2]))


@pytest.mark.kata("level15.handoff.load_cache")
def test_from_no_token_to_all_but_one(expect):
    """Oracle: each token beside its number. Ids repeat, so a place is not found by its id; the last is always run."""
    ids = (5, 3, 5, 0, 5, 3)
    for received in range(len(ids)):
        rest = [(id, place) for place, id in enumerate(ids) if place >= received]
        expect(remaining, ids, received).equals(([id for id, _ in rest], [place for _, place in rest]))
    for wrong in (6, 7, -1):
        expect(remaining, ids, wrong).raises(ValueError)


# ---- cache_salt, judged with load_cache

FIRST = ("llama", "r1", "bfloat16", "")
PARTS = [
    FIRST, ("llama-2", "r1", "bfloat16", ""), ("llama", "r2", "bfloat16", ""), ("llama", "r1", "float16", ""),
    ("llama", "r1", "bfloat16", "qwen"), ("llama", "r1", "bfloat16", "llama"), FIRST,
]  # fmt: skip
SHIFTED = [("a", "bc", "f", ""), ("ab", "c", "f", ""), ("a", "b", "cf", ""), ("a", "b", "c", "f"), ("", "a", "bc", "f")]
SWAPPED = [("a", "b", "c", "d"), ("b", "a", "c", "d"), ("d", "b", "c", "a"), ("a", "c", "b", "d"), ("a", "b", "d", "c")]
EMPTY = [("", "a", "", ""), ("a", "", "", ""), ("", "", "a", ""), ("", "", "", "a"), ("", "", "", "")]
TWICE = [("aa", "a", "f", ""), ("a", "aa", "f", ""), ("a", "a", "f", "f"), ("a", "a", "f", ""), ("a", "a", "f", "a")]
NAMES = ("llama", "Llama", "llama ", "lläma", "llöma", "llma", "ll?ma", "日", "本", "?", "l\u00e9", "le\u0301")
SPELLED = [*((name, "r1", "f", "") for name in NAMES), ("llama", "r1", "F", "")]
NUMBERS = [("m", "1", "f", ""), ("m", "01", "f", ""), ("m", "1.0", "f", ""), ("m", "None", "f", ""), ("m", "", "f", "")]
LONG = [("m" * 400 + end, "r" * n, "f", "") for end in "ab" for n in (1, 257, 513)]
LENGTHS = [  # two by two the same, if the length 1 before "2" reads like 12, or 256 like 0
    ("2", "abc", "vwxyz|0|0", "s"), ("|3abc|9vwxyz", "", "", "s"),
    ("2", "abc", "vwxyzst00", "s"), ("3abc9vwxyzst", "", "", "s"),
    ("x" * 9 + "01a01b91" + "y" * 83, "r", "f", ""), ("0" + "x" * 9, "a", "b", "y" * 83 + "01r01f00"),
    ("\1a\1b\0" + "x" * 251, "r", "f", ""), ("", "a", "b", "x" * 251 + "\1r\1f\0"),
]  # fmt: skip
ESCAPED = ("a&b", "a%26b", "a/b", "a%2Fb", "a%2fb", "a b", "a%20b", "a+b", "a|b", "a\\|b", "a||b", "a_b", "a__b",
           "a\nb", "a\\nb", "a'b", "a''b", "a\\'b", 'a"b', "a&quot;b", "a\\x0ab")  # fmt: skip


def marks():
    """Texts that hold what may stand between texts, or around them, or before them so that it does not count."""
    found = []
    for mark in (*"\0|/,:-_@ \n\\\x1f", "', '", '", "', '","', "1:", "||", "::"):
        found += [(f"a{mark}b", "c", "d", ""), ("a", f"b{mark}c", "d", ""), (f"a{mark}b", f"c{mark}d", "", "")]
        found += [("a", f"{mark}b", "d", ""), (f"a{mark}", "b", "d", ""), ("a", "b", "d", mark)]
        found += [("a\\", f"b{mark}c", "d", "e"), (f"a{mark}b\\", "c", "d", "e")]
    return found


def kinds(texts):
    """Which of these give the same salt? Each is said by the first that gave it."""
    salts = [cache_salt(*parts) for parts in texts]
    return [salts.index(salt) for salt in salts]


@pytest.mark.kata("level15.handoff.load_cache")
@pytest.mark.parametrize(
    "texts",
    [
        PARTS,
        SHIFTED,
        SWAPPED,
        EMPTY,
        TWICE,
        SPELLED,
        NUMBERS,
        LONG,
        LENGTHS,
        [(name, "r1", "f", "") for name in ESCAPED],
        marks(),
    ],
    ids=["parts", "shifted", "swapped", "empty", "twice", "spelled", "numbers", "long", "lengths", "escaped", "marks"],
)
def test_another_model_is_another_name(expect, texts):
    """Oracle: equality of the four texts. Where two were one, a block of another model, revision or dtype would be
    found and read (LMCache #1380)."""
    expect(kinds, texts).equals([texts.index(parts) for parts in texts])


def clashes(names):
    """How many of these texts have another's salt: they hold what this very program writes between two texts."""
    salt = cache_salt(*names)
    places = sorted((salt.index(name.encode()), i) for i, name in enumerate(names) if name.encode() in salt)
    texts = [list(names)]
    for (start, first), (end, second) in zip(places, places[1:]):
        mark = salt[start + len(names[first]) : end].decode(errors="ignore")
        for one, other in ((f"x{mark}y", "z"), ("x", f"y{mark}z")):
            texts.append(list(names))
            texts[-1][first], texts[-1][second] = one, other
    return len(texts) - len({cache_salt(*parts) for parts in texts})


@pytest.mark.kata("level15.handoff.load_cache")
def test_a_text_may_hold_any_mark(expect):
    """Where the texts can be seen in the salt, what stands between two of them is put into a text: x, y and z must not
    read the same with the mark in the first text and with the mark in the second."""
    expect(clashes, ["first", "second", "third", "fourth"]).equals(0)


def made_anew(parts, count):
    """The distinct salts of equal texts that are other objects, among them two that are one object."""
    once = {cache_salt(parts[0], parts[0], "f", parts[0])}
    return len(once | {cache_salt(*("".join(list(parts[0])) for _ in "ab"), "f", parts[0]) for _ in range(count)})


class Text(str):
    """A text whose hash says nothing: that is a number of the process, and another one in the next."""

    def __hash__(self):
        return 7


@pytest.mark.kata("level15.handoff.load_cache")
def test_a_name_is_made_of_its_texts_alone(expect):
    """Other machines must come to the same salt: neither which object a text is, nor its hash(), which is another one
    in each process, is part of it."""
    expect(made_anew, ["llama"], 3).equals(1)
    texts = [tuple(map(Text, parts)) for parts in PARTS]
    expect(kinds, texts).equals([PARTS.index(parts) for parts in PARTS])


def blocks(texts, tokens, block_size):
    """How many different block keys of one prompt there are under these names."""
    return len({key for parts in texts for key in hash_full_blocks(tokens, block_size, cache_salt(*parts))})


@pytest.mark.kata("level15.handoff.load_cache")
def test_no_block_of_another_model_is_found(expect):
    """12 tokens are 3 blocks under each of 6 names: the salt of level 12's chain keeps even equal prompts apart."""
    expect(blocks, PARTS, list(range(12)), 4).equals(18)
    expect(lambda parts: isinstance(cache_salt(*parts), bytes), FIRST).equals(True)
    expect(lambda *parts: cache_salt(*parts) == cache_salt(*parts, ""), *FIRST[:3]).equals(True)


# ---- load_cache


class Recorder:
    """A cache of level 02's protocol that writes down what it is told. Its length moves with the last layer."""

    def __init__(self, n_layers, held=0):
        self.counts, self.told = [held] * n_layers, []

    def update(self, layer, k, v):
        self.counts[layer] += k.shape[2]
        self.told.append((layer, k, v, self.length))
        return k, v

    @property
    def length(self):
        return self.counts[-1]


def shape_of(n_layers, n_kv_heads=2, head_dim=4):
    return Config(n_layers, 12, n_kv_heads * 3, n_kv_heads, head_dim, 16, 9)


def received(config, batch, num_tokens, order, seed=0, dtype=torch.float32):
    """layer -> (k, v), in the order of arrival."""
    draw = torch.Generator().manual_seed(seed)
    shape = batch, config.n_kv_heads, num_tokens, config.head_dim
    layers = [tuple(torch.randn(shape, generator=draw).to(dtype) for _ in "kv") for _ in range(config.n_layers)]
    return {layer: layers[layer] for layer in order}


def told(config, layers):
    """What the cache is told: (layer, k, v, its length then), one call after the other."""
    cache = Recorder(config.n_layers)
    load_cache(cache, config, layers)
    return cache.told


def in_order(layers, num_tokens):
    last = len(layers) - 1
    return [(i, *layers[i], num_tokens if i == last else 0) for i in range(len(layers))]


@pytest.mark.kata("level15.handoff.load_cache")
@pytest.mark.parametrize("order", [[1, 0], [2, 0, 1], [1, 2, 0], [3, 2, 1, 0], [0, 1, 2]], ids=str)
def test_layers_go_in_by_number(expect, order):
    """Pipeline stages send their layers when they have them: in the order of arrival, or of a list, layers would be
    exchanged (vllm-ascend #15900), and the length would move before all of them are there."""
    config = shape_of(len(order))
    layers = received(config, 3, 5, order)
    expect(told, config, layers).equals(in_order(layers, 5), rel=0, abs=0)


@pytest.mark.kata("level15.handoff.load_cache")
def test_layer_ten_comes_after_layer_nine(expect):
    """Twelve layers in any order: as texts, "10" would come before "2"."""
    config = shape_of(12, 1, 2)
    layers = received(config, 1, 3, random.Random(1).sample(range(12), 12), seed=2)
    expect(told, config, layers).equals(in_order(layers, 3), rel=0, abs=0)


@pytest.mark.kata("level15.handoff.load_cache")
@pytest.mark.parametrize("batch, num_tokens", [(1, 1), (2, 0), (4, 7)])
def test_all_rows_and_tokens_go_in_as_they_are(expect, batch, num_tokens):
    """Everything at once, as a forward pass would: one token, none, several rows of several. Nothing is rounded."""
    config = shape_of(3, 3, 2)
    layers = received(config, batch, num_tokens, [2, 1, 0], seed=3, dtype=torch.float64)
    expect(told, config, layers).equals(in_order(layers, num_tokens), rel=0, abs=0)


def held(config, layers, room):
    """Length, and all keys and values that a cache of level 02 holds after loading, and after one token more."""
    cache = KVCache(config, len(layers[0][0]), room)
    load_cache(cache, config, layers)
    more = torch.ones(len(layers[0][0]), config.n_kv_heads, 1, config.head_dim)
    return cache.length, [tuple(x.clone() for x in cache.update(i, more, -more)) for i in range(config.n_layers)]


@pytest.mark.kata("level15.handoff.load_cache")
def test_decoding_goes_on_behind_it(expect):
    """Level 02's cache, with exactly one token's room left, and with more: what came stands first, then the new one."""
    config = shape_of(3)
    layers = received(config, 2, 4, [1, 2, 0], seed=4)
    more = torch.ones(2, 2, 1, 4)
    right = [(torch.cat([k, more], 2), torch.cat([v, -more], 2)) for k, v in (layers[i] for i in range(3))]
    for room in (5, 9):
        expect(held, config, layers, room).equals((4, right), rel=0, abs=0)


def only_a_mapping(config, layers):
    return told(config, MappingProxyType(layers))


def kept(config, layers):
    """The layers that were handed over, after loading: the order of arrival included."""
    load_cache(Recorder(config.n_layers), config, layers)
    return list(layers.items())


@pytest.mark.kata("level15.handoff.load_cache")
def test_the_mapping_is_only_read(expect):
    """It may be needed for another receiver, and need not be a dict."""
    config = shape_of(2)
    layers = received(config, 1, 2, [1, 0], seed=5)
    expect(only_a_mapping, config, layers).equals(in_order(layers, 2), rel=0, abs=0)
    before = list(layers.items())
    expect(kept, config, layers).equals(before, rel=0, abs=0)


def refused(config, layers, held_before=0):
    """How many updates there were when it was refused, or "no"."""
    cache = Recorder(config.n_layers, held_before)
    try:
        load_cache(cache, config, layers)
    except ValueError:
        return len(cache.told)
    return "no"


@pytest.mark.kata("level15.handoff.load_cache")
def test_what_does_not_fit_is_refused_before_anything_is_written(expect):
    """Other layers, other heads, other tokens, a cache in use: torch would broadcast one head over two, silently. Half
    of a cache is worse than none."""
    config = shape_of(2)
    good = received(config, 1, 3, [0, 1])
    (k, v), few = good[1], [(k[:, :1], v[:, :1]) for k, v in good.values()]
    expect(refused, config, good).equals("no")
    expect(refused, config, good, 3).equals(0)
    for layers in ({0: good[0]}, {1: good[0], 2: good[1]}, {**good, 2: (k, v)}, {}, dict(enumerate(few))):
        expect(refused, config, layers).equals(0)
    for pair in ((k[:, :, :2], v[:, :, :2]), (k, v[..., :2]), (k[:, :1], v), (k.expand(2, -1, -1, -1), v)):
        expect(refused, config, {0: good[0], 1: pair}).equals(0)

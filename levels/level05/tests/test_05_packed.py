"""Judges packed.py by loops in Python, by torch's SDPA over the whole row, and by level 00's forward on each sequence.

Sequences have different lengths, pasts and caches (level 01's, level 02's, one written here), there are 6 query heads
to 3 KV heads, and the tokens of one row are more than the model's max_seq_len. A helper `… alone` runs without a batch.
"""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from dojo.models import Config, random_params
from level00.layers import attention, linear
from level00.transformer import forward
from level01.simple_cache import SimpleCache
from level02.cache import KVCache
from level02.window import RingCache
from level05.packed import PackedCache, pack, packed_attention, packed_step

# 6 query heads of 4 features are not d_model wide
MODEL = Config(2, 20, 6, 3, 4, 28, 31, max_seq_len=16, tie_embeddings=False)
PARAMS = {name: w.double() for name, w in random_params(MODEL, seed=0).items()}
TIED = replace(MODEL, tie_embeddings=True)
TIED_PARAMS = {name: w.double() for name, w in random_params(TIED, seed=1).items()}

# ---- pack


def token_by_token(chunks, starts):
    """Oracle: every token is looked at by itself."""
    ids, positions, last = [], [], []
    for chunk, start in zip(chunks, starts):
        for i, token in enumerate(chunk):
            ids.append(token)
            positions.append(start + i)
        last.append(len(ids) - 1)
    return torch.tensor([ids]), torch.tensor(positions), last


@pytest.mark.kata("level05.packed.pack")
def test_chunks_stand_side_by_side(expect):
    """The docstring's example: a prompt's first two tokens and a decode behind five. No padding: 3 tokens cost 3."""
    expect(pack, [[7, 8], [9]], [0, 5]).equals((torch.tensor([[7, 8, 9]]), torch.tensor([0, 1, 5]), [1, 2]))


@pytest.mark.kata("level05.packed.pack")
@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_each_token_has_the_position_of_its_own_sequence(expect, seed, n):
    """Numbered along the row, or from 0, a token is rotated to a place where it does not stand. Oracle: a loop."""
    draw = torch.Generator().manual_seed(10 * n + seed)
    sizes, starts = (torch.randint(low, 9, (n,), generator=draw).tolist() for low in (1, 0))
    chunks = [torch.randint(0, 99, (size,), generator=draw).tolist() for size in sizes]
    expect(pack, chunks, starts).equals(token_by_token(chunks, starts))


@pytest.mark.kata("level05.packed.pack")
@pytest.mark.parametrize(
    "chunks, starts",
    [
        ([[5]], [0]),
        ([[5]], [7]),
        ([[5, 6, 7]], [4]),
        ([[1], [1], [1]], [9, 2, 4]),
        ([[1], [2, 3, 4, 5], [6]], [3, 3, 3]),
        ([[4, 4], [4, 4]], [0, 0]),
        ([[0], [0, 0]], [0, 1]),
    ],
    ids=["one token", "one decode", "one chunk", "decodes", "equal starts", "equal prompts", "id 0"],
)
def test_prompts_and_decodes_in_any_mix(expect, chunks, starts):
    """A step has whatever the plan says: decodes alone, one prompt alone, both. Two users may ask the same."""
    expect(pack, chunks, starts).equals(token_by_token(chunks, starts))


@pytest.mark.kata("level05.packed.pack")
def test_ids_and_positions_are_whole_numbers_of_64_bits(expect):
    """They index tables; a float32 on the way would make 16,777,217 the number before it."""
    chunks, starts = [[2**24 + 1, 2**40 + 1], [2**53 + 1]], [2**24, 2**53]
    expect(pack, chunks, starts).equals(token_by_token(chunks, starts))


@pytest.mark.kata("level05.packed.pack")
def test_chunks_may_be_any_sequences(expect):
    """A scheduler may cut lists, and keep what is left as tuples or ranges."""
    right = token_by_token([[1, 2], [3, 4, 5], [6]], [4, 0, 1])
    expect(pack, ((1, 2), (3, 4, 5), (6,)), (4, 0, 1)).equals(right)
    expect(pack, [range(1, 3), [3, 4, 5], (6,)], [4, 0, 1]).equals(right)


@pytest.mark.kata("level05.packed.pack")
def test_what_is_no_row_is_refused(expect):
    """An empty chunk has no last token; a missing start would put a sequence where another one stands."""
    expect(pack, [[7]], [5]).equals((torch.tensor([[7]]), torch.tensor([5]), [0]))
    for chunks, starts in (([], []), ([[]], [0]), ([[7], []], [0, 3]), ([[7]], []), ([[7], [8]], [3]), ([[7]], [0, 1])):
        expect(pack, chunks, starts).raises(ValueError)


# ---- PackedCache

FLAT = Config(1, 20, 6, 3, 4, 28, 31)


def kv(layer, *tokens, side=0):
    """Keys (side 0) or values (side 1), (1, 3, n, 4): token, layer, head and feature can be read off each number."""
    t = torch.tensor(tokens, dtype=torch.float32).view(1, 1, -1, 1)
    head, feature = torch.arange(3.0).view(3, 1, 1), torch.arange(4.0)
    return 100 * t + 50 * layer + 10 * head + 2 * feature + side + 1


def both(layer, *tokens):
    return kv(layer, *tokens), kv(layer, *tokens, side=1)


def holding(cache, *tokens, n_layers=1):
    for layer in range(n_layers):
        cache.update(layer, *both(layer, *tokens))
    return cache


def lists(held):
    """What an update returned, as two lists, copied: views change with the buffer."""
    keys, values = held
    return [k.clone() for k in keys], [v.clone() for v in values]


def tokens_of(layer, held):
    """The same, each tensor that is as `kv` makes it as the list of its tokens, which is easier to read."""

    def tokens(x, side):
        found = [round(float(t - 50 * layer - side - 1) / 100) for t in x[:, :1, :, :1].flatten()]
        return found if x.shape[2:] == (len(found), 4) and x.equal(kv(layer, *found, side=side)) else x

    keys, values = lists(held)
    return [tokens(k, 0) for k in keys], [tokens(v, 1) for v in values]


def twice(*sequences):
    """Of keys and of values."""
    return [list(tokens) for tokens in sequences], [list(tokens) for tokens in sequences]


@pytest.mark.kata("level05.packed.PackedCache")
def test_each_part_of_the_row_goes_to_its_own_cache(expect):
    """The docstring's example: 2 tokens of a new sequence, and the 6th of another. Each gets all of its own back."""

    def one_row(cls):
        caches = [SimpleCache(1), holding(SimpleCache(1), 1, 2, 3, 4, 5)]
        return tokens_of(0, cls(caches, [2, 1]).update(0, *both(0, 7, 8, 9))), [cache.length for cache in caches]

    expect.story(one_row, PackedCache).equals((twice((7, 8), (1, 2, 3, 4, 5, 9)), [2, 6]))


@pytest.mark.kata("level05.packed.PackedCache")
@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 2), (1, 4, 2), (4, 1, 1), (6,)], ids=str)
def test_the_sizes_say_where_the_row_is_cut(expect, sizes):
    """One token each in a step of decodes, and any mix else. Oracle: the numbers of the tokens, counted off."""

    def one_row(cls):
        caches = [SimpleCache(1) for _ in sizes]
        held = tokens_of(0, cls(caches, sizes).update(0, *both(0, *range(sum(sizes)))))
        return held, [cache.length for cache in caches]

    tokens = iter(range(sum(sizes)))
    parts = [[next(tokens) for _ in range(size)] for size in sizes]
    expect.story(one_row, PackedCache).equals((twice(*parts), list(sizes)))


@pytest.mark.kata("level05.packed.PackedCache")
def test_layers_are_kept_apart(expect):
    """Every layer of a pass splits the row in the same way. The lengths move with the last one, as in any cache."""

    def one_pass(cls):
        caches, seen = [holding(SimpleCache(3), 1, n_layers=3), SimpleCache(3)], []
        packed = cls(caches, [1, 2])
        for layer in range(3):
            seen.append(tokens_of(layer, packed.update(layer, *both(layer, 4, 5, 6))))
            seen.append([cache.length for cache in caches])
        return seen

    right = []
    for layer in range(3):
        right += [twice((1, 4), (5, 6)), [1, 0] if layer < 2 else [2, 2]]
    expect.story(one_pass, PackedCache).equals(right)


@pytest.mark.kata("level05.packed.PackedCache")
def test_sequences_come_and_go_between_passes(expect):
    """Each step has another set of sequences, in another order; what a sequence holds goes with its own cache."""

    def three_passes(cls):
        a, b, c = (SimpleCache(1) for _ in "abc")
        seen = [tokens_of(0, cls([a, b], [2, 1]).update(0, *both(0, 1, 2, 3)))]
        seen.append(tokens_of(0, cls([c, a], [1, 1]).update(0, *both(0, 4, 5))))
        seen.append(tokens_of(0, cls([b, c], [3, 2]).update(0, *both(0, 6, 7, 8, 9, 10))))
        return seen, [cache.length for cache in (a, b, c)]

    seen = [twice((1, 2), (3,)), twice((4,), (1, 2, 5)), twice((3, 6, 7, 8), (4, 9, 10))]
    expect.story(three_passes, PackedCache).equals((seen, [3, 4, 3]))


def nan_filled(cls, *args):
    """A cache whose unwritten memory holds NaN, as fresh or recycled memory may at any time."""
    was = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        return cls(*args)
    finally:
        torch.set_deterministic_debug_mode(was)


class Falsy(SimpleCache):
    """Empty it is falsy, as any container is."""

    def __len__(self):
        return self.length


def five_kinds():
    """Two rings, one of them with empty slots, a bfloat16 one, a room that is not full, one that is falsy."""
    rings = [holding(RingCache(FLAT, 1, 3), 1, 2, 3, 4), holding(RingCache(FLAT, 1, 4), 5)]
    half, room = holding(KVCache(FLAT, 1, 4, torch.bfloat16), 6), nan_filled(KVCache, FLAT, 1, 9)
    return [*rings, half, room, Falsy(1)]


@pytest.mark.kata("level05.packed.PackedCache")
def test_caches_of_any_kind_say_what_they_hold(expect):
    """What a cache returns is passed on as it is: a ring its slots, a bfloat16 one its own type, a room no unwritten
    slot. The pool of level 06 comes in here, too. Oracle: the same caches, each updated by itself."""
    parts = [(11,), (12,), (13, 14), (15, 16), (17,)]

    def one_row(cls):
        return lists(cls(five_kinds(), [1, 1, 2, 2, 1]).update(0, *both(0, *range(11, 18))))

    alone = [cache.update(0, *both(0, *tokens)) for cache, tokens in zip(five_kinds(), parts)]
    assert alone[0][0].equal(kv(0, 4, 2, 3, 11)) and [k.shape[2] for k, _ in alone] == [4, 5, 3, 2, 1]
    expect.story(one_row, PackedCache).equals(lists(zip(*alone)))


@pytest.mark.kata("level05.packed.PackedCache")
def test_memory_may_lie_in_any_order(expect):
    """In a model k and v are transposed views of (1, T, G · D), and caches come as a tuple."""

    def strided(cls):
        k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in both(0, 1, 2, 3, 4))
        return tokens_of(0, cls((SimpleCache(1), nan_filled(KVCache, FLAT, 1, 3)), (1, 3)).update(0, k, v))

    expect.story(strided, PackedCache).equals(twice((1,), (2, 3, 4)))


@pytest.mark.kata("level05.packed.PackedCache")
def test_each_cache_needs_a_size(expect):
    """With one size too few the last sequence would be left out in silence."""

    def odd(cls):
        seen = [tokens_of(0, cls([SimpleCache(1)], [1]).update(0, *both(0, 1)))]
        for sizes in ([], [1], [1, 1, 1]):
            try:
                cls([SimpleCache(1), SimpleCache(1)], sizes)
                seen.append("accepted")
            except ValueError:
                seen.append("ValueError")
        return seen

    expect.story(odd, PackedCache).equals([twice([1]), *["ValueError"] * 3])


# ---- packed_attention


def drawn(sizes, pasts, heads=6, groups=3, width=4, seed=0):
    """(q of the row, keys, values of each sequence), float64."""
    draw = torch.Generator().manual_seed(seed)
    q = torch.randn(1, heads, sum(sizes), width, generator=draw).double()
    kvs = [torch.randn(2, 1, groups, past + n, width, generator=draw).double() for past, n in zip(pasts, sizes)]
    return q, [k for k, _ in kvs], [v for _, v in kvs]


def one_big_mask(q, keys, values, sizes):
    """Oracle: SDPA of the whole row over all keys of all sequences, under a block-diagonal causal mask."""
    q_owner, q_place, kv_owner, kv_place = [], [], [], []
    for owner, (n, k) in enumerate(zip(sizes, keys)):
        held = k.shape[2]
        q_owner += [owner] * n
        q_place += range(held - n, held)
        kv_owner += [owner] * held
        kv_place += range(held)
    column, row = (lambda x: torch.tensor(x).unsqueeze(1)), torch.tensor
    mask = (column(q_owner) == row(kv_owner)) & (row(kv_place) <= column(q_place))
    k, v = (torch.cat(x, 2).repeat_interleave(q.shape[1] // x[0].shape[1], 1) for x in (keys, values))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


MIXES = [
    ((1, 1, 1), (5, 1, 3)),
    ((3, 4), (0, 0)),
    ((1, 3), (4, 0)),
    ((3, 1), (0, 4)),
    ((2, 3, 1, 4), (6, 2, 0, 1)),
    ((2, 2), (3, 3)),
    ((1, 2), (13, 9)),
    ((5,), (2,)),
    ((1,), (0,)),
]
NAMES = ["decodes", "prompts", "decode and prompt", "prompt and decode", "chunks", "equal", "long", "one", "one token"]


@pytest.mark.kata("level05.packed.packed_attention")
@pytest.mark.parametrize("sizes, pasts", MIXES, ids=NAMES)
def test_each_sequence_attends_to_its_own_past_and_to_nothing_else(expect, sizes, pasts):
    """Another user's tokens are no context: seen, they would be a leak. Oracle: SDPA with a block-diagonal mask."""
    q, keys, values = drawn(sizes, pasts)
    right = one_big_mask(q, keys, values, sizes)
    expect(packed_attention, q, keys, values, "causal", sizes).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level05.packed.packed_attention")
def test_a_decode_sees_all_of_its_own_and_none_of_the_other(expect):
    """The docstring's example, with equal scores: each query gets the mean of the values that it may see.

    Values of sequence 0 are 1 and 3, of sequence 1 10, 20 and 60: means 1, then 2, then 30.
    """
    q, keys = torch.zeros(1, 1, 3, 2), [torch.zeros(1, 1, n, 2) for n in (2, 3)]
    values = [torch.tensor(x).view(1, 1, -1, 1).expand(1, 1, -1, 2) for x in ([1.0, 3], [10.0, 20, 60])]
    right = torch.tensor([1.0, 2, 30]).view(1, 1, 3, 1).expand(1, 1, 3, 2)
    expect(packed_attention, q, keys, values, "causal", [2, 1]).equals(right)


@pytest.mark.kata("level05.packed.packed_attention")
@pytest.mark.parametrize("heads, groups", [(6, 1), (6, 6), (4, 2)])
def test_query_heads_share_kv_heads_as_in_any_pass(expect, heads, groups):
    """Packing changes who stands in the row, not the heads. Oracle: SDPA with the KV heads repeated."""
    q, keys, values = drawn((2, 1, 3), (1, 4, 0), heads, groups, width=6)
    right = one_big_mask(q, keys, values, (2, 1, 3))
    expect(packed_attention, q, keys, values, "causal", (2, 1, 3)).equals(right, rel=1e-4, abs=1e-5)


@pytest.mark.kata("level05.packed.packed_attention")
def test_the_result_has_the_type_of_the_queries(expect):
    """A bfloat16 model stays in bfloat16. Tolerance: a rounding to its 8 bits."""
    q, keys, values = drawn((2, 1), (1, 3))
    right = one_big_mask(q, keys, values, (2, 1)).bfloat16()
    rounded = q.bfloat16(), [k.bfloat16() for k in keys], [v.bfloat16() for v in values]
    expect(packed_attention, *rounded, "causal", [2, 1]).equals(right, rel=3e-2, abs=3e-2)


def what_attend_gets(sizes, pasts):
    """The calls of `attend` in the order of their first query, and what comes of its results, 2 q."""
    q, keys, values = drawn(sizes, pasts, seed=3)
    calls = []

    def twice(own_q, own_k, own_v, mask):
        calls.append((float(own_q[0, 0, 0, 0]), own_q.clone(), own_k.clone(), own_v.clone(), mask))
        return 2 * own_q

    out = packed_attention(q, keys, values, "causal", sizes, twice)
    places = {float(x): i for i, x in enumerate(q[0, 0, :, 0])}
    return [call[1:] for call in sorted(calls, key=lambda call: places[call[0]])], out


@pytest.mark.kata("level05.packed.packed_attention")
@pytest.mark.parametrize("sizes, pasts", MIXES, ids=NAMES)
def test_attend_gets_one_sequence_at_a_time(expect, sizes, pasts):
    """A tiled or paged attention (levels 06 and 07) knows nothing of batches: its own queries, keys, values, and
    "causal"."""
    q, keys, values = drawn(sizes, pasts, seed=3)
    right = [(*each, "causal") for each in zip(q.split(sizes, 2), keys, values)]
    expect(what_attend_gets, sizes, pasts).equals((right, 2 * q))


# ---- packed_step


def alone(tokens, params=PARAMS, config=MODEL, **seams):
    """Oracle: the logits of every token (n, vocab), of a pass over one sequence without a cache."""
    return forward(params, config, torch.tensor([tokens]), **seams)[0]


def past(tokens, cache, params=PARAMS, config=MODEL, **seams):
    if tokens:
        forward(params, config, torch.tensor([tokens]), cache, **seams)
    return cache


def stepped(pasts, chunks, params=PARAMS, config=MODEL, **how):
    """One packed_step over sequences with these pasts: its logits, and the lengths of the caches."""
    seams = {"linear": how["linear"]} if "linear" in how else {}
    caches = [past(tokens, SimpleCache(config.n_layers), params, config, **seams) for tokens in pasts]
    logits = packed_step(params, config, caches, chunks, **how)
    return logits, [cache.length for cache in caches]


def texts(*lengths, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 31, (n,), generator=draw).tolist() for n in lengths]


@pytest.mark.kata("level05.packed.packed_step")
def test_a_decode_and_a_prompt_in_one_pass(expect):
    """The docstring's example: 4 tokens run, each row is what that sequence gets alone, and both caches have grown."""
    right = torch.stack([alone([3, 14, 15, 9])[-1], alone([2, 6, 5])[-1]])
    expect(stepped, [[3, 14, 15], []], [[9], [2, 6, 5]]).equals((right, [4, 3]), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level05.packed.packed_step")
@pytest.mark.parametrize("all_rows", [False, True], ids=["last rows", "all rows"])
@pytest.mark.parametrize("sizes, lengths", MIXES, ids=NAMES)
def test_each_row_is_what_its_sequence_gets_alone(expect, sizes, lengths, all_rows):
    """Who else is in the batch must not show. Oracle: level 00's forward over each whole sequence, without a cache."""
    pasts, chunks = texts(*lengths, seed=1), texts(*sizes, seed=2)
    rows = [alone(old + new)[-len(new) :] for old, new in zip(pasts, chunks)]
    right = torch.cat(rows) if all_rows else torch.stack([row[-1] for row in rows])
    ends = [len(old) + len(new) for old, new in zip(pasts, chunks)]
    expect(stepped, pasts, chunks, all_rows=all_rows).equals((right, ends), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level05.packed.packed_step")
def test_the_row_may_be_longer_than_the_model_s_context(expect):
    """max_seq_len bounds a sequence, here 16 tokens, and not a step: 4 prompts of 12 are 48 tokens, 1 is its 16th."""
    pasts, chunks = [[], [], texts(15)[0], [], []], texts(12, 12, 1, 12, 12, seed=4)
    right = torch.stack([alone(old + new)[-1] for old, new in zip(pasts, chunks)])
    expect(stepped, pasts, chunks).equals((right, [12, 12, 16, 12, 12]), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level05.packed.packed_step")
@pytest.mark.parametrize("pasts", [[[], []], [[4, 5], [6]]], ids=["two prompts", "two pasts"])
def test_equal_chunks_belong_to_two_sequences(expect, pasts):
    """Two users may say the same, each in a conversation of their own: both caches grow, and nothing is shared."""
    right = torch.stack([alone([*old, 3, 14, 15])[-1] for old in pasts])
    lengths = [len(old) + 3 for old in pasts]
    expect(stepped, pasts, [[3, 14, 15], [3, 14, 15]]).equals((right, lengths), rel=1e-4, abs=1e-4)


def in_steps(sequences, plans, kinds="sssss"):
    """Logits of every token, as a step for each plan gives them: {sequence: tokens of it in that step}."""
    made = {"s": lambda: SimpleCache(2), "k": lambda: nan_filled(KVCache, MODEL, 1, 16, torch.float64)}
    caches, done = [made[kind]() for kind in kinds], [0] * len(sequences)
    seen = [[] for _ in sequences]
    for plan in plans:
        chunks = [sequences[i][done[i] : done[i] + n] for i, n in plan.items()]
        logits = packed_step(PARAMS, MODEL, [caches[i] for i in plan], chunks, all_rows=True)
        for (i, n), rows in zip(plan.items(), logits.split(list(plan.values()))):
            seen[i].append(rows)
            done[i] += n
    return [torch.cat(rows) for rows in seen]


PLANS = {
    "one at a time": [{0: 6}, {1: 9}, {2: 4}],
    "all at once": [{2: 4, 0: 6, 1: 9}],
    "token by token": [{0: 1, 1: 1, 2: 1}] * 4 + [{1: 1, 0: 1}] * 2 + [{1: 1}] * 3,
    "in chunks": [{0: 4, 1: 2}, {1: 3, 0: 1, 2: 3}, {2: 1, 1: 4}, {0: 1}],
}


@pytest.mark.kata("level05.packed.packed_step")
@pytest.mark.parametrize("kinds", ["sss", "kkk", "sks"], ids=["level 01's caches", "level 02's", "both"])
@pytest.mark.parametrize("plan", PLANS)
def test_the_way_in_which_tokens_are_packed_does_not_show(expect, plan, kinds):
    """Chunked or whole, early or late, first or last in the row. Unwritten slots hold NaN. Oracle: each text alone."""
    sequences = texts(6, 9, 4, seed=5)
    expect(in_steps, sequences, PLANS[plan], kinds).equals([alone(text) for text in sequences], rel=1e-4, abs=1e-4)


def runs(pasts, chunks, all_rows=False, params=PARAMS, config=MODEL):
    """For each matrix: the numbers of rows that it is used with. The embedding is called so where it is the head."""
    used, caches = {}, [past(tokens, SimpleCache(2), params, config) for tokens in pasts]
    names = {id(w): name for name, w in params.items()}

    def noted(x, weight):
        used.setdefault(names.get(id(weight), "another matrix"), []).append(x.numel() // x.shape[-1])
        return linear(x, weight)

    packed_step(params, config, caches, chunks, all_rows=all_rows, linear=noted)
    return used


def read_once(tokens, rows, head="lm_head.weight"):
    return {name: [tokens] for name in PARAMS if "_proj" in name} | {head: [rows]}


@pytest.mark.kata("level05.packed.packed_step")
@pytest.mark.parametrize("all_rows", [False, True], ids=["last rows", "all rows"])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_every_matrix_is_used_once_whatever_the_number_of_sequences(expect, n, all_rows):
    """This is what batching is for: N sequences, one reading of the weights. A loop gives the same logits, N times
    dearer; padding runs more than these T tokens. Only what is asked for reaches the vocabulary: a prompt of 4000
    tokens times 128,256 is a large matrix for nothing."""
    pasts, chunks = texts(*[2 + i % 9 for i in range(n)], seed=6), texts(*[1 + i % 3 for i in range(n)], seed=7)
    tokens = sum(map(len, chunks))
    expect(runs, pasts, chunks, all_rows).equals(read_once(tokens, tokens if all_rows else n))


@pytest.mark.kata("level05.packed.packed_step")
def test_a_tied_head_is_the_embedding(expect):
    """SmolLM2's: the matrix of the embedding, used once as a matrix. Oracle: level 00's forward."""
    pasts, chunks = texts(3, 0, 2, seed=8), texts(1, 4, 2, seed=9)
    right = [alone(old + new, TIED_PARAMS, TIED)[-1] for old, new in zip(pasts, chunks)]
    expect(stepped, pasts, chunks, TIED_PARAMS, TIED).equals((torch.stack(right), [4, 4, 4]), rel=1e-4, abs=1e-4)
    head = "model.embed_tokens.weight"
    expect(runs, pasts, chunks, params=TIED_PARAMS, config=TIED).equals(read_once(7, 3, head))


def sharper(q, k, v, mask):
    """An attention of its own, which knows the mask by its name alone, as a tiled one does."""
    if mask != "causal" or q.shape[0] != 1:
        raise TypeError("one sequence, causal: nothing else is written here")
    return attention(3 * q, k, v, mask)


@pytest.mark.kata("level05.packed.packed_step")
@pytest.mark.parametrize("all_rows", [False, True], ids=["last rows", "all rows"])
def test_the_attention_of_the_caller_is_used(expect, all_rows):
    """Levels 06 and 07 bring their own. Here one with sharper scores. Oracle: level 00's forward with the same."""
    chunks = texts(3, 5, 1, seed=10)
    rows = [alone(text, attend=sharper) for text in chunks]
    right = torch.cat(rows) if all_rows else torch.stack([row[-1] for row in rows])
    expect(stepped, [[]] * 3, chunks, attend=sharper, all_rows=all_rows).equals((right, [3, 5, 1]), rel=1e-4, abs=1e-4)


def eighths(x, weight):
    """A matrix that is kept as whole eighths."""
    return x @ (weight.whole.double() / 8).T


@pytest.mark.kata("level05.packed.packed_step")
def test_the_linear_of_the_caller_reads_every_matrix(expect):
    """A parameter may be what only the caller's `linear` can read, as level 06's quantized ones are."""
    whole = {name: (8 * w).round() for name, w in PARAMS.items() if w.dim() == 2 and "embed" not in name}
    packed = PARAMS | {name: SimpleNamespace(whole=w) for name, w in whole.items()}
    plain = PARAMS | {name: w / 8 for name, w in whole.items()}
    pasts, chunks = texts(3, 0, 2, seed=11), texts(1, 4, 2, seed=12)
    right = torch.stack([alone(old + new, plain)[-1] for old, new in zip(pasts, chunks)])
    expect(stepped, pasts, chunks, packed, linear=eighths).equals((right, [4, 4, 4]), rel=1e-4, abs=1e-4)


@pytest.mark.kata("level05.packed.packed_step")
def test_a_step_takes_any_sequences(expect):
    """As in `pack`: tuples and ranges are token ids as well."""
    right = torch.stack([alone([1, 2, 3])[-1], alone([9, 4])[-1]]), [3, 2]
    expect(stepped, [[], [9]], (range(1, 4), (4,))).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level05.packed.packed_step")
def test_a_chunk_without_a_cache_is_refused(expect):
    """And a cache without a chunk, an empty chunk, and a step with nothing to do: nobody's tokens are dropped."""
    expect(stepped, [[]], [[7]]).equals((alone([7]), [1]), rel=1e-4, abs=1e-4)
    for pasts, chunks in (([[]], [[7], [8]]), ([[], []], [[7]]), ([], []), ([[]], [[]]), ([[], [3]], [[7], []])):
        expect(stepped, pasts, chunks).raises(ValueError)

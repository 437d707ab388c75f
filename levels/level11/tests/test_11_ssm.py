"""Judges ssm.py: linear attention by the sum that it is, the state space and the delta rule element by element.

Oracles: `attention` adds up every pair of tokens with the decay between them, and knows no state; `space` is the
recurrence in Python's floats; `delta` is a matrix; and transformers' logits of a tiny Mamba-2, stored in a file.
"""

import json
import math
from functools import cache
from math import exp, fsum
from pathlib import Path

import pytest
import torch

from dojo import cost
from level11.families import random_weights
from level11.mamba import MambaConfig, MambaState, mamba2
from level11.ssm import delta_step, linear_attention_chunked, linear_attention_recurrent, selective_scan

DOUBLE = {"rel": 1e-9, "abs": 1e-9}  # float64: sums of a dozen terms of size 1


def row(*numbers):
    """(1, 1, T, 1): one head, one feature."""
    return torch.tensor(numbers, dtype=torch.float64).view(1, 1, -1, 1)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def attention(q, k, v, log_decay, state=None):
    """Oracle: token t gets (q_t · k_s) v_s of every s up to t, times the decays of the tokens after s, up to t."""
    batch, heads, tokens, features = k.shape
    out, last = torch.zeros_like(v), v.new_zeros(batch, heads, features, v.shape[-1])
    for b in range(batch):
        for h in range(heads):
            logs = log_decay[b, h].tolist()
            for s in range(tokens):
                for t in range(s, tokens):
                    out[b, h, t] += exp(fsum(logs[s + 1 : t + 1])) * (q[b, h, t] @ k[b, h, s]) * v[b, h, s]
                last[b, h] += exp(fsum(logs[s + 1 :])) * torch.outer(k[b, h, s], v[b, h, s])
            if state is not None:
                for t in range(tokens):
                    out[b, h, t] += exp(fsum(logs[: t + 1])) * (q[b, h, t] @ state[b, h])
                last[b, h] += exp(fsum(logs)) * state[b, h]
    return out, last


def inputs(batch, heads, tokens, features, values, seed=0):
    """q, k, v and log_decay: sizes that all differ, and decays from nearly 1 to 0.05."""
    shapes = [(batch, heads, tokens, n) for n in (features, features, values)]
    q, k, v = (draw(*shape, seed=seed + i) for i, shape in enumerate(shapes))
    return q, k, v, -draw(batch, heads, tokens, seed=seed + 3).abs()


def cut(tensors, *where):
    """These tokens of q, k, v and log_decay, which are on axis 2 of each."""
    return [x[:, :, slice(*where)] for x in tensors]


# ---- linear attention


def frugal(tokens, chunk):
    """What the counts say of `tokens` tokens in chunks, and of as many in a single chunk."""
    heads, features, values = 2, 3, 4
    tensors = inputs(1, heads, tokens, features, values)
    kinds = ("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "_scaled_dot_product_flash_attention_for_cpu")
    many = cost.count(linear_attention_chunked, *tensors, chunk)
    single = cost.count(linear_attention_chunked, *tensors, tokens)
    flops = 2 * heads * tokens * (chunk * (features + values) + 2 * features * values)  # of the four products
    return {
        "at most four products a chunk": sum(many.calls[kind] for kind in kinds) <= 4 * tokens // chunk,
        "no loop over tokens": sum(single.calls.values()) < tokens,
        "no tensor of tokens x tokens": many.largest.elements < tokens * tokens * heads / 5,
        "FLOPs as of four products": many.flops <= 4 * flops,
    }


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def test_four_products_a_chunk(expect):
    """Why chunks are there: a processor multiplies matrices, and steps keep it waiting. All pairs of tokens at once
    are four products too, but then the cost grows with the square of the text. Margins of 4 and more on both sides."""
    claims = ("at most four products a chunk", "no loop over tokens", "no tensor of tokens x tokens")
    expect(frugal, 192, 8).equals(dict.fromkeys((*claims, "FLOPs as of four products"), True))


HALF = [math.log(0.5)] * 3


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("chunk", [0, 1, 2, 3, 64], ids=lambda n: f"chunk {n}" if n else "recurrent")
def test_the_example(expect, chunk):
    """By hand: 1, then 1/2 + 2, then 2.5/2 + 4; from 8 on, 8/2 + 1. Chunks are cut where the engine likes."""
    program, sizes = (linear_attention_chunked, [chunk]) if chunk else (linear_attention_recurrent, [])
    ones, decay = row(1, 1, 1), row(*HALF).squeeze(-1)
    expect(program, ones, ones, row(1, 2, 4), decay, *sizes).equals((row(1, 2.5, 5.25), row(5.25)), **DOUBLE)
    one = row(1), row(1), row(1), decay[:, :, :1]
    expect(program, *one, *sizes, row(8)).equals((row(5), row(5)), **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def test_a_token_is_added_after_the_decay_and_read_after_that(expect):
    """By hand, one token: what it decays is the past, it finds itself, q and k have their places, and nothing is
    scaled. k = (1, 10), v = (1, 2, 3), q = (5, 7): 75 v, and of a state of ones half of 5 + 7."""
    q, k, v = (torch.tensor(x, dtype=torch.float64).view(1, 1, 1, -1) for x in ([5, 7], [1, 10], [1, 2, 3]))
    decay, state = row(HALF[0]).squeeze(-1), torch.ones(1, 1, 2, 3, dtype=torch.float64)
    written = torch.tensor([[1.0, 2, 3], [10, 20, 30]], dtype=torch.float64).view(1, 1, 2, 3)
    for program, sizes in ((linear_attention_recurrent, []), (linear_attention_chunked, [2])):
        expect(program, q, k, v, decay, *sizes).equals((75 * v, written), **DOUBLE)
        expect(program, q, k, v, decay, *sizes, state).equals((75 * v + 6, written + 0.5), **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("shape", [(1, 1, 5, 2, 3), (2, 3, 7, 4, 5), (3, 2, 6, 5, 4), (1, 2, 4, 3, 3)], ids=str)
def test_the_steps_add_up_every_pair(expect, shape):
    """Oracle: the sum over pairs of tokens, which knows no state. A state's error stays for every later token."""
    tensors, state = inputs(*shape), draw(shape[0], shape[1], *shape[3:], seed=9)
    expect(linear_attention_recurrent, *tensors).equals(attention(*tensors), **DOUBLE)
    expect(linear_attention_recurrent, *tensors, state).equals(attention(*tensors, state), **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("chunk", [*range(1, 10), 1000])
def test_any_chunk_gives_the_same(expect, chunk):
    """Oracle: as above. 7 tokens: chunks that divide them, a last one that is shorter, and one for all."""
    tensors, state = inputs(2, 3, 7, 4, 5), draw(2, 3, 4, 5, seed=9)
    expect(linear_attention_chunked, *tensors, chunk).equals(attention(*tensors), **DOUBLE)
    expect(linear_attention_chunked, *tensors, chunk, state).equals(attention(*tensors, state), **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_the_state_goes_on_where_the_prompt_ended(expect, chunk):
    """A prompt in two passes, then tokens one at a time from the state alone: the same as all at once."""
    tensors = inputs(1, 3, 9, 2, 4)

    def in_passes(tensors):
        first, state = linear_attention_chunked(*cut(tensors, 0, 5), chunk)
        second, state = linear_attention_chunked(*cut(tensors, 5, 7), chunk, state)
        seventh, state = linear_attention_recurrent(*cut(tensors, 7, 8), state)
        last, state = linear_attention_chunked(*cut(tensors, 8, 9), chunk, state)
        return torch.cat([first, second, seventh, last], 2), state

    expect(in_passes, tensors).equals(attention(*tensors), **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("chunk", [0, 1, 2, 3, 6], ids=lambda n: f"chunk {n}" if n else "recurrent")
def test_what_is_forgotten_is_not_a_number_too_large(expect, chunk, dtype):
    """A head that forgets at once: exp(-1000) is 0 in any float, and a quotient of two such decays is NaN. Each
    token keeps itself, and nothing of a state of 1e9: out is (q · k) v, and the state is the last token's."""
    q, k, v, _ = (x.to(dtype) for x in inputs(1, 2, 6, 3, 4))
    decay, state = torch.full((1, 2, 6), -1000.0, dtype=dtype), torch.full((1, 2, 3, 4), 1e9, dtype=dtype)
    program, sizes = (linear_attention_chunked, [chunk]) if chunk else (linear_attention_recurrent, [])
    right = (q * k).sum(-1, keepdim=True) * v, k[:, :, -1, :, None] * v[:, :, -1, None, :]
    expect(program, q, k, v, decay, *sizes, state).equals(right, rel=1e-5, abs=1e-5)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("chunk", [2, 3, 8])
def test_after_a_reset_the_memory_is_as_good_as_new(expect, chunk):
    """One token of the text wipes the state, as between documents; what follows is remembered. In
    float32 -50, twice, is as good as a reset: its exp is there, but one over the product of both is not."""
    tensors = inputs(1, 1, 8, 3, 4)
    decay = torch.tensor([0.0, -0.5, -800, 0, -0.25, -900, -0.125, 0], dtype=torch.float64).view(1, 1, 8)
    expect(linear_attention_chunked, *tensors[:3], decay, chunk).equals(attention(*tensors[:3], decay), **DOUBLE)
    decay = torch.tensor([-0.1, 0, -50, -50, -0.1, 0, -0.1, 0], dtype=torch.float64).view(1, 1, 8)
    right = tuple(x.float() for x in attention(*tensors[:3], decay))
    # the log of the decay is -100: float32 knows it, and its differences, to 4e-6
    expect(linear_attention_chunked, *(x.float() for x in (*tensors[:3], decay)), chunk).equals(right, 1e-4, 1e-4)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
@pytest.mark.parametrize("chunk", [1, 5, 16])
def test_without_decay_it_is_attention_without_softmax(expect, chunk):
    """Oracle: the causal half of q kᵀ, times v. Log decay 0 forgets nothing."""
    q, k, v, decay = inputs(2, 1, 11, 3, 2)
    right = (q @ k.mT).tril() @ v, k.mT @ v
    expect(linear_attention_chunked, q, k, v, torch.zeros_like(decay), chunk).equals(right, **DOUBLE)
    expect(linear_attention_recurrent, q, k, v, torch.zeros_like(decay)).equals(right, **DOUBLE)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def test_no_tokens_change_nothing(expect):
    """An idle sequence in a batch of passes: the state comes back, or zeros, as large as for any other text."""
    tensors, state = cut(inputs(2, 3, 4, 5, 6), 0, 0), draw(2, 3, 5, 6)
    nothing = torch.zeros(2, 3, 0, 6, dtype=torch.float64)
    for program, sizes in ((linear_attention_chunked, [4]), (linear_attention_recurrent, [])):
        expect(program, *tensors, *sizes).equals((nothing, torch.zeros_like(state)))
        expect(program, *tensors, *sizes, state).equals((nothing, state))


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def test_the_dtype_is_the_input_s(expect):
    """A state in float64 is twice the bytes of every step. And heads are views of another tensor, as in a model."""
    tensors = inputs(1, 2, 5, 3, 4)
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in tensors]
    out, state = attention(*tensors)
    for program, sizes in ((linear_attention_chunked, [2]), (linear_attention_recurrent, [])):
        expect(program, *views, *sizes).equals((out, state), **DOUBLE)
        single = [x.float() for x in views]
        expect(program, *single, *sizes).equals((out.float(), state.float()), 1e-5, 1e-5)


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def test_a_chunk_of_nothing_is_refused(expect):
    """It would never come to the end of the text."""
    tensors = inputs(1, 1, 3, 2, 2)
    expect(linear_attention_chunked, *tensors, 1).equals(attention(*tensors), **DOUBLE)
    for chunk in (0, -1):
        expect(linear_attention_chunked, *tensors, chunk).raises(ValueError)


# ---- selective_scan


def space(x, dt, a, b, c, d, state=None):
    """Oracle: Mamba-2's recurrence, number by number."""
    batch, heads, tokens, features = x.shape
    size, share = b.shape[-1], heads // b.shape[1]
    h = x.new_zeros(batch, heads, size, features) if state is None else state.clone()
    y = torch.zeros_like(x)
    for i in range(batch):
        for j in range(heads):
            for t in range(tokens):
                step, group = dt[i, j, t].item(), j // share
                for n in range(size):
                    for p in range(features):
                        new = b[i, group, t, n].item() * step * x[i, j, t, p].item()
                        h[i, j, n, p] = exp(step * a[j].item()) * h[i, j, n, p].item() + new
                        y[i, j, t, p] += c[i, group, t, n].item() * h[i, j, n, p].item()
                y[i, j, t] += d[j] * x[i, j, t]
    return y, h


def signals(batch, heads, tokens, features, groups, size, seed=0):
    """x, dt, a, b, c and d, all sizes apart; steps from 0.1 on, and decays from slow to fast."""
    x, d = draw(batch, heads, tokens, features, seed=seed), draw(heads, seed=seed + 1)
    b, c = (draw(batch, groups, tokens, size, seed=seed + i) for i in (2, 3))
    dt, a = draw(batch, heads, tokens, seed=seed + 4).abs() + 0.1, -draw(heads, seed=seed + 5).abs() - 0.1
    return x, dt, a, b, c, d


ONE = torch.ones(1, dtype=torch.float64)


@pytest.mark.kata("level11.ssm.selective_scan")
def test_the_state_space_by_hand(expect):
    """The example, and one token from state 1: the step scales what comes in as well as what stays; D adds x itself."""
    y = row(0.5, 0.5 * exp(-0.5) + 0.5)
    step = torch.full((1, 1, 2), 0.5, dtype=torch.float64)
    expect(selective_scan, row(1, 1), step, -ONE, row(1, 1), row(1, 1), 0 * ONE, 4).equals((y, y[:, :, 1:]), **DOUBLE)
    # dt = 0.5, a = -2: e^-1 · 1 + 3 · (0.5 · 2); y = 5 times that, + 7 · 2
    state = row(exp(-1) + 3)
    one_token = row(2), step[:, :, :1], -2 * ONE, row(3), row(5), 7 * ONE, 1, row(1)
    expect(selective_scan, *one_token).equals((5 * state + 14, state), **DOUBLE)


@pytest.mark.kata("level11.ssm.selective_scan")
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_neighbouring_heads_share_a_group(expect, groups):
    """Oracle: the recurrence. As with grouped keys and values, heads 0 .. H/G - 1 read group 0, the next ones 1."""
    args = signals(2, 6, 5, 3, groups, 4)
    expect(selective_scan, *args, 2).equals(space(*args), **DOUBLE)
    state = draw(2, 6, 4, 3, seed=9)
    expect(selective_scan, *args, 3, state).equals(space(*args, state), **DOUBLE)


@pytest.mark.kata("level11.ssm.selective_scan")
@pytest.mark.parametrize("state", [None, 1.0], ids=["from nothing", "from a state"])
def test_a_step_of_0_is_padding(expect, state):
    """A batch of prompts of unequal length: a decay that goes on over the padding makes the answer depend on the
    neighbour. Decay 1/2 and x = 1, 1: state 1.5, and 1.5 after two pads; from 1 on it is 1.75."""
    state = None if state is None else row(state)
    right = 1.5 if state is None else 1.75
    a = -ONE * math.log(2)
    padded = row(1, 1, 30, 40), row(1, 1, 0, 0).squeeze(-1), a, row(1, 1, 50, 60), row(1, 1, 1, 2), 0 * ONE
    y = row(right * 2 - 2, right, right, 2 * right)
    expect(selective_scan, *padded, 3, state).equals((y, row(right)), **DOUBLE)


@pytest.mark.kata("level11.ssm.selective_scan")
def test_decode_goes_on_from_the_state(expect):
    """Oracle: the recurrence over the whole text. A prompt of 6 tokens, then one at a time, then 3 at once."""
    args, seen = signals(1, 4, 11, 2, 2, 3), [0, 6, 7, 8, 11]

    def in_passes(x, dt, a, b, c, d):
        state, outs = None, []
        for start, end in zip(seen, seen[1:]):
            x_, dt_, b_, c_ = cut((x, dt, b, c), start, end)
            y, state = selective_scan(x_, dt_, a, b_, c_, d, 4, state)
            outs.append(y)
        return torch.cat(outs, 2), state

    expect(in_passes, *args).equals(space(*args), **DOUBLE)


@pytest.mark.kata("level11.ssm.selective_scan")
def test_the_scan_makes_chunks_too(expect):
    """The prompt is where a state space must not go token by token: fewer operations than tokens, for long chunks;
    and for short ones nothing of tokens x tokens."""

    def operations(tokens, chunk):
        args = signals(1, 2, tokens, 3, 1, 4)
        long, short = (cost.count(selective_scan, *args, size) for size in (tokens, chunk))
        return sum(long.calls.values()) < tokens, short.largest.elements < tokens * tokens * 2 / 5

    expect(operations, 96, 4).equals((True, True))


@cache
def stored():
    """(parameters, shape, token ids, logits) of the tiny Mamba-2 that transformers has run."""
    data = json.loads((Path(__file__).parent / "transformers_families.json").read_text())
    family = data["families"]["Mamba2"]
    config, params = family["config"], random_weights(family["shapes"], data["seed"])
    names = ("num_hidden_layers", "num_heads", "head_dim", "n_groups", "state_size", "chunk_size")
    return params, MambaConfig(*(config[name] for name in names)), torch.tensor(data["ids"]), family["logits"]


def mamba_logits(passes, batch):
    """Logits of the stored texts, in passes of so many tokens, behind one state."""
    params, config, ids, _ = stored()
    state = MambaState()
    return torch.cat([mamba2(params, config, part, state) for part in ids[:batch].split(passes, 1)], 1)


@pytest.mark.kata("level11.ssm.selective_scan")
@pytest.mark.parametrize(
    "passes, batch",
    [((11,), 2), ((3, 5, 3), 2), ((6, 1, 1, 1, 1, 1), 2), ((1,) * 11, 1), ((4, 4, 3), 1)],
    ids=["the full pass", "prefill in chunks", "decode from the state", "token by token", "one text of two"],
)
def test_mamba_2_gives_transformers_logits(expect, passes, batch):
    """Two layers, 8 heads in 2 groups, chunks of 4 for 11 tokens. Logits are of size 1, in float32: 1e-4."""
    right = torch.tensor(stored()[3])[:batch]
    expect(mamba_logits, passes, batch).equals(right, rel=1e-4, abs=1e-4)


@pytest.mark.kata("level11.ssm.selective_scan")
def test_no_tokens_and_other_dtypes(expect):
    """An idle sequence keeps its state; float32 stays float32."""
    args = signals(1, 2, 3, 4, 1, 5)
    x, dt, a, b, c, d = args
    state = draw(1, 2, 5, 4, seed=9)
    none = (*cut((x, dt), 0, 0), a, *cut((b, c), 0, 0), d)
    expect(selective_scan, *none, 2, state).equals((x[:, :, :0], state))
    right = tuple(part.float() for part in space(*args, state))
    expect(selective_scan, *(part.float() for part in args), 2, state.float()).equals(right, 1e-5, 1e-5)


@pytest.mark.kata("level11.ssm.selective_scan")
def test_heads_that_do_not_divide_into_groups_are_refused(expect):
    """5 heads and 2 groups: one group would have a head more. And a chunk has a token."""
    args = signals(1, 4, 3, 2, 2, 3)
    expect(selective_scan, *args, 2).equals(space(*args), **DOUBLE)
    x, dt, a, b, c, d = signals(1, 5, 3, 2, 1, 3)
    pair = [part.repeat(1, 2, 1, 1) for part in (b, c)]
    expect(selective_scan, x, dt, a, *pair, d, 2).raises(ValueError)
    expect(selective_scan, *args, 0).raises(ValueError)


# ---- delta_step


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.kata("level11.ssm.delta_step")
@pytest.mark.parametrize(
    "k, beta, right",
    [
        ([1.0, 0], 0.5, [[5, 5.5], [3, 4]]),
        ([1.0, 0], 1.0, [[9, 9], [3, 4]]),
        ([0.0, 1], 1.0, [[1, 2], [9, 9]]),
        ([1.0, 0], 0.0, [[1, 2], [3, 4]]),
        # k finds .6 + 2.4 = 3 and 1.2 + 3.2 = 4.4, which is 6 and 4.6 from v
        ([0.6, 0.8], 1.0, [[1 + 3.6, 2 + 2.76], [3 + 4.8, 4 + 3.68]]),
        ([0.6, 0.8], 0.25, [[1 + 0.9, 2 + 0.69], [3 + 1.2, 4 + 0.92]]),
        ([-1.0, 0], 1.0, [[-9, -9], [3, 4]]),
    ],
    ids=str,
)
def test_what_k_finds_moves_towards_v(expect, k, beta, right):
    """By hand, from [[1, 2], [3, 4]] and v = (9, 9): plain linear attention would add v to what is there."""
    state, v = tensor([[1, 2], [3, 4]]), tensor([9, 9])
    expect(delta_step, state, tensor(k), v, tensor(beta)).equals(tensor(right), **DOUBLE)


@pytest.mark.kata("level11.ssm.delta_step")
@pytest.mark.parametrize("shape, features, values", [((), 3, 4), ((5,), 4, 2), ((2, 3), 4, 4), ((2, 1, 3), 2, 5)])
def test_every_head_has_its_own_key_value_and_beta(expect, shape, features, values):
    """Oracle: the matrix (1 - beta k kᵀ) times the state, and beta k vᵀ, head by head."""
    state, v = draw(*shape, features, values), draw(*shape, values, seed=1)
    k = torch.nn.functional.normalize(draw(*shape, features, seed=2), dim=-1)
    beta = draw(*shape, seed=3).sigmoid()
    pieces = (state.view(-1, features, values), k.view(-1, features), v.view(-1, values), beta.view(-1))
    eye = torch.eye(features, dtype=torch.float64)
    right = [(eye - part * torch.outer(y, y)) @ s + part * torch.outer(y, z) for s, y, z, part in zip(*pieces)]
    expect(delta_step, state, k, v, beta).equals(torch.stack(right).view(state.shape), **DOUBLE)


@pytest.mark.kata("level11.ssm.delta_step")
def test_a_memory_can_be_corrected(expect):
    """What a state without the delta rule can't: store three facts, replace the second, and read all three."""
    keys = torch.linalg.qr(draw(3, 3, seed=5))[0]
    facts, other = draw(3, 4, seed=6), draw(4, seed=7)

    def told(keys, facts, other):
        state = facts.new_zeros(3, 4)
        for key, fact in [*zip(keys, facts), (keys[1], other)]:
            state = delta_step(state, key, fact, facts.new_ones(()))
        return keys @ state

    expect(told, keys, facts, other).equals(torch.stack([facts[0], other, facts[2]]), **DOUBLE)


@pytest.mark.kata("level11.ssm.delta_step")
def test_the_delta_rule_keeps_the_dtype(expect):
    """A float32 state in a float32 model."""
    state, k, v = torch.ones(2, 3), torch.tensor([0.0, 1.0]), torch.tensor([3.0, 5.0, 7.0])
    right = torch.tensor([[1.0, 1, 1], [2, 3, 4]])
    expect(delta_step, state, k, v, torch.tensor(0.5)).equals(right)

"""The power pellet of level 09: SmolLM2-135M on three ranks, which say what one would say, and hold a third each.

It has 9 query heads and 3 KV heads, so three ranks it is. The answers are level 05's stored ones, made by transformers'
generate; there the best logit leads by 0.4 or more at every step, so a different id is a mistake, and not another order
of additions. Ranks are threads first, and then real processes that talk over gloo.
"""

import json
from pathlib import Path

import pytest
import torch

from dojo.models import load
from dojo.roofline import Sweep
from level00.layers import attention
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward, hidden_states
from level02.cache import KVCache
from level06.quality import TEXT
from level06.weights import any_linear
from level09.collectives import ring_all_gather
from level09.comm import Comm
from level09.context import causal_work, ring_attention, zigzag_positions
from level09.pipeline import layer_stage, pipeline_run, stage_ranges
from level09.processes import Ranks
from level09.shard import shard_params
from level09.tensor import parallel_generate, parallel_params, vocab_parallel_argmax
from level09.threads import run_threads

LEVELS = Path(__file__).parents[2]
STORED = json.loads((LEVELS / "level05" / "checkpoint" / "smollm2.json").read_text(encoding="utf-8"))["requests"]
SIZE, CONTEXT = 3, 64
NEED = (
    0.41  # of reading the own weights: right steps reach 0.47 to 0.58, with the whole model on each rank 0.26 to 0.35
)


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def ranks():
    """Three processes, for all tests of this file."""
    with Ranks(SIZE, seconds=30) as pool:
        yield pool


def answer(comm: Comm, name: str, model=None) -> list[int]:
    """What this rank makes of a stored request; in a process of its own it loads the model itself."""
    config, params, data = model or load()
    one = STORED[name]
    with torch.inference_mode():
        return parallel_generate(comm, params, config, one["ids"], one["max_tokens"], {data["eos_id"]})


def on_rank(comm: Comm, model):
    """A step of this rank behind a cache of CONTEXT - 1 tokens: (step, its params, its cache)."""
    config, params, _ = model
    own, mine = parallel_params(comm, params, config)
    cache = KVCache(mine, 1, CONTEXT)
    k = torch.ones(1, mine.n_kv_heads, CONTEXT - 1, mine.head_dim)
    for layer in range(mine.n_layers):
        cache.update(layer, k, k)

    def step():
        logits = forward(own, mine, torch.tensor([[314]]), cache, linear=any_linear)
        cache.truncate(CONTEXT - 1)
        return logits

    return step, own, cache


class Echo(Comm):
    """The first of three ranks, without the others: each message comes back. Costs nothing, and its sums are wrong."""

    def __init__(self):
        super().__init__(0, SIZE)

    def _exchange(self, outgoing, incoming):
        return outgoing[0].clone()


def reading(own) -> Sweep:
    """One product with each matrix of a rank: the least that its step must do."""
    weights = [getattr(w, "shard", w) for w in own.values()]
    return Sweep([w for w in weights if w.dim() == 2])


# ---- the same words


@pytest.mark.kata("level09.checkpoint")
@pytest.mark.parametrize("name", ["question", "list"])
def test_three_threads_say_what_one_process_says(expect, model, name):
    """Oracle: transformers' generate. Every rank has all tokens, though none has seen all logits."""
    expect(lambda name: run_threads(answer, SIZE, name, model), name).equals([STORED[name]["answer"]] * SIZE)


@pytest.mark.kata("level09.checkpoint")
def test_three_processes_say_it_too(expect, ranks):
    """Nothing relied on shared memory, or on whose turn it is. Two requests in turn on the same ranks."""
    for name in ("the", "letters"):
        expect(lambda name: ranks.run(answer, name), name).equals([STORED[name]["answer"]] * SIZE)


@pytest.mark.kata("level09.checkpoint")
@pytest.mark.parametrize("size", [2, 4])
def test_what_does_not_divide_is_refused(expect, model, size):
    """9 query heads on 2 or 4 ranks: engines that cut a head in two answer nonsense, and do not say why."""
    expect(shard_params, model[1], model[0], 0, size).raises(ValueError)


@pytest.mark.kata("level09.checkpoint")
def test_the_logits_are_those_of_the_whole_model(expect, model):
    """Oracle: level 00's forward. A prompt in two chunks on the rank's own cache: all 49,152 scores, to 0.001."""
    config, params, _ = model
    ids = torch.tensor([STORED["question"]["ids"][:20]])

    def logits(comm, first):
        own, mine = parallel_params(comm, params, config)
        cache, rows = KVCache(mine, 1, 20), []
        for chunk in (ids[:, :first], ids[:, first:]):
            part = forward(own, mine, chunk, cache, linear=any_linear)[0]  # (tokens, vocab / 3)
            rows.append(ring_all_gather(comm, part.T.contiguous()).T)
        return torch.cat(rows)

    expect(lambda first: run_threads(logits, SIZE, first)[1], 13).equals(forward(params, config, ids)[0], abs=1e-3)


# ---- the work, and what travels


@pytest.mark.kata("level09.checkpoint")
def test_each_rank_holds_a_third(expect, model):
    """179.4 MB of 538.1, and 22.5 KB of cache for a token: that is what the other ranks are there for."""
    config, params, _ = model
    whole = KVCache(config, 1, CONTEXT).nbytes

    def held(comm):
        _, own, cache = on_rank(comm, model)
        return sum(w.nbytes for w in own.values()), cache.nbytes

    norms = sum(w.nbytes for name, w in params.items() if w.dim() == 1)
    third = (sum(w.nbytes for w in params.values()) - norms) // 3 + norms
    expect(lambda size: run_threads(held, size), SIZE).equals([(third, whole // 3)] * SIZE)


@pytest.mark.kata("level09.checkpoint")
def test_what_a_token_sends_is_what_the_formula_says(expect, model):
    """61 all-reduces of 576 numbers, 2 · 2/3 of each, and 16 bytes twice: 187,424 bytes in 246 messages."""
    config, params, _ = model

    def sent(comm):
        step, _, _ = on_rank(comm, model)
        before = comm.bytes_sent, comm.messages
        vocab_parallel_argmax(comm, step()[:, -1])
        return comm.bytes_sent - before[0], comm.messages - before[1]

    reduces = 2 * config.n_layers + 1
    right = reduces * 2 * 2 * (config.d_model * 4 // 3) + 2 * 16, reduces * 4 + 2
    expect(lambda size: run_threads(sent, size), SIZE).equals([right] * SIZE)


# ---- other ways to divide the work


@pytest.mark.kata("level09.checkpoint")
def test_layers_on_three_stages_are_the_same_model(expect, model):
    """30 layers, 10 on each rank, and four micro-batches that follow one another. Oracle: level 00's hidden_states."""
    config, params, _ = model
    ids = torch.tensor(STORED["question"]["ids"][:16]).view(4, 4)
    plain = dict(params) | {"model.norm.weight": torch.ones(config.d_model)}
    embedded = params["model.embed_tokens.weight"][ids].unsqueeze(1)  # four of (1, 4, d_model)

    def run(comm):
        own = stage_ranges(config.n_layers, comm.size)[comm.rank]
        inputs = list(embedded) if comm.rank == 0 else None
        return pipeline_run(comm, layer_stage(params, config, own), inputs, 4, embedded.shape[1:], torch.float32)

    def last(size):
        *others, done = run_threads(run, size)
        assert others == [[], []], "only the last rank has results"
        x = torch.cat(done)
        return x * (x.pow(2).mean(-1, keepdim=True) + config.norm_eps).rsqrt()

    expect(last, SIZE).equals(hidden_states(plain, config, ids), abs=1e-3)


@pytest.mark.kata("level09.checkpoint")
def test_keys_that_go_round_are_seen_by_position(expect, model):
    """The heads of layer 15 for 168 tokens, 56 on each rank, zigzag: all ranks do the same work, and the sums are
    those of attention in one place."""
    config, params, data = model
    found = []

    def noting(q, k, v, mask):
        found.append((q, k, v))
        return attention(q, k, v, mask)

    ids = torch.tensor([SmolTokenizer.from_model(data).encode(TEXT)[:168]])
    forward(params, config, ids, attend=noting)
    q, k, v = found[15]

    def run(comm):
        own = zigzag_positions(168, comm.rank, comm.size)
        return ring_attention(comm, *(x[:, :, own] for x in (q, k, v)), own)

    def joined(size):
        places = [zigzag_positions(168, rank, size) for rank in range(size)]
        out = torch.empty_like(q)
        out[:, :, torch.cat(places)] = torch.cat(run_threads(run, size), 2)
        return out, causal_work(places)

    work = 168 * 169 // 2 // SIZE
    expect(joined, SIZE).equals((attention(q, k, v, "causal"), [work] * SIZE), abs=1e-4)


# ---- the roofline


@pytest.mark.kata("level09.checkpoint")
def test_a_rank_takes_its_share_of_reading_a_third(roofline, model):
    """One rank's decode step without its messages, beside one reading of its own matrices: 179 MB, not 538."""
    step, own, cache = on_rank(Echo(), model)
    sweep = reading(own)
    roofline(
        step,
        sweep,
        need=NEED,
        flops=sweep.flops,
        bytes=sweep.bytes + cache.nbytes,
        name=f"a rank of {SIZE}, decode step",
        notes=[f"{sweep.bytes / 1e6:.0f} MB a token on each rank; of the whole model {3 * sweep.bytes / 1e6:.0f}"],
    )

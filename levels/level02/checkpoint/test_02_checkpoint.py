"""The power pellet of level 02: your caches and your padded batch serve SmolLM2-135M.

The stored values were made by transformers; smollm2.json says which version. Answers are those of generate, each row
alone, and at every step the best logit leads by 0.4 or more, 6000 times what another order of additions changes. The
windowed logits are those of the same weights in Mistral's class. None of it says where the keys and values lie, so
bytes written, bytes alive and addresses are looked at as well.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dojo.models import load, matrices
from level00.accounting import weight_bytes
from level00.transformer import forward
from level01.generate import decode_step, generate, generate_naive, greedy, prefill
from level01.phases import phase_cost
from level02.cache import KVCache, concat_copy_bytes, kv_bytes_per_token
from level02.capacity import wasted_fraction
from level02.padding import generate_batch
from level02.window import RingCache, forward_windowed

STORED = json.loads((Path(__file__).parent / "smollm2.json").read_text(encoding="utf-8"))
ROWS, MAX_TOKENS, WINDOWED = STORED["rows"], STORED["max_tokens"], STORED["windowed"]
PROMPTS, ANSWERS = [row["ids"] for row in ROWS.values()], [row["answer"] for row in ROWS.values()]
WINDOW = WINDOWED["window"]
TOKEN_BYTES = 46_080  # keys and values: 2 x 30 layers x 3 KV heads x 64 features x 4 bytes of float32
CONTEXT = 512  # of the steps that are measured, the new token included
HELD = 2048  # tokens behind which updates are timed: copying them takes longer than calling torch, on any machine
MOST_WRITTEN = 7  # times the new keys and values: right caches write 1 to 3 times as much, the best wrong one 17 times
MOST_ALIVE = 12_000  # bytes beside the buffers: updates of one token need up to 3,072, a copy of 64 keys 50,688
NEED = 0.32  # of the sweep: right steps reach 0.53 to 0.74; one that copies its weights 0.19, one without a cache 0.04
NEED_UPDATE = 0.08  # of bare writes: right caches reach 0.15 to 0.52; one that copies the keys 0.02 to 0.04, both 0.02


@pytest.fixture(scope="module")
def model():
    return load()


def filled(cache, config, length: int):
    """The cache of one row, holding `length` tokens of a kind: neither counts nor seconds depend on what they say."""
    shape, generator = (2, 1, config.n_kv_heads, length, config.head_dim), torch.Generator().manual_seed(0)
    k, v = torch.randn(shape, generator=generator)
    for layer in range(config.n_layers):
        cache.update(layer, k, v)
    return cache


def one_token(config):
    """Keys and values of one more token, for one row."""
    return torch.ones(2, 1, config.n_kv_heads, 1, config.head_dim)


class Placed:
    """A cache that keeps what its updates return, so that nothing else can take the place of it."""

    def __init__(self, cache):
        self.cache, self.returned = cache, {}

    def update(self, layer, k, v):
        both = self.cache.update(layer, k, v)
        self.returned.setdefault(layer, []).append(both)
        return both

    @property
    def length(self):
        return self.cache.length

    def places(self) -> int:
        """In how many places have the first key and the first value of a layer lain? The most of all layers."""
        return max(len({t.data_ptr() for t in side}) for pairs in self.returned.values() for side in zip(*pairs))


def noted_forward(note):
    """A forward that shows (token ids, cache) of each call to `note` before it runs."""

    def noting(params, config, token_ids, cache, **how):
        note(token_ids, cache)
        return forward(params, config, token_ids, cache, **how)

    return noting


def seen_through_a_window(length: int) -> torch.Tensor:
    """The mask of one whole pass, entry by entry."""
    return torch.tensor([[0 <= q - k < WINDOW for k in range(length)] for q in range(length)])


@pytest.mark.kata("level02.checkpoint")
def test_a_batch_answers_as_another_implementation_answers_each_row_alone(expect, model):
    """Oracle: transformers' generate without sampling. Prompts of 6, 40 and 1 tokens; the longest ends first, with
    <|im_end|>, and the others go on."""
    config, params, data = model

    def answers(prompts):
        return generate_batch(params, config, prompts, MAX_TOKENS, {data["eos_id"]}, pad_id=data["eos_id"])

    expect(answers, PROMPTS).equals(ANSWERS)


@pytest.mark.kata("level02.checkpoint")
def test_neighbours_and_padding_do_not_change_an_answer(expect, model):
    """A user gets the same text whoever else is served. The pad ids are special, one of the prompt's own, and plain."""
    config, params, _ = model
    ways = [(PROMPTS, 0), (PROMPTS[::-1], PROMPTS[1][-1]), (PROMPTS[:1] * 2, 5)]

    def answers(ways):
        return [generate_batch(params, config, prompts, 3, pad_id=pad) for prompts, pad in ways]

    first = [answer[:3] for answer in ANSWERS]
    expect(answers, ways).equals([first, first[::-1], first[:1] * 2])


@pytest.mark.kata("level02.checkpoint")
def test_every_row_of_a_padded_batch_has_the_logits_that_it_has_alone(expect, model):
    """The answer shows the best token only; here are all 49,152 logits of each row, of the prefill and of three steps.
    The row of one token stands behind 39 of padding. Oracle: one pass over each row, without padding or cache."""
    config, params, _ = model

    def differences(prompts, answers):
        steps = []

        def noting(logits, prompts, outputs):
            steps.append(logits.clone())
            return greedy(logits, prompts, outputs)

        generate_batch(params, config, prompts, 4, choose=noting)
        alone = [
            forward(params, config, torch.tensor([[*prompt, *answer[:3]]]))[0, len(prompt) - 1 :]
            for prompt, answer in zip(prompts, answers)
        ]  # (4, vocab) each
        return [(row - right).abs().max().item() for row, right in zip(torch.stack(steps, 1), alone, strict=True)]

    expect(differences, PROMPTS, ANSWERS).holds(lambda found: max(found) <= 1e-3, "all rows agree to 1e-3")


@pytest.mark.kata("level02.checkpoint")
def test_one_pass_serves_all_rows_and_none_is_made_for_nobody(expect, model):
    """One prefill of 3 x 40 tokens, of which 73 are padding, then steps of 3: a pass reads the weights once, for all
    rows. The stop ids here end the rows after 1, 3 and 2 tokens."""
    config, params, _ = model
    stop_ids = {answer[made - 1] for answer, made in zip(ANSWERS, (1, 3, 2))}

    def passes(prompts):
        shapes, caches = [], []
        noting = noted_forward(lambda ids, cache: (shapes.append(tuple(ids.shape)), caches.append(cache)))
        generate_batch(params, config, prompts, MAX_TOKENS, stop_ids, forward=noting)
        return shapes, len({id(cache) for cache in caches})

    expect(passes, PROMPTS).equals(([(3, 40), (3, 1), (3, 1)], 1))
    expect(wasted_fraction, [len(prompt) for prompt in PROMPTS], 40).equals(73 / 120)


@pytest.mark.kata("level02.checkpoint")
def test_without_cache_through_yours_and_in_chunks_the_answer_is_the_same(expect, model):
    """Level 01's loop takes any cache. This one has room for exactly the 6 + 3 tokens that are fed."""
    config, params, _ = model

    def three_ways(prompt):
        whole, chunks = (KVCache(config, 1, len(prompt) + 3) for _ in range(2))
        return (
            generate_naive(params, config, prompt, 4),
            generate(params, config, prompt, 4, cache=whole),
            generate(params, config, prompt, 4, cache=chunks, chunk_size=4),
        )

    expect(three_ways, PROMPTS[0]).equals((ANSWERS[0][:4],) * 3)


@pytest.mark.kata("level02.checkpoint")
def test_each_step_has_the_logits_of_one_whole_pass_also_after_a_detour(expect, model):
    """Chunks of 16, and after the second token a guess of four that is taken back, as speculation does in level 08."""
    config, params, _ = model

    def difference(prompt, answer):
        whole = forward(params, config, torch.tensor([[*prompt, *answer]]))[0, len(prompt) - 1 :]
        cache = KVCache(config, 1, len(prompt) + 2 + 4)  # when the guess is in, it is full
        steps = [prefill(params, config, prompt, cache, 16)]
        for made, token in enumerate(answer):
            if made == 2:
                prefill(params, config, prompt[:4], cache)
                cache.truncate(len(prompt) + made)
            steps.append(decode_step(params, config, token, cache))
        return (torch.cat(steps) - whole).abs().max().item()

    expect(difference, PROMPTS[1], ANSWERS[1][:4]).holds(lambda d: d <= 1e-3, "all logits agree to 1e-3")


@pytest.mark.kata("level02.checkpoint")
def test_a_ring_gives_the_logits_of_another_implementation_s_window(expect, model):
    """Oracle: transformers' MistralForCausalLM with sliding_window 16 and SmolLM2's weights, 39 tokens."""
    config, params, _ = model
    right = tuple(torch.tensor(WINDOWED[name]) for name in ("top_logit", "logsumexp"))

    def summary(ids):
        cache = RingCache(config, 1, WINDOW)
        logits = [forward_windowed(params, config, part, cache)[0] for part in torch.tensor([ids]).split(11, 1)]
        return torch.cat(logits).amax(-1), torch.cat(logits).logsumexp(-1)

    expect(summary, WINDOWED["ids"]).equals(right, rel=0, abs=1e-3)


@pytest.mark.kata("level02.checkpoint")
@pytest.mark.parametrize("sizes", [[39], [23, 1, 1, 14], [7, 7, 7, 7, 7, 4]], ids=str)
def test_chunks_through_a_ring_change_nothing_and_it_does_not_grow(expect, model, sizes):
    """Chunks shorter and longer than the ring. Oracle: one pass over all tokens with a mask made entry by entry. The
    ring takes 16 x 46,080 bytes, whatever it has seen."""
    config, params, _ = model

    def found(ids, sizes):
        ids, cache = torch.tensor([ids]), RingCache(config, 1, WINDOW)
        whole = forward(params, config, ids, mask=seen_through_a_window(ids.shape[1]))
        logits, nbytes = [], {cache.nbytes}
        for part in ids.split(sizes, 1):
            logits.append(forward_windowed(params, config, part, cache))
            nbytes.add(cache.nbytes)
        return (torch.cat(logits, 1) - whole).abs().max().item(), nbytes

    expect(found, WINDOWED["ids"], sizes).holds(
        lambda found: found[0] <= 1e-3 and found[1] == {WINDOW * TOKEN_BYTES},
        f"all logits agree to 1e-3, and nbytes is {WINDOW * TOKEN_BYTES:,} throughout",
    )


@pytest.mark.kata("level02.checkpoint")
def test_a_step_behind_a_ring_costs_what_its_window_costs(expect, model):
    """500 tokens of text, 17 keys: the 16 of the ring, the oldest of them masked, and the new one."""
    config, params, _ = model
    cache = filled(RingCache(config, 1, WINDOW), config, 500)
    most = phase_cost(config, 1, WINDOW, 4, last_only=False)["flops"]

    def step(token):
        decode_step(params, config, token, cache, forward=forward_windowed)

    expect.cost(step, 5, of=("flops",)).holds(lambda cost: cost["flops"] <= most, f"at most {most:,} FLOPs")


@pytest.mark.kata("level02.checkpoint")
def test_a_token_takes_the_bytes_that_were_computed_for_it(expect, model):
    """46,080 in float32: two rows of 1000 tokens are 92.2 MB before anybody has said a word."""
    config, _, _ = model

    def nbytes(batch, room):
        return KVCache(config, batch, room).nbytes

    expect(kv_bytes_per_token, config, 4).equals(TOKEN_BYTES)
    expect(nbytes, 2, 1000).equals(2000 * TOKEN_BYTES)


@pytest.mark.kata("level02.checkpoint")
def test_joining_writes_the_bytes_that_were_computed_for_it(expect, model):
    """Oracle: torch.cat at SmolLM2's shape, counted. 16 tokens behind 64 write 53 MB, of which 0.7 MB are new."""
    from dojo.cost import count

    config, _, _ = model

    def joined(start, steps):
        for _ in range(2 * config.n_layers):  # the keys and the values of each layer
            held, new = (torch.empty(1, config.n_kv_heads, n, config.head_dim) for n in (start, 1))
            for _ in range(steps):
                held = torch.cat([held, new], 2)

    counted = count(joined, 64, 16).bytes_written
    expect(concat_copy_bytes, 64, 16, TOKEN_BYTES).equals(counted)


@pytest.mark.kata("level02.checkpoint")
def test_all_updates_of_a_generation_write_each_token_once(expect, model):
    """64 tokens one by one, 6 layers, 0.59 MB. Growth writes 65 / 2 times as much, more the longer it goes on; it also
    holds a layer's old and new keys at once, where a right cache has nothing but its buffers."""
    config, tokens = replace(model[0], n_layers=6), 64
    needed = tokens * TOKEN_BYTES * 6 // 30
    most = {"bytes_written": MOST_WRITTEN * needed, "peak_bytes": needed + MOST_ALIVE}

    def updates(tokens):
        cache = KVCache(config, 1, tokens)
        for _ in range(tokens):
            for layer in range(config.n_layers):
                cache.update(layer, *torch.empty(2, 1, config.n_kv_heads, 1, config.head_dim))

    expect.cost(updates, tokens, of=("bytes_written", "peak_bytes")).holds(
        lambda cost: all(cost[name] <= most[name] for name in most),
        f"at most {MOST_WRITTEN} x {needed:,} bytes written, {most['peak_bytes']:,} alive at once",
    )


@pytest.mark.kata("level02.checkpoint")
def test_what_a_token_more_and_less_costs_does_not_grow_with_the_context(expect, model):
    """One token behind 511, in a cache that is half full, and forgotten again: 46,080 bytes in all layers. Growth, and
    copies of what is returned, take up to 512 times as much; a decode step takes 1.05 times as long and hides it."""
    config, _, _ = model
    cache, (k, v) = filled(KVCache(config, 1, 2 * CONTEXT), config, CONTEXT - 1), one_token(config)

    def updates(k, v):
        for layer in range(config.n_layers):
            cache.update(layer, k, v)
        cache.truncate(CONTEXT - 1)

    most = {"bytes_written": MOST_WRITTEN * TOKEN_BYTES, "peak_bytes": MOST_ALIVE}
    expect.cost(updates, k, v, of=("bytes_written", "peak_bytes")).holds(
        lambda cost: all(cost[name] <= most[name] for name in most),
        f"at most {MOST_WRITTEN} x {TOKEN_BYTES:,} bytes written, {MOST_ALIVE:,} alive at once",
    )


@pytest.mark.kata("level02.checkpoint")
def test_a_token_stays_where_it_was_written(expect, model):
    """Through a prefill of 40 tokens in chunks and two steps the first key of each layer has one address: nothing is
    moved. A cache that makes more room now and then writes little, and is found here."""
    config, params, _ = model

    def places(prompt):
        cache = Placed(KVCache(config, 1, len(prompt) + 2))
        generate(params, config, prompt, 3, cache=cache, chunk_size=16)
        return cache.places()

    expect(places, PROMPTS[1]).equals(1)


@pytest.mark.kata("level02.checkpoint")
def test_a_generation_needs_its_buffers_and_one_pass_at_a_time(expect, model):
    """Room for 1024 tokens is 47.2 MB from the first token to the last. What else is alive is no more than two passes
    over the prompt take without a cache, since the logits of one are kept until those of the next are there."""
    from dojo.cost import count

    config, params, _ = model
    room, prompt = 2 * CONTEXT, PROMPTS[0]
    alone = count(forward, params, config, torch.tensor([prompt])).peak_bytes
    most = room * TOKEN_BYTES + 2 * alone

    def whole(prompt):
        return generate(params, config, prompt, 2, cache=KVCache(config, 1, room))

    expect.cost(whole, prompt, of=("peak_bytes",)).holds(
        lambda cost: cost["peak_bytes"] <= most, f"at most {room * TOKEN_BYTES:,} + {most - room * TOKEN_BYTES:,} bytes"
    )


@pytest.mark.kata("level02.checkpoint")
def test_a_decode_step_costs_the_flops_that_phase_cost_predicts(expect, model):
    """One token behind 511: 304 MFLOP. Nobody may need more; less only for scores that are summed without a matrix
    product, which the counter does not see."""
    config, params, _ = model
    most = phase_cost(config, 1, CONTEXT - 1, 4, last_only=False)["flops"]
    least = most - 4 * config.n_layers * config.n_heads * config.head_dim * CONTEXT
    cache = filled(KVCache(config, 1, 2 * CONTEXT), config, CONTEXT - 1)

    def step(token):
        decode_step(params, config, token, cache)

    expect.cost(step, 5, of=("flops",)).holds(
        lambda cost: least <= cost["flops"] <= most, f"between {least:,} and {most:,} FLOPs"
    )


@pytest.mark.kata("level02.checkpoint")
def test_decode_behind_a_long_context_keeps_up_with_its_own_sweep(model, roofline):
    """The sweep is one matrix-vector product per weight. 511 cached tokens are 4% of the bytes, so a right step falls
    behind by its attention only, and one without a cache far more. Growth costs 5% here: the counts refuse it."""
    from dojo.cost import count
    from dojo.roofline import Sweep

    config, params, _ = model
    cache = filled(KVCache(config, 1, 2 * CONTEXT), config, CONTEXT - 1)

    def step():
        decode_step(params, config, 5, cache)
        cache.truncate(CONTEXT - 1)  # every round has the same context

    cost, sweep = count(step), Sweep(matrices(params), 1)
    predicted = phase_cost(config, 1, CONTEXT - 1, 4)
    cached = predicted["bytes"] - weight_bytes(config, 4)
    note = (
        f"bytes per token: {predicted['bytes'] / 1e6:.1f} MB predicted ({cached / 1e6:.1f} MB of them for the cache),"
    )
    note += f" {cost.bytes / 1e6:.1f} MB counted"
    name = f"decode, context {CONTEXT}"
    roofline(step, sweep, need=NEED, flops=cost.flops, bytes=cost.bytes, name=name, notes=[note])


def bare_writes(config, rounds: int):
    """The least that an update can do, `rounds` times for all layers: two assignments to buffers of the same size."""
    shape = (2, 1, config.n_kv_heads, HELD + CONTEXT, config.head_dim)
    buffers, (k, v) = [torch.ones(shape).unbind(0) for _ in range(config.n_layers)], one_token(config)

    def run():
        for _ in range(rounds):
            for keys, values in buffers:
                keys[:, :, HELD : HELD + 1], values[:, :, HELD : HELD + 1] = k, v

    return run


def updates(cache, config, rounds: int):
    """One token through all layers behind HELD others, `rounds` times."""
    filled(cache, config, HELD)
    k, v = one_token(config)

    def run():
        for _ in range(rounds):
            for layer in range(config.n_layers):
                cache.update(layer, k, v)
            cache.truncate(HELD)

    return run


@pytest.mark.kata("level02.checkpoint")
def test_an_update_takes_no_longer_than_a_few_bare_writes(model, roofline):
    """Behind 2048 tokens a copy of them takes 30 times as long as calling torch. The counts do not see what numpy
    copies: the clock does."""
    from dojo.cost import count

    config, rounds = model[0], 10
    run = updates(KVCache(config, 1, HELD + CONTEXT), config, rounds)
    written = count(run).bytes_written
    roofline(
        run,
        bare_writes(config, rounds),
        need=NEED_UPDATE,
        flops=0,
        bytes=2 * written,
        name=f"{rounds * config.n_layers} updates",
        notes=[f"the sweep is bare writes; {written / rounds:,.0f} bytes written per token, {TOKEN_BYTES:,} needed"],
    )

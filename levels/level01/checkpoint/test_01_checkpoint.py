"""The power pellet of level 01: your loop makes SmolLM2-135M answer, and no token runs through it twice.

The stored answers were made by transformers' generate; smollm2.json says which version. At every step of theirs the
best logit leads by 0.19 or more, 3000 times what another order of additions changes: a different id is a mistake. Equal
answers say nothing about the work behind them, so tokens, FLOPs and bytes are counted as well.
"""

import json
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from dojo.models import load, matrices
from level00.accounting import count_params, weight_bytes
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import decode_step, generate, generate_naive, prefill, stream
from level01.phases import cached_token_count, naive_token_count, phase_cost
from level01.simple_cache import SimpleCache
from level01.streaming import StopStrings, utf8_pieces

STORED = json.loads((Path(__file__).parent / "smollm2.json").read_text(encoding="utf-8"))
CASES, MAX_TOKENS = STORED["cases"], STORED["max_tokens"]
CONTEXT = 64  # of the steps that are measured, the new token included
MOST_READ = 1.2  # times what phase_cost predicts: right steps read 1.01 to 1.03 times, one without a cache 1.40 times
NEED = 0.35  # of the sweep: right steps reach 0.61 to 0.82; one that copies its weights 0.20, one without a cache 0.14


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def tokenizer(model):
    return SmolTokenizer.from_model(model[2])


def counted_forward():
    """A forward that notes how many tokens each call gets, and its notes."""
    sizes = []

    def noting(params, config, token_ids, *args, **kwargs):
        sizes.append(token_ids.numel())
        return forward(params, config, token_ids, *args, **kwargs)

    return noting, sizes


def filled(model, length: int) -> SimpleCache:
    """A cache that holds `length` tokens."""
    cache = SimpleCache(model[0].n_layers)
    prefill(model[1], model[0], context(length), cache)
    return cache


def context(length: int) -> list[int]:
    return (CASES["star"]["ids"] * 2)[:length]


@pytest.mark.kata("level01.checkpoint")
@pytest.mark.parametrize("name", ["sum", "star"])
def test_a_conversation_becomes_the_prompt_that_the_model_was_trained_on(expect, tokenizer, name):
    """Oracle: the chat template inside the model's file. With one newline missing the answers are still fluent."""
    expect(tokenizer.encode_chat, CASES[name]["prompt"]).equals(CASES[name]["ids"])


@pytest.mark.kata("level01.checkpoint")
@pytest.mark.parametrize("name", ["sum", "counting"])
def test_the_answer_is_that_of_another_implementation(expect, model, tokenizer, name):
    """Oracle: transformers' generate without sampling. The sum ends with <|im_end|>, the counting with max_tokens."""
    config, params, _ = model

    def answer(prompt):
        return generate(params, config, prompt, MAX_TOKENS, {tokenizer.eos_id})

    expect(answer, CASES[name]["ids"]).equals(CASES[name]["answer"])


@pytest.mark.kata("level01.checkpoint")
def test_without_cache_with_cache_and_in_chunks_the_answer_is_the_same(expect, model):
    """A cache and chunks are about speed: whoever reads the answer can't tell."""
    config, params, _ = model
    case = CASES["counting"]

    def three_ways(prompt):
        naive = generate_naive(params, config, prompt, 8)
        return naive, generate(params, config, prompt, 8), generate(params, config, prompt, 8, chunk_size=4)

    expect(three_ways, case["ids"]).equals((case["answer"][:8],) * 3)


@pytest.mark.kata("level01.checkpoint")
def test_each_decode_step_has_the_logits_of_one_whole_pass(expect, model):
    """The answer shows the best token only; here are all 49,152 logits of each step, after a prefill in chunks."""
    config, params, _ = model
    case = CASES["sum"]

    def difference(prompt, answer):
        whole = forward(params, config, torch.tensor([[*prompt, *answer]]))[0, len(prompt) - 1 :]
        cache = SimpleCache(config.n_layers)
        steps = [prefill(params, config, prompt, cache, 16)]
        steps += [decode_step(params, config, token, cache) for token in answer]
        return (torch.cat(steps) - whole).abs().max().item()

    expect(difference, case["ids"], case["answer"]).holds(lambda d: d <= 1e-3, "all logits agree to 1e-3")


@pytest.mark.kata("level01.checkpoint")
def test_the_tokens_that_run_are_those_that_phases_counts(expect, model):
    """11 tokens of prompt, 4 new: 11 + 12 + 13 + 14 = 50 without a cache, 11 + 3 = 14 with it, in chunks as well."""
    config, params, _ = model
    prompt = CASES["counting"]["ids"]
    ways = {"naive": (generate_naive, {}), "cached": (generate, {}), "in chunks": (generate, {"chunk_size": 4})}

    def tokens(prompt, new):
        found = {}
        for way, (loop, how) in ways.items():
            noting, sizes = counted_forward()
            loop(params, config, prompt, new, forward=noting, **how)
            found[way] = sum(sizes)
        return found

    right = {"naive": 50, "cached": 14, "in chunks": 14}
    expect(tokens, prompt, 4).equals(right)
    expect(naive_token_count, len(prompt), 4).equals(right["naive"])
    expect(cached_token_count, len(prompt), 4).equals(right["cached"])


@pytest.mark.kata("level01.checkpoint")
def test_a_decode_step_costs_the_flops_that_phase_cost_predicts(expect, model):
    """One token behind 63: 273 MFLOP, counted operator by operator. Nobody may need more; less only for scores that are
    summed without a matrix product, which the counter does not see."""
    config, params, _ = model
    most = phase_cost(config, 1, CONTEXT - 1, 4, last_only=False)["flops"]
    least = most - 4 * config.n_layers * config.n_heads * config.head_dim * CONTEXT
    cache, token = filled(model, CONTEXT - 1), context(CONTEXT)[-1]
    counted = expect.cost(lambda token: decode_step(params, config, token, cache), token, of=("flops",))
    counted.holds(lambda cost: least <= cost["flops"] <= most, f"between {least:,} and {most:,} FLOPs")


@pytest.mark.kata("level01.checkpoint")
def test_a_chunk_costs_no_more_flops_than_its_tokens(expect, model):
    """16 tokens behind 48, whole squares of scores (the masked part of the chunk is computed, then thrown away)."""
    config, params, _ = model
    size, held = 16, CONTEXT - 16
    per_pair = 4 * config.n_layers * config.n_heads * config.head_dim
    predicted = phase_cost(config, size, held, 4, last_only=False)["flops"]
    most = predicted + per_pair * size * (size - 1) // 2
    least = predicted - per_pair * (size * held + size * (size + 1) // 2)
    least -= 2 * config.vocab_size * config.d_model * (size - 1)  # one row of logits is all that anyone reads
    cache, chunk = filled(model, held), context(CONTEXT)[-size:]
    counted = expect.cost(lambda chunk: prefill(params, config, chunk, cache), chunk, of=("flops",))
    counted.holds(lambda cost: least <= cost["flops"] <= most, f"between {least:,} and {most:,} FLOPs")


@pytest.mark.kata("level01.checkpoint")
def test_a_decode_step_reads_the_weights_and_the_cache_once(expect, model):
    """541 MB for one token. A step without a cache writes and reads 64 rows of everything: 1.4 times as much, and 64
    times the FLOPs. A copy of the weights adds 1.0."""
    config, params, _ = model
    predicted = phase_cost(config, 1, CONTEXT - 1, 4)["bytes"]
    cache, token = filled(model, CONTEXT - 1), context(CONTEXT)[-1]
    counted = expect.cost(lambda token: decode_step(params, config, token, cache), token, of=("bytes_read",))
    counted.holds(
        lambda cost: cost["bytes_read"] <= MOST_READ * predicted, f"at most {MOST_READ} x {predicted:,.0f} bytes read"
    )


@pytest.mark.kata("level01.checkpoint")
def test_a_later_step_costs_one_more_key_with_a_cache_and_one_more_token_without(expect, model):
    """So a total grows as a line with a cache, but for a thin term of scores, and as a square without."""
    from dojo.cost import count

    config, params, _ = model
    weights = count_params(config)
    one_key = 4 * config.n_layers * config.n_heads * config.head_dim  # its product with the query, and its value's
    one_token = 2 * (weights["attention"] + weights["mlp"])

    def growth(ids):
        cache = filled(model, 4)
        cached = [count(decode_step, params, config, token, cache).flops for token in ids[4:]]
        naive = [count(generate_naive, params, config, ids[:n], 1).flops for n in (5, 6, 7)]
        return tuple([after - before for before, after in pairwise(flops)] for flops in (cached, naive))

    expect(growth, context(7)).holds(
        lambda grown: all(0 <= more <= one_key for more in grown[0]) and all(more >= one_token for more in grown[1]),
        f"at most {one_key:,} FLOPs more per step with a cache, at least {one_token:,} without",
    )


@pytest.mark.kata("level01.checkpoint")
def test_characters_arrive_whole_and_at_once(expect, model, tokenizer):
    """Each star is three tokens: nothing may be shown at the first two, and nothing may be kept after the third."""
    config, params, _ = model
    case = CASES["star"]

    def shown(prompt):
        made = []

        def chunks():
            for token in stream(params, config, prompt, MAX_TOKENS):
                made.append(token)
                yield tokenizer.token_bytes(token)

        return [(len(made), text) for text in utf8_pieces(chunks())]

    expect(shown, case["ids"]).equals([(3, "🌟"), (6, "🌟"), (9, "🌟"), (12, "🌟")])


@pytest.mark.kata("level01.checkpoint")
def test_a_stop_string_across_tokens_is_never_shown_and_ends_the_work(expect, model, tokenizer):
    """The model counts on: " 5, 6, 7, 8," one token per digit, comma and space. "7, 8" comes in four pieces; ", 6!"
    begins twice and never ends. The twelfth token is not made."""
    config, params, _ = model
    case = CASES["counting"]

    def shown(prompt):
        stops, pieces = StopStrings(["7, 8", ", 6!"]), []
        noting, sizes = counted_forward()
        for token in stream(params, config, prompt, MAX_TOKENS, forward=noting):
            pieces.append(stops.feed(tokenizer.decode([token])))
            if stops.stopped:
                break
        return pieces + [stops.flush()], sum(sizes)

    pieces = [" ", "5", "", "", "", ", 6", "", ", ", "", "", "", ""]
    expect(shown, case["ids"]).equals((pieces, len(case["ids"]) + 10))


@pytest.mark.kata("level01.checkpoint")
def test_decode_keeps_up_with_its_own_sweep(model, roofline):
    """The sweep is one matrix-vector product per weight: the least that a token costs. The cache is cut back after each
    step, so that every round has the same context."""
    from dojo.cost import count
    from dojo.roofline import Sweep

    config, params, _ = model
    cache, token = filled(model, CONTEXT - 1), context(CONTEXT)[-1]

    def step():
        decode_step(params, config, token, cache)
        cache.truncate(CONTEXT - 1)

    cost, sweep = count(step), Sweep(matrices(params), 1)
    predicted = phase_cost(config, 1, CONTEXT - 1, 4)
    cached = predicted["bytes"] - weight_bytes(config, 4)
    note = (
        f"bytes per token: {predicted['bytes'] / 1e6:.1f} MB predicted ({cached / 1e6:.1f} MB of them for the cache), "
    )
    note += f"{cost.bytes / 1e6:.1f} MB counted"
    roofline(
        step,
        sweep,
        need=NEED,
        flops=cost.flops,
        bytes=cost.bytes,
        name=f"decode, context {CONTEXT}",
        notes=[note],
    )

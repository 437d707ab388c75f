"""The worksheet of level 01: right values by formula from the configuration, or by brute force."""

import pytest

from dojo.models import SMOLLM2, shapes

SIZES = {name: shape[0] * (shape[1] if len(shape) == 2 else 1) for name, shape in shapes(SMOLLM2).items()}
WEIGHTS = sum(SIZES.values())
LAYER_MATRICES = sum(size for name, size in SIZES.items() if "_proj" in name)
HEAD = SIZES["model.embed_tokens.weight"]  # tied: the vocabulary projection multiplies by it
# q kᵀ and weights · v are head_dim multiply-adds each, per layer and query head
FLOPS_PER_PAIR = SMOLLM2.n_layers * SMOLLM2.n_heads * 2 * 2 * SMOLLM2.head_dim
KV_NUMBERS_PER_TOKEN = 2 * SMOLLM2.n_layers * SMOLLM2.n_kv_heads * SMOLLM2.head_dim  # a key and a value

CONTEXT = 4096
BYTES = 2 * (WEIGHTS + KV_NUMBERS_PER_TOKEN * CONTEXT)  # bfloat16; the same for the decode step and for the prefill
DECODE_FLOPS = 2 * (LAYER_MATRICES + HEAD) + FLOPS_PER_PAIR * CONTEXT
PREFILL_FLOPS = 2 * CONTEXT * LAYER_MATRICES + FLOPS_PER_PAIR * sum(range(1, CONTEXT + 1)) + 2 * HEAD
BANDWIDTH, PEAK = 3.35e12, 989e12  # H100 SXM: bytes and dense bfloat16 FLOPs a second
DECODE_SECONDS = max(BYTES / BANDWIDTH, DECODE_FLOPS / PEAK)
PREFILL_SECONDS = max(BYTES / BANDWIDTH, PREFILL_FLOPS / PEAK)


@pytest.mark.kata("level01.worksheet.naive_tokens")
def test_without_a_cache_every_step_runs_the_whole_sequence(answer):
    """The arithmetic that a server would repeat. Oracle: walk through the passes, of 30, 31, …, 49 tokens."""
    sequence, processed = 30, 0
    for _ in range(20):
        processed += sequence
        sequence += 1
    answer("naive_tokens").equals(processed, rel=0.01)


@pytest.mark.kata("level01.worksheet.cached_tokens")
def test_with_a_cache_every_token_goes_through_once(answer):
    """Oracle: mark the tokens that were fed; the sequence has 50, and nobody asks what follows the last."""
    fed = set(range(30))
    for step in range(1, 20):
        fed.add(30 + step - 1)  # the token that the pass before it chose
    answer("cached_tokens").equals(len(fed), rel=0.01)


@pytest.mark.kata("level01.worksheet.chunked_gigabytes")
def test_every_chunk_reads_the_weights_again(answer):
    """What a scheduler pays for short chunks: 8 passes of 538 MB, the last one of them for 104 tokens."""
    passes = len(range(0, 1000, 128))
    answer("chunked_gigabytes").equals(passes * 4 * WEIGHTS / 1e9, rel=0.01)


@pytest.mark.kata("level01.worksheet.decode_intensity")
def test_a_decode_step_does_hardly_more_than_one_flop_a_byte(answer):
    """Far below what any processor needs to stay busy. 268.96 + 283.12 MFLOP over 269.03 + 94.37 MB."""
    answer("decode_intensity").equals(DECODE_FLOPS / BYTES, rel=0.01)


@pytest.mark.kata("level01.worksheet.decode_microseconds")
def test_bytes_decide_the_time_of_a_decode_step(answer):
    """363.40 MB / 3.35 TB/s; the 552 MFLOP take 0.56 microseconds and hide behind them."""
    answer("decode_microseconds").equals(1e6 * DECODE_SECONDS, rel=0.01)


@pytest.mark.kata("level01.worksheet.prefill_microseconds")
def test_arithmetic_decides_the_time_of_a_long_prefill(answer):
    """869.73 GFLOP in the layers, 579.96 in scores over 8,390,656 pairs, 0.06 in the head; over 989 TFLOP/s."""
    answer("prefill_microseconds").equals(1e6 * PREFILL_SECONDS, rel=0.01)


@pytest.mark.kata("level01.worksheet.prompt_tokens_per_step")
def test_a_decoded_token_costs_as_much_as_hundreds_of_prompt_tokens(answer):
    """Why an API may charge more for output than for input: 108.48 over 1465.87 / 4096 microseconds."""
    answer("prompt_tokens_per_step").equals(DECODE_SECONDS / (PREFILL_SECONDS / CONTEXT), rel=0.01)


@pytest.mark.kata("level01.worksheet.shown_characters")
def test_only_what_may_become_a_stop_string_is_held_back(answer):
    """A user should neither read half a stop string nor wait for text that is safe.

    Oracle: a character is safe when no way of going on makes it part of a stop string, so try each tail.
    """
    text, stops = "Done." + "\n" + "Hum", ["Human:", "\n\n"]
    safe = len(text)
    for start in range(len(text)):
        if any(stop.startswith(text[start:]) for stop in stops):
            safe = min(safe, start)
    answer("shown_characters").equals(safe, rel=0.01)

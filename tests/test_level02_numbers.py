"""Every number in the lesson of level 02, computed again: a claim is built here and must stand there verbatim."""

import re
from math import prod
from pathlib import Path

import pytest
import torch

from dojo import catalog, models
from dojo.models import Config
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level02/README.md").read_text(encoding="utf-8")
FRANCE, WHERE = [504, 3575, 282, 4649, 314], [9576]  # "The capital of France is", "Where"

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3-8B
BANDWIDTH = 3.35e12  # H100 SXM, bytes a second
GPU = 80e9
LONG = 8192  # tokens of one request
HELD, ROW = [200, 600, 1000, 1800], 4096


def weights(config):
    return sum(prod(shape) for shape in models.shapes(config).values())


def entry(config, size=2, heads=None):
    """Bytes of one token's keys and values, added up layer by layer."""
    return sum(size * config.head_dim * (heads or config.n_kv_heads) for _ in range(config.n_layers) for _ in "kv")


def room(memory=GPU, reserve=0.1, param=2, size=2):
    return int(((1 - reserve) * memory - param * weights(LLAMA)) // entry(LLAMA, size))


def read(config, param=2):
    """Bytes of weights in a step; of an untied embedding only single rows are looked up."""
    shapes = models.shapes(config)
    return param * (weights(config) - ("lm_head.weight" in shapes) * prod(shapes["model.embed_tokens.weight"]))


def crossover(config, param=2):
    return read(config, param) / entry(config)


def written(start, steps):
    """Tokens that growing by concatenation writes."""
    return sum(start + i for i in range(1, steps + 1))


def step_seconds(requests):
    """The time of a decode step's bytes, all requests LONG."""
    return (read(LLAMA) + requests * LONG * entry(LLAMA)) / BANDWIDTH


FITS = room() // LONG
EQUAL = round(crossover(LLAMA) / LONG)
WASTED = 1 - sum(HELD) / (len(HELD) * ROW)

CLAIMS = [
    # the big idea
    f"writes 4 + 1 + 1 = {4 + 1 + 1} tokens",
    f"by torch.cat 4 + 5 + 6 = {4 + written(4, 2)}",
    f"| `(2, {SMOL.n_kv_heads}, 5, {SMOL.head_dim})` | `(2, {SMOL.n_kv_heads}, 6, {SMOL.head_dim})` |",
    f"of 4 slots | `(2, {SMOL.n_kv_heads}, {4 + 5}, {SMOL.head_dim})` | `(2, {SMOL.n_kv_heads}, {4 + 1}, 64)` |",
    f"| `(2, {SMOL.n_heads}, 5, 5)` | `(2, {SMOL.n_heads}, 1, 6)` |",
    # the concepts
    f"a token of SmolLM2 takes {entry(SMOL):,} bytes, one of Llama-3-8B ({LLAMA.n_layers} layers, {LLAMA.n_kv_heads} "
    f"KV heads of {LLAMA.head_dim}) takes {entry(LLAMA):,}",
    f"each of its {LLAMA.n_heads} query heads had a KV head of its own, it would be {entry(LLAMA, heads=32):,}",
    f"that is {written(0, 1000) * entry(SMOL) / 1e9:.2f} GB where {1000 * entry(SMOL) / 1e9:.5f} would do",
    f"At 512 tokens in float32 a step copies {512 * entry(SMOL, 4) / 1e6:.1f} MB, "
    f"beside {4 * weights(SMOL) / 1e6:.0f} MB of weights",
    f"({0.9 * GPU / 1e9:.0f} - {2 * weights(LLAMA) / 1e9:.2f}) GB hold {room():,} tokens over all requests",
    f"That is {FITS} requests of {LONG:,} tokens each; a single one of 128,000 takes "
    f"{128_000 * entry(LLAMA) / 1e9:.2f} GB",
    f"as 80 GiB would hold {room(80 * 2**30):,}",
    f"with the cache in 8 bits {room(size=1) // LONG} of those requests fit, with the weights in 8 bits "
    f"{room(param=1) // LONG}",
    f"summed over the batch: {crossover(SMOL):,.1f} for SmolLM2 in bfloat16, {crossover(LLAMA):,.0f} for Llama-3-8B, "
    f"which is {EQUAL} requests of {LONG:,}",
    f"With all {FITS} requests of concept 3 a step reads {read(LLAMA) / 1e9:.1f} GB of weights and "
    f"{FITS * LONG * entry(LLAMA) / 1e9:.1f} GB of cache",
    f"takes at least {1e3 * step_seconds(FITS):.1f} ms, where a single request takes {1e3 * step_seconds(1):.1f} ms: "
    f"{FITS} times the tokens in {step_seconds(FITS) / step_seconds(1):.1f} times the time",
    f"leave {100 * WASTED:.1f}% empty",
    f"fill {2 * max(len(FRANCE), len(WHERE))} slots, {len(FRANCE) - len(WHERE)} of them with padding",
    f"then take some {100 * (1 - WASTED):.0f}% of it",
    # pitfalls
    f"has {SMOL.n_heads} query heads and keeps {SMOL.n_kv_heads} KV heads: {entry(SMOL):,} bytes, "
    f"not {entry(SMOL, heads=SMOL.n_heads):,}",
    f"{int(0.9 * GPU // entry(LLAMA)):,} tokens without the weights, {room(80 * 2**30):,} with GiB for GB",
    f"{2 * weights(LLAMA) / entry(LLAMA):,.0f} for Llama-3-8B. Of an untied embedding",
    # checkpoint, questions
    f"A token takes {entry(SMOL, 4):,} bytes in float32. An update behind 511 tokens",
    f"a cache that joins {511 + 1} times as much",
    f"on 80 GB holds {FITS} requests of {LONG:,} tokens",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


def test_what_the_lesson_says_in_words():
    for s, n in ((0, 1000), (4, 2), (100, 2)):  # the formula of concept 2
        assert written(s, n) == n * s + n * (n + 1) / 2
    assert weights(LLAMA) == 8_030_261_248
    assert 128_000 * entry(LLAMA) > 2 * weights(LLAMA)  # "more than the weights"
    assert crossover(LLAMA, 0.5) == crossover(LLAMA) / 4  # "to a quarter"
    assert abs(crossover(LLAMA) / LONG - EQUAL) < 0.05  # "which is 14 requests"
    values = [1.0, 2.0, 3.0]
    assert "1, 2 and 3, equally weighted, give 2; with five slots of zeros beside them 0.75" in LESSON
    assert (sum(values) / 3, sum(values) / 8) == (2, 0.75)
    seen = [len([k for k in range(5) if 0 <= q - k < 3]) for q in range(5)]
    assert "five tokens see {}, {}, {}, {} and {} keys".format(*seen) in LESSON


def test_the_ring_of_the_lesson():
    def ring(size, length):
        slots = [-1] * size
        for position in range(length):
            slots[position % size] = position
        return slots

    assert f"a ring of 3 holds the positions {ring(3, 5)}. Position 5 takes slot {5 % 3}" in LESSON
    assert ring(3, 5)[5 % 3] == 5 - 3  # "the token that has just left the window"
    token = [3, 14, 15, 92, "a", "b"]
    drawn = "  token      {}   {}  {}  {}\n  position   {}   {}   {}   {} ".format(
        *(token[p] for p in ring(4, 6)), *ring(4, 6)
    )
    assert drawn in LESSON and f"position 6 will take slot {6 % 4}\n" in LESSON


def test_one_token_too_many_vanishes_without_a_word():
    """As the lesson says of a buffer that is written beyond its end."""
    buffer = torch.zeros(1, 1, 2, 4)
    buffer[:, :, 2:3] = torch.ones(1, 1, 1, 4)
    assert buffer.eq(0).all()


def test_the_answers_state_the_computed_numbers():
    answers = (ROOT / "solutions/level02/answers.md").read_text(encoding="utf-8")
    speed = {requests: requests / step_seconds(requests) for requests in (EQUAL, FITS)}
    for claim in (
        f"A cache in 8 bits does: {room(size=1) // LONG}.",
        f"Weights in 8 bits free {weights(LLAMA) / 1e9:.0f} GB, which is {room(param=1) // LONG - FITS} requests more: "
        f"{room(param=1) // LONG}.",
        f"{crossover(LLAMA):,.0f} cached tokens for Llama-3-8B in bfloat16",
        f"From {EQUAL} requests of {LONG:,} tokens to all {FITS} that fit, the batch grows {FITS / EQUAL:.1f} times "
        f"and the tokens per second {speed[FITS] / speed[EQUAL]:.1f} times",
        f"Through 32 layers information may travel {32 * (4096 - 1):,} tokens",
    ):
        assert claim in answers


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level02\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level02")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))


@pytest.mark.parametrize("level", ["level00", "level01"])
def test_links_into_earlier_levels_lead_to_their_headings(level):
    headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    linked = re.findall(rf"\.\./{level}/README\.md#([^)]*)\)", LESSON)
    assert linked and set(linked) <= anchors


@pytest.fixture
def say():
    """say(ids): the text of tokens of SmolLM2; the solutions are mounted."""
    _, _, data = models.load()
    with solutions_of("level00", "level01", "level02"):
        yield lambda ids: "".join(data["tokens"][i] for i in ids).replace("Ġ", " ").replace("Ċ", "\n")


@torch.no_grad()
def test_what_wrong_batches_say_on_the_real_model(say):
    from level00.layers import causal_mask
    from level00.transformer import forward
    from level01.generate import generate
    from level02.padding import generate_batch

    config, params, _ = models.load()
    assert (say(FRANCE), say(WHERE)) == ("The capital of France is", "Where")

    def no_padding_mask(params, config, ids, cache, *, positions, mask):
        return forward(params, config, ids, cache, positions=positions)

    def mask_in_prefill(params, config, ids, cache, *, positions, mask):
        mask = mask if cache.length == 0 else causal_mask(ids.shape[1], cache.length + ids.shape[1])
        return forward(params, config, ids, cache, positions=positions, mask=mask)

    def decode_at_cache_length(params, config, ids, cache, *, positions, mask):
        positions = positions if cache.length == 0 else torch.full_like(positions, cache.length)
        return forward(params, config, ids, cache, positions=positions, mask=mask)

    def slots_as_positions(params, config, ids, cache, *, positions, mask):
        return forward(params, config, ids, cache, mask=mask)

    def batch(**wrong):
        longest, shortest = generate_batch(params, config, [FRANCE, WHERE], 6, **wrong)
        assert longest == right[0]  # "the longest row is right"
        return say(shortest)

    right = [generate(params, config, prompt, 6) for prompt in (FRANCE, WHERE)]
    alone = batch()
    said = [batch(forward=wrong) for wrong in (no_padding_mask, mask_in_prefill, decode_at_cache_length)]
    assert alone == say(right[1]) == batch(forward=slots_as_positions)  # "the texts stay the same"
    begins = [" does the data", "-12", "------"]
    assert [text[: len(begin)] for text, begin in zip(said, begins)] == begins
    assert f'"Where" is continued by "{begins[0]}" instead of "{alone}"' in LESSON
    assert f'"Where" goes on with "{begins[1]}"' in LESSON and f'SmolLM2 writes "{begins[2]}" after "Where"' in LESSON


@torch.no_grad()
def test_what_a_window_does_to_a_model_that_was_trained_without_one(say):
    from level00.layers import attention
    from level00.transformer import forward
    from level01.generate import generate
    from level02.cache import KVCache
    from level02.window import RingCache, forward_windowed

    config, params, _ = models.load()
    made = generate(params, config, FRANCE, 2, cache=RingCache(config, 1, 4), forward=forward_windowed)
    assert f'makes it say "{say(made)}"' in LESSON
    cache = KVCache(config, 1, len(FRANCE) + 3)  # the lesson's call: room for all but the last token
    assert len(generate(params, config, FRANCE, 4, cache=cache)) == 4 and cache.length == cache.max_cached_tokens

    first = []  # in each layer, what the last token's query heads give to the first token

    def looking(q, k, v, mask):
        scores = q[0, :, -1:] @ k[0].repeat_interleave(q.shape[1] // k.shape[1], 0).mT / config.head_dim**0.5
        first.append(scores.softmax(-1)[:, 0, 0])
        return attention(q, k, v, mask)

    forward(params, config, torch.tensor([FRANCE]), attend=looking)
    assert f"{100 * torch.stack(first).mean():.0f}% of the last one's attention, over all layers and heads" in LESSON

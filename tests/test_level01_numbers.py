"""Every number in the lesson of level 01, computed again: a claim is built here and must stand there verbatim."""

import importlib
import re
import sys
from itertools import accumulate
from math import comb
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from dojo import catalog, models

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level01/README.md").read_text(encoding="utf-8")
PROMPT = [504, 3575, 282, 4649, 314]  # "The capital of France is"

C = models.SMOLLM2
SIZES = {name: torch.Size(shape).numel() for name, shape in models.shapes(C).items()}
TOTAL = sum(SIZES.values())
HEAD = SIZES["model.embed_tokens.weight"]
LAYERS = sum(size for name, size in SIZES.items() if "_proj" in name)
PAIR = 4 * C.n_layers * C.n_heads * C.head_dim  # FLOPs of one query and one key
KV = 2 * C.n_layers * C.n_kv_heads * C.head_dim  # numbers kept of one token
BANDWIDTH, PEAK = 3.35e12, 989e12  # H100 SXM: bytes and dense bfloat16 FLOPs a second


def flops(tokens, cached=0):
    """FLOPs of one pass that returns the logits of its last token; the pairs are counted query by query."""
    pairs = sum(cached + i + 1 for i in range(tokens))
    return 2 * tokens * LAYERS + PAIR * pairs + 2 * HEAD


def moved(tokens, cached=0, size=2):
    """Bytes of one pass: all weights, the cached keys and values, and the new ones."""
    return size * (TOTAL + KV * (cached + tokens))


def intensity(tokens, cached=0):
    return flops(tokens, cached) / moved(tokens, cached)


def passes(prompt, new, cache):
    """(tokens, cached) of each pass of a request."""
    return [(prompt, 0)] + [(1, prompt + i) if cache else (prompt + i + 1, 0) for i in range(new - 1)]


def tokens_of(prompt, new, cache):
    return sum(tokens for tokens, _ in passes(prompt, new, cache))


def total(cost, prompt, new, cache, **size):
    return sum(cost(*one, **size) for one in passes(prompt, new, cache))


CROSSING = next(q for q in range(1, 8192) if intensity(q) >= PEAK / BANDWIDTH)
LONG = f"{total(flops, 20, 200, cache=False) / 1e12:.2f} TFLOP, where {total(flops, 20, 200, cache=True) / 1e12:.3f}"
STEP = (moved(1, 1023) / BANDWIDTH, flops(1, 1023) / PEAK)
PREFILL = (moved(1024) / BANDWIDTH, flops(1024) / PEAK)

CLAIMS = [
    # the big idea
    f"4 + 5 + 6 = {tokens_of(4, 3, cache=False)} ",
    f"4 + 1 + 1 = {tokens_of(4, 3, cache=True)}\n",
    f"| queries | `(1, {C.n_heads}, 5, {C.head_dim})` | `(1, {C.n_heads}, 1, {C.head_dim})` |",
    f"`(1, {C.n_kv_heads}, 5, {C.head_dim})` | `(1, {C.n_kv_heads}, 6, {C.head_dim})` |",
    f"| scores | `(1, {C.n_heads}, 5, 5)` | `(1, {C.n_heads}, 1, 6)` |",
    f"| `(1, {C.vocab_size})` | `(1, {C.vocab_size})` |",
    # the concepts
    f"in float32 reads its weights 100 times, {100 * 4 * TOTAL / 1e9:.1f} GB",
    f"it processes {tokens_of(20, 200, cache=False):,}, of which only {tokens_of(20, 200, cache=True)} are different",
    f"at least {LONG} are enough",
    f"{4 * KV:,} bytes to read, instead of {2 * LAYERS / 1e6:.0f} MFLOP of matrix products",
    f"moves {total(moved, 20, 200, cache=True, size=4) / 1e9:.1f} GB either way",
    "| FLOP/byte | " + " | ".join(f"{intensity(q):.1f}" for q in (1, 16, 64, 256, 1024)) + " |",
    f"1024 tokens move {moved(1024) / 1e9:.3f} GB at once, "
    f"{sum(moved(128, start) for start in range(0, 1024, 128)) / 1e9:.3f} GB in chunks of 128",
    f"reads {BANDWIDTH / 1e12:.2f} TB/s and computes {PEAK / 1e12:.0f} TFLOP/s in dense bfloat16",
    f"the two are equal at {PEAK / BANDWIDTH:.0f} FLOP/byte",
    f"SmolLM2 behind 1,023 cached tokens does {intensity(1, 1023):.2f}: "
    f"{1e6 * STEP[0]:.2f} µs for the bytes, {1e6 * STEP[1]:.2f} µs for the arithmetic",
    f"compute-bound from {CROSSING} tokens on; 1,024 of them take {1e6 * PREFILL[1]:.1f} µs, "
    f"so a decoded token costs {max(STEP) / (max(PREFILL) / 1024):.0f} times as much",
    f"Below {CROSSING} tokens",
    # pitfalls, checkpoint, questions
    f"is {C.n_layers} times too large after one pass of SmolLM2",
    f"5 tokens in chunks of 2 are {('one', 'two', 'three')[len(range(0, 5, 2)) - 1]} passes",
    f"a prefill of 1,024 would have intensity {flops(1024) / (2 * (1024 * TOTAL + KV * 1024)):.2f} "
    f"instead of {intensity(1024):.1f}",
    f"needs {1024 + comb(1024, 2):,} pairs for 1,024 tokens, not {1024**2:,}",
    f"{tokens_of(11, 4, cache=True)} tokens go through the model with the cache, whole or in chunks, "
    f"and {tokens_of(11, 4, cache=False)} without it",
    f"may cost {flops(1, 9) - flops(1, 8):,} more than the one before",
    f"At context 64 it should read {moved(1, 63, size=4) / 1e6:.0f} MB",
    f"takes {1e6 * STEP[0]:.0f} µs for its bytes and {1e6 * STEP[1]:.2f} µs for its arithmetic",
    f"processes {tokens_of(5, 12, cache=False)} tokens, the cached one {tokens_of(5, 12, cache=True)}",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


def test_what_the_lesson_says_in_words():
    for p, n in ((20, 200), (5, 12), (11, 4), (4, 3)):  # the two formulas
        assert tokens_of(p, n, cache=False) == n * p + n * (n - 1) // 2
        assert tokens_of(p, n, cache=True) == p + n - 1
    for p, n in ((20, 200), (5, 12)):  # "either way", and answer 5
        assert total(moved, p, n, cache=False, size=4) == total(moved, p, n, cache=True, size=4)
    weights = 200 * 4 * TOTAL / total(moved, 20, 200, cache=True, size=4)
    assert weights > 0.98  # "nearly all of it is weights"
    assert all(intensity(q) < q for q in (1, 16, 64, 256, 1024))  # "it is below q"
    assert max(STEP) == STEP[0] and max(PREFILL) == PREFILL[1]  # decode waits for bytes, this prefill for arithmetic
    assert 7 < tokens_of(5, 12, cache=False) / tokens_of(5, 12, cache=True) < 8  # question 5: "eight times"
    assert {len(chr(code).encode()) for code in (0x24, 0xE9, 0x65E5, 0x10348, 0x10FFFF)} == {1, 2, 3, 4}


def test_the_answers_state_the_computed_numbers():
    answers = (ROOT / "solutions/level01/answers.md").read_text(encoding="utf-8")
    for claim in (
        f"eight chunks of 128 move {sum(moved(128, start) for start in range(0, 1024, 128)) / moved(1024):.1f} times",
        f"the ridge goes from {PEAK / BANDWIDTH:.0f} to {2 * PEAK / BANDWIDTH:.0f} FLOP/byte",
        f"read the weights {len(passes(5, 12, cache=True))} times, "
        f"{total(moved, 5, 12, cache=True, size=4) / 1e9:.2f} GB",
        f"at most {passes(5, 12, cache=False)[-1][0]} tokens in a pass",
    ):
        assert claim in answers


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level01\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level01")]
    assert f"6 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 7))


def test_links_into_level_00_lead_to_its_headings():
    headings = re.findall(r"^#+ (.*)$", (ROOT / "levels/level00/README.md").read_text(encoding="utf-8"), re.M)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    linked = re.findall(r"\.\./level00/README\.md#([^)]*)\)", LESSON)
    assert linked and set(linked) <= anchors


def test_characters_and_stop_strings_do_not_end_where_tokens_do():
    _, _, data = models.load()
    merges = [tuple(merge.split(" ")) for merge in data["merges"]]
    library = Tokenizer(BPE({token: i for i, token in enumerate(data["tokens"])}, merges))
    library.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    sizes = [len(token) for token in library.encode("日本語").tokens]  # in this alphabet a character stands for a byte
    ends = {len("日本語"[:n].encode()) for n in (1, 2, 3)}
    complete = [i for i, num_bytes in enumerate(accumulate(sizes), 1) if num_bytes in ends]
    assert (len(sizes), complete) == (6, [2, 3, 6])
    assert (
        "日本語 with six tokens, and whole characters are complete after the second, the third and the sixth" in LESSON
    )
    assert len(library.encode("\n\nQuestion:").ids) == 4 and r'"\n\nQuestion:" takes four' in LESSON


@pytest.fixture
def solved(monkeypatch):
    """level01.generate and level01.simple_cache, the solutions, on level 00's."""
    for level in ("level00", "level01"):
        for name in [name for name in sys.modules if name.partition(".")[0] == level]:
            monkeypatch.delitem(sys.modules, name)
        package = ModuleType(level)
        package.__path__ = [str(ROOT / "solutions" / level)]
        monkeypatch.setitem(sys.modules, level, package)
    yield importlib.import_module("level01.generate"), importlib.import_module("level01.simple_cache")
    for name in [name for name in sys.modules if name.startswith(("level00.", "level01."))]:
        del sys.modules[name]


@torch.no_grad()
def test_what_wrong_loops_say_on_the_real_model(solved):
    generate, simple_cache = solved
    config, params, data = models.load()

    def text(ids):
        return "".join(data["tokens"][i] for i in ids).replace("Ġ", " ").replace("Ċ", "\n")

    def positions_restart(params, config, ids, cache):
        return generate.forward(params, config, ids, cache, positions=torch.arange(ids.shape[1]))

    def mask_upper_left(params, config, ids, cache):
        mask = torch.ones(ids.shape[1], cache.length + ids.shape[1], dtype=torch.bool).tril()
        return generate.forward(params, config, ids, cache, mask=mask)

    assert text(generate.generate(params, config, PROMPT, 2)) == " Paris."
    said = text(generate.generate(params, config, PROMPT, 12, forward=positions_restart))
    assert said.split() == ["Paris.", *["Paris"] * (len(said.split()) - 1)] and said.count("Paris\n") >= 3
    assert 'still answers " Paris." and then repeats "Paris" line after line' in LESSON
    said = text(generate.generate(params, config, PROMPT, 8, chunk_size=2, forward=mask_upper_left))
    assert set(said) == {"-"} and "is continued by dashes" in LESSON

    cache, said = simple_cache.SimpleCache(config.n_layers), []
    generate.prefill(params, config, PROMPT, cache)
    token = PROMPT[-1]
    for _ in range(6):
        token = int(generate.decode_step(params, config, token, cache).argmax())
        said.append(token)
    assert f'gets "{text(said).strip()}"' in LESSON

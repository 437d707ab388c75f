"""Every number in the lesson of level 00, computed again: a claim is built here and must stand there verbatim."""

import importlib
import re
import sys
from math import comb, inf, pi, sqrt
from pathlib import Path
from types import ModuleType

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from torch.nn.functional import cross_entropy

from dojo import catalog, models

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level00/README.md").read_text(encoding="utf-8")
PARAGRAPH = (
    "Photosynthesis is the process by which green plants use sunlight to make food from carbon dioxide and water. It "
    "takes place in the chloroplasts, which contain a green pigment called chlorophyll. The process releases oxygen "
    "into the air."
)

C = models.SMOLLM2
KINDS = {"embed_tokens": "embedding", "self_attn": "attention", ".mlp.": "mlp", "norm": "norm"}
SIZES = dict.fromkeys(KINDS.values(), 0)  # counted over the shapes of all tensors
for name, shape in models.shapes(C).items():
    SIZES[next(kind for part, kind in KINDS.items() if part in name)] += torch.Size(shape).numel()
TOTAL = sum(SIZES.values())
MULTIPLIED = TOTAL - SIZES["norm"]  # tied: the look-up multiplies nothing, the vocabulary projection the whole matrix
SCORE_FLOPS = 4 * C.n_layers * C.n_heads * C.head_dim  # of one token, per token of its context
Q, KV = C.n_heads * C.head_dim, C.n_kv_heads * C.head_dim
SHARE = {kind: f"{100 * size / TOTAL:.1f}%" for kind, size in SIZES.items()}
SLOWEST = C.rope_theta ** (-2 * (C.head_dim // 2 - 1) / C.head_dim)  # radians a token
FP16 = torch.finfo(torch.float16)

CLAIMS = [
    # the big idea
    f"SmolLM2-135M in float32, as it runs here, is {4 * TOTAL / 1e6:.0f} MB",
    f"the model is {C.n_layers} of them",
    f"({Q} + {KV} + {KV}) × {C.d_model}",
    f"{Q} × {C.d_model}",
    f"2 × {C.d_ff} × {C.d_model}",
    f"{C.d_model} × {C.d_ff}",
    f"`(1, 5, {C.d_model})`",
    f"`(1, {C.n_heads}, 5, {C.head_dim})`",
    f"`(1, {C.n_kv_heads}, 5, {C.head_dim})`",
    f"`(1, {C.n_heads}, 5, 5)`",
    f"`(1, 5, {C.vocab_size})`",
    # the concepts
    f"the stream passes {2 * C.n_layers} additions, two in each of {C.n_layers} blocks",
    f"{4 * C.d_model:,} bytes per position in float32",
    f"300² is {300**2:,}, float16 ends at {int(FP16.max):,}",
    f"it touches {C.d_model} activations",
    f"the dot product of two vectors of {C.head_dim} independent entries",
    f"a standard deviation of {sqrt(C.head_dim):.0f}",
    f"of the {64 * 64:,} scores of a 64-token prompt {64 + comb(64, 2):,} count",
    f"with theta {C.rope_theta:,.0f} and `head_dim` {C.head_dim}",
    f"the slowest needs {2 * pi / SLOWEST:,.0f} tokens for a full turn",
    f"feature i and feature i + {C.head_dim // 2}",
    f"SmolLM2 has {C.n_heads} query heads and {C.n_kv_heads} KV heads",
    f"{2 * C.n_layers * KV:,} numbers per token are kept, instead of {2 * C.n_layers * Q:,}",
    f"Of {TOTAL:,} parameters the MLPs hold {SHARE['mlp']}, the embedding {SHARE['embedding']}, "
    f"attention {SHARE['attention']}",
    f"In bfloat16 that is {2 * TOTAL / 1e9:.3f} GB for each decoded token",
    # pitfalls, checkpoint, questions
    f"Squares in float16 overflow at {next(n for n in range(1000) if n * n > FP16.max)} already",
    f"between {1e-3 / sqrt(1e-3**2 + 1e-5):.3f} and {1e-3 / (1e-3 + 1e-5):.3f}",
    f"bfloat16 has no 257; it becomes {torch.tensor(257).bfloat16():.0f}",
    f"query heads 0, 1 and {max(h for h in range(C.n_heads) if h // (C.n_heads // C.n_kv_heads) == 0)} share KV head 0",
    f"are {64 * (2 * MULTIPLIED + SCORE_FLOPS * 64):,}, exactly 64 times `flops_per_token(config, 64)`",
    f"The embedding holds {100 * SIZES['embedding'] / TOTAL:.0f}% of the weights",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


def test_what_the_lesson_says_in_words():
    flops_per_weight = 2 * MULTIPLIED / TOTAL
    assert flops_per_weight / 4 == pytest.approx(0.5, rel=0.01)  # float32: "half a FLOP per byte"
    assert flops_per_weight / 2 == pytest.approx(1, rel=0.01)  # bfloat16: "about one FLOP per byte"
    assert torch.tensor(89.0).exp() == inf and torch.tensor(88.0).exp() < inf  # "exp(89) is infinite in float32"


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level00\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level00")]
    assert f"8 concepts · {len(rows)} katas" in LESSON
    assert [int(n) for n in re.findall(r"^### (\d+)\. ", LESSON, re.M)] == list(range(1, 9))


@pytest.fixture(scope="module")
def paragraph():
    """Token ids of the paragraph, by the tokenizers library."""
    _, _, data = models.load()
    merges = [tuple(merge.split(" ")) for merge in data["merges"]]
    library = Tokenizer(BPE({token: i for i, token in enumerate(data["tokens"])}, merges))
    library.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    return library.encode(PARAGRAPH).ids


def test_bytes_of_text_per_pass_over_the_weights(paragraph):
    num_bytes = len(PARAGRAPH.encode())
    assert f"SmolLM2 needs {len(paragraph)} tokens for {num_bytes} bytes of English" in LESSON
    assert f"one pass over the weights yields {num_bytes / len(paragraph):.1f} bytes of text" in LESSON
    assert f"a paragraph of {len(paragraph)} tokens" in LESSON


@pytest.fixture
def transformer(monkeypatch):
    """The solution's forward pass, under a private name."""
    package = ModuleType("lesson00")
    package.__path__ = [str(ROOT / "solutions/level00")]
    monkeypatch.setitem(sys.modules, "lesson00", package)
    yield importlib.import_module("lesson00.transformer")
    for name in [name for name in sys.modules if name.startswith("lesson00.")]:
        del sys.modules[name]


def interleaved(x, cos, sin):
    """RoPE on pairs of neighbours, the paper's layout, by complex numbers."""
    half = x.shape[-1] // 2
    turn = torch.complex(cos[..., :half], sin[..., :half])
    return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (half, 2)).contiguous()) * turn).flatten(-2)


def test_losses_and_answers_on_the_real_model(transformer, paragraph, monkeypatch):
    config, params, data = models.load()
    ids, prompt = torch.tensor([paragraph]), torch.tensor([[504, 3575, 282, 4649, 314]])

    @torch.no_grad()
    def loss(mask="causal"):
        logits = transformer.forward(params, config, ids, mask=mask)
        return f"{cross_entropy(logits[0, :-1], ids[0, 1:]):.2f}"

    @torch.no_grad()
    def answer():
        return data["tokens"][transformer.forward(params, config, prompt)[0, -1].argmax()]

    right, sees_the_future = loss(), loss(torch.ones(len(paragraph), len(paragraph), dtype=torch.bool))
    assert answer() == "ĠParis"
    monkeypatch.setattr(transformer, "apply_rope", interleaved)
    assert f"rises from {right} to {loss()} nats" in LESSON and answer() == "ĠParis"
    assert f"is {right} nats" in LESSON and f"sees the future scores {sees_the_future}:" in LESSON

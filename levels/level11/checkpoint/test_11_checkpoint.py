"""The power pellet of level 11: SmolLM2-135M with windows in two layers of three, and with its MLPs cut into experts.

Answers are level 05's stored ones, made by transformers' generate. What a window changes is compared with masks that
are written down entry by entry here, without a cache; four experts of which a token uses all are the dense model.
"""

import json
from functools import partial
from pathlib import Path

import pytest
import torch

from dojo.models import load
from level00.layers import attention
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward, swiglu
from level01.generate import generate
from level02.window import RingCache, forward_windowed
from level06.quality import TEXT
from level11.families import sparse_decoder
from level11.hybrid import HybridCache, forward_hybrid, layer_is_global
from level11.mla import attend_absorbed
from level11.moe import moe_forward, route

LEVELS = Path(__file__).parents[2]
STORED = json.loads((LEVELS / "level05" / "checkpoint" / "smollm2.json").read_text(encoding="utf-8"))["requests"]
PERIOD, WINDOW, N_EXPERTS = 3, 64, 4
HEADS, LATENTS = 16, 2048
NEED = 0.17  # of four products that read the latents once: right programs reach 0.6 to 0.9, one that makes keys 0.05
NEED_GROUPED = 0.45  # of each expert on its own tokens: right ones reach 0.8, all experts on all tokens 0.27


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture(scope="module")
def text(model):
    """169 tokens that the model does not know by heart: (1, 169)."""
    return torch.tensor([SmolTokenizer.from_model(model[2]).encode(TEXT)])


def hybrid_of(config, tokens: int) -> HybridCache:
    return HybridCache(config, layer_is_global(config.n_layers, PERIOD), 1, WINDOW, tokens)


def loss(logits, ids) -> float:
    """Mean negative log-probability of each next token, in nats."""
    return torch.nn.functional.cross_entropy(logits[0, :-1].double(), ids[0, 1:]).item()


def written_down(config, n: int):
    """An `attend` that gives each layer its mask, entry by entry; without a cache."""
    rows = torch.tensor([[0 <= i - j < WINDOW for j in range(n)] for i in range(n)])
    layers = iter(range(config.n_layers))

    def attend(q, k, v, mask):
        return attention(q, k, v, mask if next(layers) % PERIOD == PERIOD - 1 else rows)

    return attend


def cut(params, config, n_experts: int = N_EXPERTS) -> dict:
    """The same model with its MLPs cut into experts, each with a part of the features; a router that has no opinion."""
    cut = {name: weight for name, weight in params.items() if ".mlp." not in name}
    for layer in range(config.n_layers):
        p = f"model.layers.{layer}.mlp."
        gate, up, down = (params[f"{p}{name}_proj.weight"] for name in ("gate", "up", "down"))
        halves = gate.unflatten(0, (n_experts, -1)), up.unflatten(0, (n_experts, -1))
        cut[p + "experts.gate_up_proj"] = torch.cat(halves, 1)
        cut[p + "experts.down_proj"] = n_experts * down.unflatten(1, (n_experts, -1)).transpose(0, 1)  # gates are 1/n
        cut[p + "gate.weight"] = torch.zeros(n_experts, config.d_model)
    return cut


def experts_of_layer(model, n_experts: int = N_EXPERTS) -> list:
    """The parts of the first MLP, as functions."""
    gate, up, down = (model[1][f"model.layers.0.mlp.{name}_proj.weight"] for name in ("gate", "up", "down"))
    parts = zip(gate.chunk(n_experts), up.chunk(n_experts), down.chunk(n_experts, 1))
    return [partial(swiglu, w_gate=a, w_up=b, w_down=c.contiguous()) for a, b, c in parts]


# ---- windows


@pytest.mark.kata("level11.checkpoint")
@pytest.mark.parametrize("name", ["question", "letters"])
def test_while_the_text_is_shorter_than_the_window_the_words_are_the_same(expect, model, name):
    """Oracle: transformers' generate on the whole model. 20 of the 30 layers have a ring."""
    config, params, data = model
    one = STORED[name]

    def answer(ids):
        cache = hybrid_of(config, len(ids) + one["max_tokens"])
        with torch.inference_mode():
            return generate(params, config, ids, one["max_tokens"], {data["eos_id"]}, cache, forward=forward_hybrid)

    expect(answer, one["ids"]).equals(one["answer"])


@pytest.mark.kata("level11.checkpoint")
def test_a_long_text_read_in_parts_gives_what_masks_give(expect, model, text):
    """Oracle: one pass with masks written down entry by entry, and no cache. Windows are full from token 64 on."""
    config, params, _ = model
    n = text.shape[1]
    with torch.inference_mode():
        right = forward(params, config, text, attend=written_down(config, n))[0]

    def in_parts(*ends):
        cache = hybrid_of(config, n)
        with torch.inference_mode():
            parts = [text[:, a:b] for a, b in zip((0, *ends), (*ends, n))]
            return torch.cat([forward_hybrid(params, config, part, cache)[0] for part in parts])

    expect(in_parts, 40, 41, 120).equals(right, abs=2e-3)


@pytest.mark.kata("level11.checkpoint")
def test_two_layers_of_three_keep_a_window(expect, model):
    """Of 1,024 tokens: 10 layers keep 1,024 and 20 keep 64, of 3 heads of 64 keys and 64 values in float32."""
    held = 10 * 1024 + 20 * 64
    expect(lambda n: hybrid_of(model[0], n).nbytes, 1024).equals(held * 2 * 3 * 64 * 4)


@pytest.mark.kata("level11.checkpoint")
def test_what_windows_cost_a_model_that_was_not_trained_for_them(expect, model, text):
    """The loss of the whole model is 3.577 nats; with windows in two layers of three 4.082, in all of them 4.218."""
    config, params, _ = model

    def losses():
        with torch.inference_mode():
            hybrid = forward_hybrid(params, config, text, hybrid_of(config, text.shape[1]))
            local = forward_windowed(params, config, text, RingCache(config, 1, WINDOW))
            return [loss(logits, text) for logits in (forward(params, config, text), hybrid, local)]

    expect(losses).equals([3.577, 4.082, 4.218], abs=0.01)


# ---- experts


@pytest.mark.kata("level11.checkpoint")
def test_all_experts_together_are_the_dense_model(expect, model, text):
    """Oracle: level 00's forward. Cut in four, and all four used, each with a gate of 1/4."""
    config, params, _ = model
    ids = text[:, :48]
    with torch.inference_mode():
        right = forward(params, config, ids)
        expect(lambda k: sparse_decoder(cut(params, config), config, ids, k=k, renormalize=True), N_EXPERTS).equals(
            right, abs=1e-2
        )


@pytest.mark.kata("level11.checkpoint")
def test_cutting_is_not_training(expect, model, text):
    """The loss with 4, 3, 2 and 1 of the parts: nobody has taught them to do without the others."""
    config, params, _ = model
    parts = cut(params, config)

    def loss_with(k):
        with torch.inference_mode():
            return loss(sparse_decoder(parts, config, text, k=k, renormalize=True), text)

    expect(lambda: [loss_with(k) for k in (4, 3, 2, 1)]).equals([3.577, 6.288, 10.355, 13.211], abs=0.02)


@pytest.mark.kata("level11.checkpoint")
@pytest.mark.parametrize("k", [1, 2, 4])
def test_a_token_reads_the_weights_of_its_experts(expect, model, k):
    """One token, one layer: k quarters of 10.6 MB, and next to nothing else."""
    experts, x = experts_of_layer(model), torch.randn(1, 576, generator=torch.Generator().manual_seed(0))
    quarter = 4 * 3 * 576 * 384  # bytes
    spent = expect.cost(lambda k: moe_forward(x, *route(torch.zeros(1, N_EXPERTS), k), experts), k, of="bytes_read")
    spent.holds(
        lambda got: k * quarter <= got["bytes_read"] <= 1.02 * k * quarter,
        f"{k} of 4 experts are {k * quarter:,} bytes, and 2% are room enough for the rest",
    )


# ---- the clock


def latents():
    """(arguments of a decode step behind LATENTS tokens, the products that read the latents once)."""
    draw = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(*shape, generator=draw)

    q_nope, q_rope = random(1, HEADS, 1, 64), random(1, HEADS, 1, 32)
    latent, k_rope = random(1, LATENTS, 128), random(1, LATENTS, 32)
    w_uk, w_uv = 0.1 * random(HEADS, 64, 128), 0.1 * random(HEADS, 64, 128)
    both, queries, weights = torch.cat([latent, k_rope], -1), random(1, HEADS, 160), random(1, HEADS, LATENTS)

    def products():
        torch.bmm(q_nope.view(HEADS, 1, 64), w_uk)
        torch.bmm(queries, both.mT)
        torch.bmm(torch.bmm(weights, latent).view(HEADS, 1, 128), w_uv.mT)

    return (q_nope, q_rope, latent, k_rope, w_uk, w_uv), products


def crowd(model):
    """(arguments of moe_forward for 256 tokens, 2 of 8 parts of an MLP each; each expert on its own tokens alone)."""
    experts, draw = experts_of_layer(model, 8), torch.Generator().manual_seed(0)
    x = torch.randn(256, 576, generator=draw)
    chosen, gates = route(torch.randn(256, 8, generator=draw), 2)
    counts = chosen.flatten().bincount(minlength=8).tolist()

    def each_alone():
        for expert, n in zip(experts, counts):
            expert(x[:n])

    return (x, chosen, gates, experts), each_alone


@pytest.mark.kata("level11.checkpoint")
@torch.inference_mode()
def test_a_decode_step_reads_latents_and_makes_no_keys(roofline):
    """16 heads behind 2,048 tokens: the scores, the mix and two small products, and no key of any head."""
    args, products = latents()
    size = LATENTS * (160 + 128) + 2 * HEADS * 64 * 128
    roofline(
        lambda: attend_absorbed(*args),
        products,
        need=NEED,
        flops=2 * HEADS * (LATENTS * (160 + 128) + 2 * 64 * 128),
        bytes=4 * size,
        name="absorbed attention over 2,048 latents",
    )


@pytest.mark.kata("level11.checkpoint")
@torch.inference_mode()
def test_experts_run_on_their_own_tokens_and_all_at_once(roofline, model):
    """256 tokens, 2 of 8 experts each: a quarter of the dense MLP's work."""
    args, each_alone = crowd(model)
    roofline(
        lambda: moe_forward(*args),
        each_alone,
        need=NEED_GROUPED,
        flops=2 * 256 * 2 * 3 * 576 * 192,
        bytes=4 * 3 * 576 * 1536,
        name="256 tokens through their 2 of 8 experts",
    )

"""Judges transformer.py against a second forward pass, written here from torch's own functions.

No mix-up cancels in its model: 6 query and 2 KV heads of 4 features (24 in all, d_model is 20), 3 layers, a theta and
an eps of its own, untied embeddings, random norm weights.
"""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from dojo.models import TINY, Config, random_params
from level00.transformer import block, forward, hidden_states, self_attention, swiglu

MODEL = Config(3, 20, 6, 2, 4, 28, 101, rope_theta=500.0, norm_eps=0.05, max_seq_len=128, tie_embeddings=False)
PARAMS = random_params(MODEL, seed=0)
IDS = torch.tensor([[3, 14, 15, 92, 65, 35, 89], [27, 18, 28, 18, 28, 45, 90]])
X = PARAMS["model.embed_tokens.weight"][IDS]  # (2, 7, 20), an ordinary residual stream
CAUSAL = torch.ones(7, 7, dtype=torch.bool).tril()
# (2, 1, 7, 7): another mask for each row, and one that lets tokens see ahead
PER_ROW = torch.stack([CAUSAL.fliplr().flipud(), CAUSAL & (torch.arange(7) > 2)]).unsqueeze(1) | torch.eye(7).bool()
CLOSE = {"rel": 1e-4, "abs": 1e-4}  # another order of additions, three layers deep


def rotated(x, positions, config=MODEL):
    """Oracle's RoPE: complex multiplication of the pairs (i, i + half)."""
    half = config.head_dim // 2
    speed = config.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = positions.double().unsqueeze(-1) * speed
    turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], -1).float()


def oracle_attention(x, layer, positions, mask, params=PARAMS, c=MODEL):
    p, (B, S, _) = f"model.layers.{layer}.self_attn.", x.shape
    q, k, v = (F.linear(x, params[p + n + "_proj.weight"]).view(B, S, -1, c.head_dim).transpose(1, 2) for n in "qkv")
    out = F.scaled_dot_product_attention(rotated(q, positions, c), rotated(k, positions, c), v, mask, enable_gqa=True)
    return F.linear(out.transpose(1, 2).reshape(B, S, -1), params[p + "o_proj.weight"])


def oracle_block(x, layer, positions, mask, params=PARAMS, config=MODEL):
    p = f"model.layers.{layer}."
    norm = lambda x, name: F.rms_norm(x, (config.d_model,), params[p + name], config.norm_eps)  # noqa: E731
    x = x + oracle_attention(norm(x, "input_layernorm.weight"), layer, positions, mask, params, config)
    h = norm(x, "post_attention_layernorm.weight")
    gate, up, down = (params[p + f"mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
    return x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)


def oracle_hidden(ids, positions=None, mask=None, params=PARAMS, config=MODEL):
    positions = torch.arange(ids.shape[1]) if positions is None else positions
    mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril() if mask is None else mask
    x = params["model.embed_tokens.weight"][ids]
    for layer in range(config.n_layers):
        x = oracle_block(x, layer, positions, mask, params, config)
    return F.rms_norm(x, (config.d_model,), params["model.norm.weight"], config.norm_eps)


def tables(positions):
    """cos and sin of the oracle: a rotated vector of ones in one half shows both."""
    shape = *positions.shape, MODEL.head_dim // 2
    cos, sin = rotated(torch.cat([torch.ones(shape), torch.zeros(shape)], -1), positions).chunk(2, -1)
    return torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)


class Recorder:
    """Stands in for `attend` or `linear`: notes what it is given and does the ordinary thing."""

    def __init__(self, call):
        self.call, self.seen = call, []

    def __call__(self, *args):
        self.seen.append(args)
        return self.call(*args)


def plain_attend(q, k, v, mask):
    if isinstance(mask, str):
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


class PlainCache:
    """The simplest KV cache: everything so far, joined. Empty it counts as false, and nobody else sets its length."""

    def __init__(self):
        self.kept = {}

    @property
    def length(self):  # grows when the last layer has been updated
        return self.kept[MODEL.n_layers - 1][0].shape[2] if MODEL.n_layers - 1 in self.kept else 0

    def __len__(self):
        return self.length

    def update(self, layer, k, v):
        if layer in self.kept:
            k, v = (torch.cat([old, new], 2) for old, new in zip(self.kept[layer], (k, v)))
        self.kept[layer] = (k, v)
        return k, v


class Sines(TorchDispatchMode):
    """Counts the operators that make angles into sines and cosines."""

    seen = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.seen += op.overloadpacket.__name__.rstrip("_") in ("sin", "cos", "polar")
        return op(*args, **(kwargs or {}))


# ---- the MLP and attention, which are part of the block


@pytest.mark.kata("level00.transformer.block")
def test_silu_gates_the_other_projection(expect):
    """x = [1, 2], gate = I, up = diag(2, 3): silu(1) · 2 = 1.4621 and silu(2) · 6 = 10.5696."""
    x, eye, up = torch.tensor([[1.0, 2.0]]), torch.eye(2), torch.diag(torch.tensor([2.0, 3.0]))
    expect(swiglu, x, eye, up, eye).equals(torch.tensor([[1.4621172, 10.5695639]]))


@pytest.mark.kata("level00.transformer.block")
def test_the_mlp_projects_down_again(expect):
    """(d_ff, d_model) up, (d_model, d_ff) down. Oracle: F.silu and F.linear, widths 3 and 5."""
    x = torch.linspace(-1, 2, 12).view(2, 2, 3)
    gate, up = torch.linspace(-1, 1, 15).view(5, 3), torch.linspace(2, -1, 15).view(5, 3)
    down = torch.linspace(0.5, -1, 15).view(3, 5)
    expect(swiglu, x, gate, up, down).equals(F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down))


@pytest.mark.kata("level00.transformer.block")
def test_a_large_gate_opens_or_shuts_completely(expect):
    """silu(100) = 100 and silu(-100) = 0 while e^100 overflows float32; silu(1) = 0.7311 beside them stays as it is."""
    eye = torch.eye(3)
    expect(swiglu, torch.tensor([100.0, -100.0, 1.0]), eye, eye, eye).equals(torch.tensor([10000.0, 0.0, 0.7310586]))


@pytest.mark.kata("level00.transformer.block")
@pytest.mark.parametrize("start", [0, 9], ids=["from 0", "from 9"])
def test_attention_projects_rotates_and_looks_up(expect, start):
    """Oracle: SDPA and complex rotation. Values are not rotated: content has no position."""
    positions = torch.arange(start, start + 7)
    right = oracle_attention(X, 1, positions, CAUSAL)
    expect(self_attention, X, PARAMS, MODEL, 1, *tables(positions), "causal").equals(right, **CLOSE)


@pytest.mark.kata("level00.transformer.block")
def test_keys_are_cached_rotated_and_values_as_they_are(expect):
    """What goes into the cache is final: it is read at every later step, and the rotation must not be redone."""
    positions, p = torch.arange(5, 12), "model.layers.1.self_attn."
    k, v = (F.linear(X, PARAMS[p + n]).view(2, 7, 2, 4).transpose(1, 2) for n in ("k_proj.weight", "v_proj.weight"))

    def cached(*args):
        cache = PlainCache()
        self_attention(*args, "causal", cache)
        return cache.kept[1]

    expect(cached, X, PARAMS, MODEL, 1, *tables(positions)).equals((rotated(k, positions), v), **CLOSE)


@pytest.mark.kata("level00.transformer.block")
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_block_adds_attention_and_then_the_mlp(expect, layer):
    """Oracle: pre-norm, two additions to the stream, this layer's own weights."""
    positions = torch.arange(7)
    right = oracle_block(X, layer, positions, CAUSAL)
    expect(block, X, PARAMS, MODEL, layer, *tables(positions), CAUSAL).equals(right, **CLOSE)


@pytest.mark.kata("level00.transformer.block")
def test_a_block_obeys_a_mask_of_each_row(expect):
    """Padded rows need masks of their own, and not every mask is causal: tokens of an image see one another."""
    positions = torch.arange(7)
    right = oracle_block(X, 0, positions, PER_ROW)
    expect(block, X, PARAMS, MODEL, 0, *tables(positions), PER_ROW).equals(right, **CLOSE)


@pytest.mark.kata("level00.transformer.block")
def test_a_block_attends_to_what_is_cached(expect):
    """4 tokens, then 3 with the cache, give what 7 give at once: the keys that `update` returns are the ones to use."""

    def in_two_chunks(x, cos, sin):
        cache = PlainCache()
        parts = [(x[:, a:b], PARAMS, MODEL, 1, cos[a:b], sin[a:b], "causal", cache) for a, b in ((0, 4), (4, 7))]
        return torch.cat([block(*part) for part in parts], 1), list(cache.kept)

    right = oracle_block(X, 1, torch.arange(7), CAUSAL)
    expect(in_two_chunks, X, *tables(torch.arange(7))).equals((right, [1]), **CLOSE)


@pytest.mark.kata("level00.transformer.block")
def test_with_silent_outputs_a_block_is_the_identity(expect):
    """o_proj and down_proj at zero add nothing: the stream passes through untouched, which is what lets depth train.

    The same dict as before, with other weights in it; and a stream as large as real models have it.
    """
    params, cos_sin = dict(PARAMS), tables(torch.arange(7))
    right = oracle_block(X, 0, torch.arange(7), CAUSAL)
    expect(block, X, params, MODEL, 0, *cos_sin, "causal").equals(right, **CLOSE)
    params |= {n: w * 0 for n, w in PARAMS.items() if n.endswith(("o_proj.weight", "down_proj.weight"))}
    expect(block, X * 1e4, params, MODEL, 0, *cos_sin, "causal").equals(X * 1e4, rel=0, abs=0)


@pytest.mark.kata("level00.transformer.block")
def test_every_matrix_is_read_once_and_only_by_linear(expect):
    """Decode speed is bytes read: seven matrices, each once. Level 06 puts quantized weights behind this argument."""
    names = [n for n in PARAMS if n.startswith("model.layers.0.") and PARAMS[n].dim() == 2]

    def read_by_linear(x, *rest):
        linear = Recorder(F.linear)
        y = block(x, PARAMS, MODEL, 0, *rest, linear=linear)
        return sorted(n for n in PARAMS for _, w in linear.seen if w is PARAMS[n]), y.shape

    expect(read_by_linear, X, *tables(torch.arange(7)), "causal").equals((sorted(names), X.shape))


@pytest.mark.kata("level00.transformer.block")
def test_attend_is_given_kv_heads_as_they_are_and_the_mask(expect):
    """2 KV heads, not repeated to 6: repeating them would triple the bytes that a decode step reads."""

    def given_to_attend(x, cos, sin):
        attend = Recorder(plain_attend)
        block(x, PARAMS, MODEL, 0, cos, sin, "causal", attend=attend)
        return [(tuple(q.shape), tuple(k.shape), tuple(v.shape), mask) for q, k, v, mask in attend.seen]

    right = [((2, 6, 7, 4), (2, 2, 7, 4), (2, 2, 7, 4), "causal")]
    expect(given_to_attend, X, *tables(torch.arange(7))).equals(right)


# ---- the whole pass


@pytest.mark.kata("level00.transformer.hidden_states")
@pytest.mark.parametrize("config", [MODEL, TINY], ids=["this model", "another"])
def test_all_layers_and_the_final_norm_are_there(expect, config):
    """Oracle: the second forward pass above, for two models that differ in every number."""
    params = random_params(config, seed=0)
    expect(hidden_states, params, config, IDS).equals(oracle_hidden(IDS, params=params, config=config), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_logits_are_the_hidden_states_against_the_vocabulary(expect):
    """With the given `unembed`. Oracle: hidden states of the second pass times lm_head."""
    right = F.linear(oracle_hidden(IDS), PARAMS["lm_head.weight"])
    expect(forward, PARAMS, MODEL, IDS).equals(right, rel=1e-3, abs=1e-3)


@pytest.mark.kata("level00.transformer.hidden_states")
@pytest.mark.parametrize("shape", ["shared", "per row"])
def test_positions_can_be_given(expect, shape):
    """A left-padded batch (level 02) has other positions in every row; the causal mask goes by order all the same."""
    rows = torch.tensor([[20, 22, 23, 30, 31, 40, 41], [0, 5, 3, 9, 1, 7, 6]])  # RoPE sees distances, so these differ
    positions = rows[1] if shape == "shared" else rows
    right = oracle_hidden(IDS, positions if shape == "shared" else positions.unsqueeze(1))
    expect(hidden_states, PARAMS, MODEL, IDS, positions=positions).equals(right, **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
@pytest.mark.parametrize("packed", [True, False], ids=["packed", "per row"])
def test_a_mask_can_be_given(expect, packed):
    """Two packed requests of 3 and 4 tokens must not see one another (level 05); masks may differ from row to row."""
    mask = torch.block_diag(torch.ones(3, 3), torch.ones(4, 4)).bool().tril() if packed else PER_ROW
    expect(hidden_states, PARAMS, MODEL, IDS, mask=mask).equals(oracle_hidden(IDS, mask=mask), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_a_reused_buffer_of_tokens_is_read_again(expect):
    """Decode loops write the new token into the tensor that they passed before."""

    def second_pass(ids):
        buffer = ids.flip(1).contiguous()
        hidden_states(PARAMS, MODEL, buffer)
        return hidden_states(PARAMS, MODEL, buffer.copy_(ids))

    expect(second_pass, IDS).equals(oracle_hidden(IDS), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_rows_of_other_tokens_are_not_read(expect):
    """The embedding is looked up, not multiplied: 113 MB of SmolLM2 must not move for a token. NaN marks the others."""
    params = dict(PARAMS)
    params["model.embed_tokens.weight"] = torch.full_like(PARAMS["model.embed_tokens.weight"], torch.nan)
    params["model.embed_tokens.weight"][IDS] = X
    expect(hidden_states, params, MODEL, IDS).equals(oracle_hidden(IDS), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_the_tables_are_made_once_for_all_layers(expect):
    """Every layer turns by the same angles: three layers ask for as many sines as one."""

    def sines(ids, n_layers):
        config = replace(MODEL, n_layers=n_layers)
        hidden_states(PARAMS, config, ids)  # an unfilled kata ends here: a dispatch mode takes a second to import
        with Sines() as sines:
            hidden_states(PARAMS, config, ids)
        return sines.seen

    def more_for_more_layers(ids):
        return sines(ids, 3) - sines(ids, 1)

    expect(more_for_more_layers, IDS).equals(0)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_what_the_model_cannot_read_is_refused(expect):
    """No row, no such token, no such position: each would index past a table, or read the wrong row of it."""
    last = torch.tensor([[100, 0]])
    right = oracle_hidden(last, torch.tensor([126, 127]))
    expect(hidden_states, PARAMS, MODEL, last, positions=torch.tensor([126, 127])).equals(right, **CLOSE)
    expect(hidden_states, PARAMS, MODEL, last, positions=torch.tensor([127, 128])).raises(ValueError)
    for ids in (last + 1, last - 1, last[0], last[:, :0]):
        expect(hidden_states, PARAMS, MODEL, ids).raises(ValueError)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_the_past_does_not_depend_on_the_future(expect):
    """Three tokens alone give what they give as a prefix of seven. This is what makes a KV cache legal."""

    def prefix(ids):
        return hidden_states(PARAMS, MODEL, ids)[:, :3]

    expect(prefix, IDS).equals(oracle_hidden(IDS[:, :3]), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
@pytest.mark.parametrize("chunks", [(4, 3), (1, 1, 5), (6, 1)], ids=str)
def test_in_chunks_with_a_cache_equals_all_at_once(expect, chunks):
    """Positions go on from cache.length, masks are aligned to the end of the keys."""

    def chunked(ids):
        cache = PlainCache()
        return torch.cat([hidden_states(PARAMS, MODEL, part, cache) for part in ids.split(list(chunks), 1)], 1)

    expect(chunked, IDS).equals(oracle_hidden(IDS), **CLOSE)


@pytest.mark.kata("level00.transformer.hidden_states")
def test_replaced_parts_are_used_in_every_layer(expect):
    """attend and linear reach all layers: 3 look-ups, 21 matrix products, and nothing reads a matrix beside them."""

    def calls(ids):
        attend, linear = Recorder(plain_attend), Recorder(F.linear)
        hidden_states(PARAMS, MODEL, ids, attend=attend, linear=linear)
        return len(attend.seen), len({id(w) for _, w in linear.seen}), len(linear.seen)

    expect(calls, IDS).equals((3, 21, 21))

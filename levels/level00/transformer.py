"""The forward pass: token ids in, logits out, as one function of plain tensors.

Llama's arrangement (pre-norm, RoPE, grouped-query attention, SwiGLU), with Llama's names in `params`.
Letters in the shapes: B batch, S sequence, H query heads, G KV heads, D head_dim.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import silu

from dojo.models import Config

from .layers import apply_rope, attention, linear, rms_norm, rope_tables

Params = Mapping[str, Tensor]
Attend = Callable[[Tensor, Tensor, Tensor, Tensor | str], Tensor]
Linear = Callable[[Tensor, Tensor], Tensor]


def split_heads(x: Tensor, head_dim: int) -> Tensor:
    """(B, S, heads * D) -> (B, heads, S, D): each head owns D consecutive features of every token."""
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, heads, S, D) -> (B, S, heads * D), the inverse of `split_heads`."""
    return x.transpose(1, 2).flatten(2)


def self_attention(
    x: Tensor,
    params: Params,
    config: Config,
    layer: int,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | str,
    cache=None,
    *,
    attend: Attend = attention,
    linear: Linear = linear,
) -> Tensor:
    """Return what the attention of `layer` adds to the residual stream.

    x         (B, S, d_model), already normalized; the result has its shape
    cos, sin  tables of the positions of x, broadcastable to (B, heads, S, head_dim)
    cache     None, or an object whose update(layer, k, v) gives the keys and values of all tokens so far (an empty one
              may be falsy: ask `is not None`)

    With p = "model.layers.{layer}.self_attn.": the matrices are p + "q_proj.weight", and k_proj, v_proj, o_proj
    likewise, each applied by `linear`. Queries and keys are rotated, values are not; keys are cached rotated.

    ●● · about 7 lines · part of block
    """
    p = f"model.layers.{layer}.self_attn."
    # TODO: what does attention need of x, and what has to happen before and after it?
    raise NotImplementedError("level00.transformer.block")


def swiglu(x: Tensor, w_gate: Tensor, w_up: Tensor, w_down: Tensor, linear: Linear = linear) -> Tensor:
    """Return down(silu(gate(x)) · up(x)), the gated MLP: silu(z) = z · sigmoid(z).

    x             (..., d_model); the result has its shape
    w_gate, w_up  (d_ff, d_model);  w_down  (d_model, d_ff), each applied by `linear`

    Example: x = [-1, 0], gate = up = identity, down = [[1, 1]] -> [0.2689], since silu(-1) · -1 = 0.2689.
    SwiGLU, arXiv 2002.05202.

    ● · about 1 line · part of block
    """
    # TODO: which of the two projections goes through silu?
    raise NotImplementedError("level00.transformer.block")


def block(
    x: Tensor,
    params: Params,
    config: Config,
    layer: int,
    cos: Tensor,
    sin: Tensor,
    mask: Tensor | str,
    cache=None,
    *,
    attend: Attend = attention,
    linear: Linear = linear,
) -> Tensor:
    """Return the residual stream after block `layer`: x plus attention, then plus the MLP of that sum.

    x  (B, S, d_model); the result has its shape, and x itself stays as it is

    Pre-norm: each half reads a normalized copy (rms_norm with config.norm_eps) and adds its raw result to the
    stream. With p = "model.layers.{layer}.": the norm weights are p + "input_layernorm.weight" (before attention) and
    p + "post_attention_layernorm.weight" (before the MLP), the matrices p + "mlp.gate_proj.weight", up_proj, down_proj.
    `attend` and `linear` are passed on and called positionally; nothing else reads keys, values or matrices.

    ●●● · about 6 lines · needs level00.layers.rms_norm, level00.layers.apply_rope, level00.layers.attention
    """
    p = f"model.layers.{layer}."
    # TODO: two halves: normalize a copy, transform it, add it
    raise NotImplementedError("level00.transformer.block")


def hidden_states(
    params: Params,
    config: Config,
    token_ids: Tensor,
    cache=None,
    *,
    positions: Tensor | None = None,
    mask: Tensor | str = "causal",
    attend: Attend = attention,
    linear: Linear = linear,
) -> Tensor:
    """Return the hidden states after all blocks and the final norm, (B, S, d_model).

    token_ids  (B, S) int
    cache      None, or a KV cache whose `length` tokens come before these
    positions  (S,) or (B, S) int; by default they go on from cache.length
    mask       bool, broadcastable to (B, H, S, cache.length + S), or "causal": by order, whatever the positions

    Rows of "model.embed_tokens.weight" (not scaled), then config.n_layers blocks, then rms_norm with
    "model.norm.weight". The tables of `rope_tables` are made once; for 2-D positions they get an axis for the heads.
    ValueError: token_ids not (B, S) or empty, an id outside the vocabulary, a position beyond max_seq_len.

    ●● · about 7 lines · needs level00.transformer.block
    """
    if token_ids.dim() != 2 or token_ids.numel() == 0:
        raise ValueError(f"token_ids is (batch, seq) with seq at least 1, not {tuple(token_ids.shape)}")
    if token_ids.min() < 0 or token_ids.max() >= config.vocab_size:
        raise ValueError(f"token ids lie in 0..{config.vocab_size - 1}, the vocabulary")
    if positions is None:
        start = 0 if cache is None else cache.length  # read once: it grows while the layers run
        positions = torch.arange(start, start + token_ids.shape[1], device=token_ids.device)
    if positions.max() >= config.max_seq_len:
        raise ValueError(f"position {int(positions.max())} is beyond the {config.max_seq_len} tokens of the model")
    # TODO: what happens before the first block, and after the last?
    raise NotImplementedError("level00.transformer.hidden_states")


def unembed(params: Params, config: Config, hidden: Tensor, linear: Linear = linear) -> Tensor:
    """Logits (..., vocab) of hidden states (..., d_model): one score per token of the vocabulary.

    With tied embeddings the matrix is the embedding's own, unless `params` holds another as "lm_head.weight".
    """
    return linear(hidden, params.get("lm_head.weight", params["model.embed_tokens.weight"]))


def forward(
    params: Params,
    config: Config,
    token_ids: Tensor,
    cache=None,
    *,
    positions: Tensor | None = None,
    mask: Tensor | str = "causal",
    attend: Attend = attention,
    linear: Linear = linear,
) -> Tensor:
    """Logits (B, S, vocab) of token_ids (B, S): `hidden_states`, then `unembed`, with the same arguments."""
    hidden = hidden_states(
        params, config, token_ids, cache, positions=positions, mask=mask, attend=attend, linear=linear
    )
    return unembed(params, config, hidden, linear)

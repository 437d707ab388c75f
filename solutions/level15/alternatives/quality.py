"""Right programs, written another way, for level15.quality. `alternative` is given when this is read."""

import torch
from torch.nn import functional as F

COSINE, KEPT = "level15.quality.attention_output_cosine", "level15.quality.retention"


def _library(q, k, v, own_k, own_v):
    """torch's own attention, with the KV heads written out; then unit vectors."""
    if len({tuple(x.shape) for x in (k, v, own_k, own_v)}) > 1:
        raise ValueError("shapes")
    group = q.shape[1] // k.shape[1]
    outputs = []
    for keys, values in ((k, v), (own_k, own_v)):
        keys, values = (x.float().repeat_interleave(group, 1) for x in (keys, values))
        outputs.append(F.normalize(F.scaled_dot_product_attention(q.float(), keys, values), dim=-1))
    return float((outputs[0] * outputs[1]).sum(-1).mean())


def _query_by_query(q, k, v, own_k, own_v):
    """Loops over rows, heads and queries, in float64."""
    if not (k.shape == v.shape and v.shape == own_k.shape and own_k.shape == own_v.shape):
        raise ValueError("shapes")
    total, (B, H, Q, D) = 0.0, q.shape
    for b in range(B):
        for h in range(H):
            g = h // (H // k.shape[1])
            for x in q[b, h].double():
                came, own = (
                    torch.softmax(keys[b, g].double() @ x / D**0.5, 0) @ values[b, g].double()
                    for keys, values in ((k, v), (own_k, own_v))
                )
                total += (came @ own / (came.norm() * own.norm())).item()
    return total / (B * H * Q)


def _both_at_once(q, k, v, own_k, own_v):
    """Both caches are one batch; the mask is a broadcast single True."""
    from level00.layers import attention

    if any(x.shape != k.shape for x in (v, own_k, own_v)):
        raise ValueError("shapes")
    seen = torch.ones(1, 1, dtype=torch.bool).expand(q.shape[2], k.shape[2])
    both = attention(torch.cat([q, q]), torch.cat([k, own_k]), torch.cat([v, own_v]), seen)
    came, own = both.chunk(2)
    return F.cosine_similarity(came, own, -1).flatten().mean().item()


def _one_less_what_is_lost(score, native, floor):
    if native - floor == 0:
        raise ValueError("floor")
    return 1 - (native - score) / (native - floor)


def _loss(nll, native, no_context):
    if native == no_context:
        raise ValueError("floor")
    return (no_context - nll) / (no_context - native)


def _control(matched, mismatched, margin):
    if not margin > 0:
        raise ValueError("margin")
    return not matched < mismatched + margin


def _reasons(cosine, min_cosine, transfers, move_seconds, prefill_seconds):
    if abs(min_cosine) > 1 or move_seconds < 0 or prefill_seconds < 0:
        raise ValueError("input")
    if not transfers:
        return "recompute"
    if cosine < min_cosine or prefill_seconds <= move_seconds:
        return "recompute"
    return "transfer"


alternative(COSINE, "torch_attention", program=_library)
alternative(COSINE, "query_by_query", program=_query_by_query)
alternative(COSINE, "both_at_once", program=_both_at_once)
alternative(KEPT, "one_less_what_is_lost", program=_one_less_what_is_lost)
alternative(KEPT, "gains_of_a_loss", program=_loss, part="nll_retention")
alternative(KEPT, "control_as_a_bound", program=_control, part="is_transfer")
alternative(KEPT, "reason_by_reason", program=_reasons, part="decide")

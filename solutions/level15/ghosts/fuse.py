"""Known-wrong programs of level15.fuse. `ghost` is given when this is read."""


def _ghost(name, sentence, *change, **how):
    ghost("level15.fuse.gated_fuse", name, sentence, change=change, **how)


SHARE = "share = torch.sigmoid(gate_logit)[:, None, None]"
FUSED = "return torch.lerp(own, mapped, share.to(own.dtype))"
_ghost(
    "added",
    "Move towards the mapped keys: a sum of both has another scale than either.",
    (FUSED, "return own + share.to(own.dtype) * mapped"),
)
_ghost(
    "exchanged",
    "A gate that is shut leaves the receiver alone: yours leaves the mapped keys.",
    (FUSED, "return torch.lerp(mapped, own, share.to(own.dtype))"),
)
_ghost(
    "raw_logit",
    "The share is the sigmoid of the logit: the logit itself is not between 0 and 1.",
    (SHARE, "share = gate_logit[:, None, None]"),
)
_ghost(
    "clamped_logit",
    "The share is the sigmoid of the logit: at 0 it is one half, and yours is shut.",
    (SHARE, "share = gate_logit.clamp(0, 1)[:, None, None]"),
)
_ghost(
    "softmax_over_heads",
    "Each head has a gate of its own: with a softmax over the heads one opens only if others shut.",
    (SHARE, "share = torch.softmax(gate_logit, 0)[:, None, None]"),
)
_ghost(
    "tanh",
    "tanh goes from -1 to 1: the share is a sigmoid, from 0 to 1.",
    (SHARE, "share = torch.tanh(gate_logit)[:, None, None]"),
)
_ghost(
    "hard_gate",
    "The gate is a share of the way, not a switch.",
    (SHARE, "share = (gate_logit > 0).float()[:, None, None]"),
)
_ghost(
    "gate_by_token",
    "A gate belongs to a head: [:, None] alone lines it up with the tokens.",
    (SHARE, "share = torch.sigmoid(gate_logit)[:, None]"),
)
_ghost(
    "gate_by_feature",
    "A gate belongs to a head: without new axes it lines up with the features.",
    (SHARE, "share = torch.sigmoid(gate_logit)"),
)
_ghost(
    "gate_by_prompt",
    "A gate belongs to a head: [:, None, None, None] lines it up with the prompts.",
    (SHARE, "share = torch.sigmoid(gate_logit)[:, None, None, None]"),
)
_ghost(
    "one_gate",
    "Each head has its own gate: yours uses their mean.",
    (SHARE, "share = torch.sigmoid(gate_logit).mean().expand_as(gate_logit)[:, None, None]"),
)
_ghost(
    "dtype_of_the_gate",
    "The result has the dtype of own, or it does not fit into the receiver's cache.",
    (FUSED, "return own + share * (mapped - own).float()"),
)

"""Right programs, written another way, for level15.fuse. `alternative` is given when this is read."""

import torch

ID = "level15.fuse.gated_fuse"


def _guard(own, mapped, gate_logit):
    if own.shape != mapped.shape or tuple(gate_logit.shape) != (own.shape[1],):
        raise ValueError("shapes")


def _weighted(own, mapped, gate_logit):
    """Two shares that sum to 1."""
    _guard(own, mapped, gate_logit)
    share = gate_logit.sigmoid().view(1, -1, 1, 1)
    return ((1 - share) * own + share * mapped).to(own.dtype)


def _exponential(own, mapped, gate_logit):
    _guard(own, mapped, gate_logit)
    share = 1 / (1 + torch.exp(-gate_logit.double()))
    return (own + share[None, :, None, None] * (mapped - own)).to(own.dtype)


def _head_by_head(own, mapped, gate_logit):
    _guard(own, mapped, gate_logit)
    out = own.clone()
    for head, share in enumerate(torch.sigmoid(gate_logit).tolist()):
        out[:, head] += share * (mapped[:, head] - own[:, head])
    return out


def _einsum(own, mapped, gate_logit):
    _guard(own, mapped, gate_logit)
    both = torch.stack([own, mapped]).double()
    shares = torch.stack([torch.sigmoid(-gate_logit), torch.sigmoid(gate_logit)]).double()
    return torch.einsum("xbgsd,xg->bgsd", both, shares).to(own.dtype)


alternative(ID, "two_shares", program=_weighted)
alternative(ID, "by_the_exponential", program=_exponential)
alternative(ID, "head_by_head", program=_head_by_head)
alternative(ID, "einsum", program=_einsum)

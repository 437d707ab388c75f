"""Right programs, written another way, for level14.dpo. `alternative` is given when this is read."""

import torch

DPO = "level14.dpo.dpo_loss"


def _softplus(chosen, rejected, ref_chosen, ref_rejected, beta):
    if beta <= 0:
        raise ValueError("beta is above 0")
    won, lost = (beta * (x - r.detach()) for x, r in ((chosen, ref_chosen), (rejected, ref_rejected)))
    return torch.nn.functional.softplus(lost - won).mean(), won.detach(), lost.detach()


def _as_in_the_paper(chosen, rejected, ref_chosen, ref_rejected, beta):
    """The margin of the model and that of the reference; ln(1 + exp) as a logaddexp."""
    if beta <= 0:
        raise ValueError("beta is above 0")
    with torch.no_grad():
        rewards = beta * (chosen - ref_chosen), beta * (rejected - ref_rejected)
        reference = ref_chosen - ref_rejected
    margin = beta * ((chosen - rejected) - reference)
    return torch.logaddexp(torch.zeros_like(margin), -margin).sum() / len(margin), *rewards


def _two_classes(chosen, rejected, ref_chosen, ref_rejected, beta):
    """A choice between two answers, whose logits are their rewards."""
    if beta <= 0:
        raise ValueError("beta is above 0")
    policy, reference = torch.stack([chosen, rejected], 1), torch.stack([ref_chosen, ref_rejected], 1)
    logits = beta * (policy - reference.detach())
    loss = torch.nn.functional.cross_entropy(logits, torch.zeros(len(chosen), dtype=torch.long))
    return loss, *logits.detach().unbind(1)


def _where(logprobs, mask):
    return torch.where(mask, logprobs, torch.zeros_like(logprobs)).sum(dim=-1)


def _picked(logprobs, mask):
    return torch.stack([row[chosen].sum() for row, chosen in zip(logprobs, mask)])


def _own_logprobs(params, config, ids, valid, temperature=1.0, *, forward=None):
    """Without shifted_logprobs: the softmax here, and the first real token found as the one at position 0."""
    import level00.transformer
    from level02.padding import padded_mask, padded_positions

    run, (B, S) = forward or level00.transformer.forward, ids.shape
    positions = padded_positions(valid)
    logits = run(params, config, ids, positions=positions, mask=padded_mask(valid, S))
    scored = torch.log_softmax(logits[:, :-1].float() / temperature, -1).gather(2, ids[:, 1:, None])[..., 0]
    scored = torch.cat([torch.zeros(B, 1), scored], 1)
    return torch.where(valid & (positions > 0), scored, 0.0)


alternative(DPO, "softplus", program=_softplus)
alternative(DPO, "as_in_the_paper", program=_as_in_the_paper)
alternative(DPO, "two_classes", program=_two_classes)
alternative(DPO, "where", program=_where, part="sequence_logprob")
alternative(DPO, "picked", program=_picked, part="sequence_logprob")
alternative(DPO, "own_logprobs", program=_own_logprobs, part="padded_logprobs")

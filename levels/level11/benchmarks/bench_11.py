"""What is timed at level 11: `nox -s bench -- level11`."""

from functools import partial

import pytest
import torch


def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.kata("level11.moe.moe_forward")
def bench_experts(bench):
    """256 tokens, 2 of 8 experts each, d_model 256, d_ff 512"""
    from level00.transformer import swiglu

    x, logits = random(256, 256), random(256, 8)
    weights = 0.05 * random(8, 3, 512, 256)
    experts = [partial(swiglu, w_gate=gate, w_up=up, w_down=down.T.contiguous()) for gate, up, down in weights]
    chosen, gates = logits.topk(2).indices, torch.full((256, 2), 0.5)

    def token_by_token():
        return torch.stack([sum(0.5 * experts[e](x[i : i + 1])[0] for e in chosen[i]) for i in range(256)])

    def all_of_them():
        share = torch.zeros(256, 8).scatter(1, chosen, gates)
        return sum(share[:, e, None] * experts[e](x) for e in range(8))

    bench(
        lambda level: lambda: level.moe.moe_forward(x, chosen, gates, experts),
        naive=("token by token", token_by_token),
        library=("every expert on all", all_of_them),
    )


@pytest.mark.kata("level11.mla.attend_absorbed")
def bench_absorbed(bench):
    """A decode step of 16 heads behind 2,048 latents of 128"""
    from level11.mla import attend_naive

    args = (
        random(1, 16, 1, 64),
        random(1, 16, 1, 32),
        random(1, 2048, 128),
        random(1, 2048, 32),
        random(16, 64, 128),
        random(16, 64, 128),
    )
    q_nope, q_rope, latent, k_rope, w_uk, w_uv = args

    def library():
        q = torch.cat([torch.einsum("bhqn,hnc->bhqc", q_nope, w_uk), q_rope], -1)
        k, v = torch.cat([latent, k_rope], -1).unsqueeze(1), latent.unsqueeze(1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=96**-0.5, enable_gqa=True)
        return torch.einsum("bhqc,hvc->bhqv", mixed, w_uv)

    bench(
        lambda level: lambda: level.mla.attend_absorbed(*args),
        naive=("keys are made", lambda: attend_naive(*args)),
        library=("torch's attention", library),
    )


@pytest.mark.kata("level11.ssm.linear_attention_chunked")
def bench_chunked(bench):
    """1,024 tokens, 4 heads of 64 features, chunks of 64"""
    from level11.ssm import linear_attention_recurrent

    q, k, v = random(3, 1, 4, 1024, 64)
    log_decay = -0.1 * random(1, 4, 1024).abs()

    def quadratic():
        since = log_decay.cumsum(-1)
        between = (since.unsqueeze(-1) - since.unsqueeze(-2)).masked_fill(
            torch.ones(1024, 1024).triu(1).bool(), -torch.inf
        )
        return (q @ k.mT * between.exp()) @ v

    bench(
        lambda level: lambda: level.ssm.linear_attention_chunked(q, k, v, log_decay, 64),
        naive=("token by token", lambda: linear_attention_recurrent(q, k, v, log_decay)),
        library=("one chunk of all", quadratic),
    )

"""The power pellet of level 00: your forward pass runs SmolLM2-135M.

The stored values were made by the transformers and tokenizers libraries; smollm2.json says which versions. The next
token alone proves little: many a wrong program still answers " Paris". So logits and a loss are compared.
"""

import json
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from dojo.models import load, matrices
from level00.accounting import flops_per_token, weight_bytes
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward

HERE = Path(__file__).parent
STORED = json.loads((HERE / "smollm2.json").read_text(encoding="utf-8"))
NAMES = pytest.mark.parametrize("name", ["capital", "paragraph"])
PROMPT_TOKENS = 64
MOST_READ = 1.7  # times the weights: right forwards read 1.4 times, one that copies every weight 2.4 times
NEED = 0.48  # of the sweep: right forwards reach 0.74 to 0.93, one that goes token by token 0.22 to 0.31


@cache
def columns() -> dict[str, torch.Tensor]:
    """Stored logits at 512 of the 49,152 vocabulary ids."""
    import numpy

    return {name: torch.from_numpy(array) for name, array in numpy.load(HERE / "smollm2.npz").items()}


@pytest.fixture(scope="module")
def model():
    return load()


@pytest.fixture
def logits(model):
    """Your forward on the real weights, (1, seq) ids in, (seq, vocab) out."""
    config, params, _ = model

    def logits(ids):
        return forward(params, config, torch.tensor([ids]))[0]

    return logits


@pytest.mark.kata("level00.checkpoint")
@pytest.mark.parametrize("case", STORED["tokens"], ids=lambda case: ascii(case["text"])[:24])
def test_tricky_strings_become_the_model_s_tokens(expect, model, case):
    """Oracle: the tokenizers library. A model fed other ids than it was trained on answers worse, and never says so."""
    expect(SmolTokenizer.from_model(model[2]).encode, case["text"]).equals(case["ids"])


@pytest.mark.kata("level00.checkpoint")
@NAMES
def test_logits_equal_those_of_another_implementation(expect, logits, name):
    """Oracle: transformers' LlamaForCausalLM. 1e-3 is 20 times what another order of additions makes (5e-5)."""
    stored = STORED["texts"][name]
    right = (columns()[name], torch.tensor(stored["argmax"]), torch.tensor(stored["logsumexp"]))

    def summary(ids):
        found = logits(ids)
        return found[:, columns()["columns"]], found.argmax(-1), found.logsumexp(-1)

    expect(summary, stored["ids"]).equals(right, rel=0, abs=1e-3)


@pytest.mark.kata("level00.checkpoint")
def test_the_loss_is_that_of_the_model_no_more_and_no_less(expect, logits):
    """The band has two sides: a forward that sees the future scores 1.10 nats, one with mixed-up RoPE 2.81."""
    stored = STORED["texts"]["paragraph"]

    def mean_loss(ids):
        return F.cross_entropy(logits(ids)[:-1], torch.tensor(ids[1:])).item()

    expect(mean_loss, stored["ids"]).equals(stored["mean_loss"], rel=0, abs=0.02)


@pytest.mark.kata("level00.checkpoint")
def test_a_prefix_does_not_see_what_follows(expect, logits):
    """The first 10 tokens alone give the logits that they give in front of 34 others: a cache may keep them."""
    ids = STORED["texts"]["paragraph"]["ids"]

    def difference(ids):
        return (logits(ids)[:10] - logits(ids[:10])).abs().max().item()

    expect(difference, ids).holds(lambda d: d <= 1e-3, "the first 10 rows of both agree to 1e-3")


@pytest.mark.kata("level00.checkpoint")
def test_a_row_does_not_see_its_neighbours(expect, model):
    """Two requests in a batch get what each gets alone."""
    config, params, _ = model
    rows = torch.tensor(STORED["texts"]["paragraph"]["ids"][:20]).view(2, 10)

    def difference(rows):
        alone = torch.cat([forward(params, config, row.unsqueeze(0)) for row in rows])
        return (forward(params, config, rows) - alone).abs().max().item()

    expect(difference, rows).holds(lambda d: d <= 1e-3, "together and alone agree to 1e-3")


def prompt() -> torch.Tensor:
    ids = STORED["texts"]["paragraph"]["ids"]
    return torch.tensor([(ids * 2)[:PROMPT_TOKENS]])


@pytest.mark.kata("level00.checkpoint")
def test_a_prefill_costs_the_flops_that_accounting_predicts(expect, model):
    """64 tokens: 64 x flops_per_token(config, 64), counted operator by operator. Whoever skips the masked half of the
    scores may need less; nobody may need more (twice the work is still fast enough for the clock)."""
    config, params, _ = model
    predicted = flops_per_token(config, PROMPT_TOKENS)
    most = PROMPT_TOKENS * predicted["total"]
    least = most - PROMPT_TOKENS * predicted["scores"] // 2
    counted = expect.cost(lambda ids: forward(params, config, ids), prompt(), of=("flops",))
    counted.holds(lambda cost: least <= cost["flops"] <= most, f"between {least:,} and {most:,} FLOPs")


@pytest.mark.kata("level00.checkpoint")
def test_a_prefill_reads_every_weight_once(expect, model):
    """538 MB of weights serve all 64 tokens. Activations, scores and logits add 0.4 of that; a copy of the weights (a
    `.contiguous()` on each transposed matrix is enough) adds 1.0, and the clock does not see it."""
    config, params, _ = model
    weights = weight_bytes(config, 4)
    counted = expect.cost(lambda ids: forward(params, config, ids), prompt(), of=("bytes_read",))
    counted.holds(
        lambda cost: cost["bytes_read"] <= MOST_READ * weights, f"at most {MOST_READ} x {weights:,.0f} bytes read"
    )


@pytest.mark.kata("level00.checkpoint")
def test_prefill_keeps_up_with_its_own_sweep(model, roofline):
    """The sweep is one matrix product per weight, 64 rows each: the least work there is, on the same buffers."""
    from dojo.cost import count
    from dojo.roofline import Sweep

    config, params, _ = model
    ids, sweep = prompt(), Sweep(matrices(params), PROMPT_TOKENS)
    cost = count(forward, params, config, ids)
    predicted, counted = (n / PROMPT_TOKENS / 1e6 for n in (weight_bytes(config, 4), cost.bytes))
    notes = [
        f"bytes per token: {predicted:.1f} MB predicted (the weights, read once for {PROMPT_TOKENS} tokens),",
        f"{counted:.1f} MB counted (with what each operator reads and writes beside them)",
    ]
    roofline(
        lambda: forward(params, config, ids),
        sweep,
        need=NEED,
        flops=cost.flops,
        bytes=cost.bytes,
        name=f"prefill, {PROMPT_TOKENS} tokens",
        notes=notes,
    )

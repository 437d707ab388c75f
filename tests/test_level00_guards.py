"""The guards of level 00: given in the stubs, so no kata is judged by them; bad input gets a sentence."""

import pytest
import torch

from dojo.models import TINY, random_params
from dojo.mount import resolve
from tests.controls import solutions_of


@pytest.fixture(scope="module", autouse=True)
def level00():
    with solutions_of("level00"):
        yield


def ids(*rows):
    return torch.tensor(rows)


BAD = {
    "bpe.train_bpe": [("x", 255)],
    "bpe.decode": [([999], {}), ([-1], {}), ([97, 257], {(97, 97): 256})],
    "layers.rms_norm": [(torch.ones(2, 4), torch.ones(3), 1e-5)],
    "layers.rope_tables": [(torch.tensor([1]), 3, 10000.0)],
    "layers.causal_mask": [(3, 2)],
    "layers.attention": [(torch.ones(1, 3, 1, 2), torch.ones(1, 2, 1, 2), torch.ones(1, 2, 1, 2), "causal")],
    "transformer.hidden_states": [
        (random_params(TINY), TINY, ids(101)),
        (random_params(TINY), TINY, ids([101])),
        (random_params(TINY), TINY, ids([-1])),
        (random_params(TINY), TINY, ids([])),
        (random_params(TINY), TINY, torch.zeros(1, TINY.max_seq_len + 1, dtype=torch.long)),
    ],
    "accounting.flops_per_token": [(TINY, 0)],
}


@pytest.mark.parametrize(
    "name, arguments", [(n, a) for n, cases in BAD.items() for a in cases], ids=lambda x: str(x)[:24]
)
def test_bad_input_raises_a_sentence(name, arguments):
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        resolve(f"level00.{name}")(*arguments)

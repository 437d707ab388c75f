"""Judges cost.py by hand, with round numbers and with those of real machines.

What a decode step computes and reads is counted here matrix by matrix, and what it sends message by message.
"""

import pytest

from dojo.models import SMOLLM2, Config
from level04.ceiling import decode_ceiling
from level04.roofline import H100, Hardware
from level09.cost import NETWORK, NVLINK, Link, all_reduce_seconds, tp_decode_seconds

LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, max_seq_len=8192, tie_embeddings=False)  # Llama-3-8B
FREE = Link("takes no time", 0.0, 1e30)

# ---- all_reduce_seconds, judged with tp_decode_seconds


@pytest.mark.kata("level09.cost.tp_decode_seconds")
@pytest.mark.parametrize(
    "num_bytes, size, link, right",
    [
        (1e6, 4, Link("", 5e-6, 100e9), 45e-6),
        (1e6, 1, Link("", 5e-6, 100e9), 0.0),
        (300.0, 3, Link("", 0.0, 50.0), 8.0),
        (0.0, 5, Link("", 2.0, 50.0), 16.0),
        (60.0, 2, Link("", 1.0, 10.0), 8.0),
        (60.0, 6, Link("", 1.0, 10.0), 20.0),
        (50, 4, Link("", 1.0, 10.0), 13.5),
    ],
    ids=["docstring", "one rank", "bytes alone", "latency alone", "two ranks", "six ranks", "a fraction"],
)
def test_a_ring_takes_two_rounds_of_messages(expect, num_bytes, size, link, right):
    """By hand: 2 (size - 1) steps, in each of which all ranks send one chunk of bytes / size at once. 60 bytes at 10 a
    second on 6 ranks: 10 steps of 1 + 1 s. More ranks hardly add bytes, but steps."""
    expect(all_reduce_seconds, num_bytes, size, link).equals(right, rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
def test_one_token_takes_nothing_but_latency(expect):
    """Llama-3-8B's hidden state of one token, 8192 bytes, on 8 GPUs: 14 messages of 3 us, and 0.03 us for the bytes.
    In prefill 4096 tokens take 130 us for the bytes over NVLink, and over a network nine times as long."""
    expect(all_reduce_seconds, 8192, 8, NVLINK).equals(42.03186e-6, rel=1e-6, abs=0)
    expect(all_reduce_seconds, 8192 * 4096, 8, NVLINK).equals(14 * (3e-6 + 8192 * 512 / 450e9), rel=1e-9, abs=0)
    expect(all_reduce_seconds, 8192 * 4096, 8, NETWORK).equals(14 * (10e-6 + 8192 * 512 / 50e9), rel=1e-9, abs=0)


# ---- tp_decode_seconds


def parts_of(config, batch, context_len, bytes_per_param, bytes_per_element):
    """(FLOPs, bytes of weights, bytes of the cache) of a decode step, matrix by matrix."""
    d, heads, kv = config.d_model, config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    layer = 2 * d * heads + 2 * d * kv + 3 * d * config.d_ff
    matrices = config.n_layers * layer + config.vocab_size * d
    norms = (2 * config.n_layers + 1) * d
    flops = 2 * matrices + 4 * config.n_layers * heads * context_len
    cache = 2 * config.n_layers * kv * context_len * batch * bytes_per_element
    return batch * flops, (matrices + norms) * bytes_per_param, cache


def by_hand(config, batch, context_len, size, hardware, link, bytes_per_param=2, bytes_per_element=2):
    flops, weights, cache = parts_of(config, batch, context_len, bytes_per_param, bytes_per_element)
    copies = max(1.0, size / config.n_kv_heads)  # ranks that hold the same KV head
    reading = (weights / size + cache * copies / size) / hardware.bandwidth
    computing = flops / size / hardware.peak_flops
    message = link.latency + 2 * batch * config.d_model / size / link.bandwidth
    all_reduces = sum(2 for _ in range(config.n_layers)) + 1
    return max(reading, computing) + all_reduces * 2 * (size - 1) * message


NARROW = Config(3, 24, 8, 2, 5, 40, 70, tie_embeddings=False)
TIED = Config(2, 20, 6, 6, 4, 30, 50)
READER = Hardware("reads slowly", 1e18, 1000.0, 1e9)
THINKER = Hardware("computes slowly", 1000.0, 1e18, 1e9)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
@pytest.mark.parametrize("config", [NARROW, TIED], ids=["2 KV heads", "6 KV heads"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8])
def test_weights_divide_by_the_ranks_and_the_cache_by_its_heads(expect, config, size):
    """By hand, with a free link: each rank reads its share of the weights; but 2 KV heads on 8 ranks are 4 copies of
    each, and those 8 ranks read the cache no faster than 2 would."""
    for batch, context_len in ((1, 1), (3, 500)):
        case = config, batch, context_len, size, READER, FREE
        expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_arithmetic_divides_by_the_ranks(expect, size):
    """With many sequences, or on a slow processor, arithmetic decides: it is shared by all query heads, of which there
    is one copy each, even where KV heads are copied."""
    for config in (NARROW, TIED):
        case = config, 7, 90, size, THINKER, FREE
        expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
@pytest.mark.parametrize("size", [1, 2, 3, 8])
def test_two_all_reduces_a_layer_and_one_for_the_embedding(expect, size):
    """By hand, where computing takes no time: 3 layers are 7 all-reduces. Each costs its latency, in full, and the
    bytes of one hidden state for each sequence, 2 for a number whatever the weights have."""
    fast = Hardware("takes no time", 1e30, 1e30, 1e9)
    for batch, link in ((1, Link("", 3.0, 1e30)), (1, Link("", 0.0, 10.0)), (5, Link("", 2.0, 100.0))):
        for widths in ((2, 2), (0.5, 1)):
            case = NARROW, batch, 64, size, fast, link, *widths
            expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
@pytest.mark.parametrize("widths", [(1, 2), (0.5, 2), (2, 1), (4, 4)], ids=str)
def test_narrow_weights_and_a_narrow_cache(expect, widths):
    """Weights in 4 bits are read in a quarter of the time; the cache has a width of its own."""
    for size in (1, 4):
        case = NARROW, 2, 100, size, READER, Link("", 0.25, 50.0), *widths
        expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
def test_reading_may_decide_on_many_ranks_where_arithmetic_did_on_few(expect):
    """Arithmetic goes on dividing where the cache does not: on 1 and 2 ranks it is the slower one, on 8 the cache. The
    slower one of a rank's own two decides, and the messages come on top of it: nobody computes while waiting."""
    flops, weights, cache = parts_of(NARROW, 4, 300, 2, 2)
    both = Hardware("both", flops / (weights + cache) * 1000.0, 1500.0, 1e9)
    for size in (1, 2, 8):
        case = NARROW, 4, 300, size, both, Link("", 1.0, 100.0)
        expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
def test_on_one_rank_nothing_is_sent(expect):
    """One GPU has the speed of level 04's ceiling: a step makes a token for each of the sequences."""
    for config, batch, context_len in ((SMOLLM2, 1, 1), (LLAMA, 1, 1024), (LLAMA, 64, 2048), (LLAMA, 4096, 128)):
        right = batch / decode_ceiling(config, batch, context_len, H100)
        expect(tp_decode_seconds, config, batch, context_len, 1, H100, NETWORK).equals(right, rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
def test_real_models_on_real_machines(expect):
    """The docstring's example: SmolLM2-135M on 3 H100s, 26.8 us and 61 all-reduces of 12.0 us: slower than on one.
    For Llama-3-8B 4 GPUs are faster than 1, and 8 are slower than 4."""
    expect(tp_decode_seconds, SMOLLM2, 1, 1, 3, H100, NVLINK).equals(26.77e-6 + 61 * 12.0034e-6, rel=1e-3, abs=0)
    for size in (2, 4, 8, 16):
        for link in (NVLINK, NETWORK):
            for batch in (1, 64):
                case = LLAMA, batch, 1024, size, H100, link
                expect(tp_decode_seconds, *case).equals(by_hand(*case), rel=1e-9, abs=0)


@pytest.mark.kata("level09.cost.tp_decode_seconds")
def test_no_rank_no_model(expect):
    """A division by 0 ranks, or time that is negative, would pass for a very fast machine."""
    expect(all_reduce_seconds, 60.0, 2, Link("", 1.0, 10.0)).equals(8.0)
    for size in (0, -1):
        expect(all_reduce_seconds, 60.0, size, NVLINK).raises(ValueError)
        expect(tp_decode_seconds, SMOLLM2, 1, 1, size, H100, NVLINK).raises(ValueError)

"""The worksheet of level 02: right values by formula from the configuration, or by brute force."""

import pytest

from dojo.models import SMOLLM2, Config, shapes

LLAMA_70B = Config(80, 8192, 64, 8, 128, 28672, 128256, tie_embeddings=False)
SIZES = {name: shape[0] * (shape[1] if len(shape) == 2 else 1) for name, shape in shapes(LLAMA_70B).items()}
WEIGHTS = sum(SIZES.values())  # in 8 bits, so bytes as well
ENTRY = 2 * LLAMA_70B.n_layers * LLAMA_70B.n_kv_heads * LLAMA_70B.head_dim  # numbers kept of one token
FREE = 0.9 * 141e9 - WEIGHTS


@pytest.mark.kata("level02.worksheet.token_bytes")
def test_a_token_has_a_key_and_a_value_in_every_layer_and_kv_head(answer):
    """The unit of everything that a server can promise. Oracle: walk through layers, KV heads, and keys and values."""
    numbers = sum(96 for _ in range(36) for _ in range(4) for _ in ("key", "value"))
    answer("token_bytes").equals(numbers * 2, rel=0.01)


@pytest.mark.kata("level02.worksheet.request_gigabytes")
def test_a_long_request_takes_gigabytes_of_its_own(answer):
    """One user with a long document takes more than a smaller model's weights. 163,840 bytes a token."""
    answer("request_gigabytes").equals(60_000 * ENTRY / 1e9, rel=0.01)


@pytest.mark.kata("level02.worksheet.room_tokens")
def test_the_cache_gets_what_the_weights_and_the_reserve_leave(answer):
    """A server computes this when it starts. 126.9 - 70.55 = 56.35 GB, over 327,680 bytes a token."""
    answer("room_tokens").equals(FREE // (2 * ENTRY), rel=0.01)


@pytest.mark.kata("level02.worksheet.num_requests")
def test_only_whole_requests_fit(answer):
    """One too many would fail in the middle of its answer. Oracle: let requests in while there is room."""
    room, admitted = FREE, 0
    while room >= 4096 * 2 * ENTRY:
        room, admitted = room - 4096 * 2 * ENTRY, admitted + 1
    answer("num_requests").equals(admitted, rel=0.01)


@pytest.mark.kata("level02.worksheet.tokens_per_request")
def test_from_this_length_on_the_cache_is_most_of_what_a_step_reads(answer):
    """Beyond it a larger batch saves little. 69.50 GB of weights, the embedding left out, over 16 · 327,680 bytes."""
    read = WEIGHTS - SIZES["model.embed_tokens.weight"]
    answer("tokens_per_request").equals(read / (2 * ENTRY) / 16, rel=0.01)


@pytest.mark.kata("level02.worksheet.concat_gigabytes")
def test_every_concatenation_writes_all_that_it_then_holds(answer):
    """Traffic that grows with the square of the length. Oracle: sum the sizes, of 501, 502, …, 2,000 tokens."""
    entry = 2 * SMOLLM2.n_layers * SMOLLM2.n_kv_heads * SMOLLM2.head_dim * 4
    held, written = 500, 0
    for _ in range(1500):
        held += 1
        written += held * entry
    answer("concat_gigabytes").equals(written / 1e9, rel=0.01)


@pytest.mark.kata("level02.worksheet.slot_position")
def test_a_slot_holds_the_last_position_that_came_round_to_it(answer):
    """Who takes the slot for the position masks the wrong keys. Oracle: write 100 positions into 12 slots."""
    ring = [-1] * 12
    for position in range(100):
        ring[position % 12] = position
    answer("slot_position").equals(ring[4], rel=0.01)


@pytest.mark.kata("level02.worksheet.unused_percent")
def test_rows_of_one_size_stay_mostly_empty(answer):
    """Room that no other request can have. Oracle: count the slots of all rows that hold nothing."""
    lengths = [150, 300, 900, 2500, 4000]
    unused = sum(8192 - length for length in lengths)
    answer("unused_percent").equals(100 * unused / (8192 * len(lengths)), rel=0.01)

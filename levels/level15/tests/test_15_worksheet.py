"""The worksheet of level 15: right values by counting bytes, turning by complex numbers, and searching."""

import cmath

import pytest

SENDER, RECEIVER, KV_HEADS, HEAD_DIM, TOKENS = 48, 80, 8, 128, 20_000  # layers; of both models; of the prompt


def bytes_of(layers, tokens=TOKENS):
    one = sum(HEAD_DIM * 2 for _ in range(layers) for _ in range(KV_HEADS) for _ in "kv")
    return tokens * one


def coefficients():
    """(weights, biases) of all maps, one after the other."""
    weights = biases = 0
    for _ in range(RECEIVER):
        for _ in range(KV_HEADS):
            for _ in "kv":
                weights += sum(HEAD_DIM * HEAD_DIM for _ in range(5) for _ in range(KV_HEADS))
                biases += HEAD_DIM
    return weights, biases


def map_seconds():
    return TOKENS * 2 * coefficients()[0] / 200e12


@pytest.mark.kata("level15.worksheet.moved_gb")
def test_the_senders_bytes_cross_the_link(answer):
    """Mapped before the link it would be the receiver's, two thirds more. Oracle: bytes, layer by layer."""
    answer("moved_gb").equals(bytes_of(SENDER) / 1e9, rel=0.01)


@pytest.mark.kata("level15.worksheet.map_gb")
def test_maps_are_as_large_as_a_small_model(answer):
    """They lie in the receiver's memory, for each pair and direction. Oracle: they are counted one by one."""
    answer("map_gb").equals(4 * sum(coefficients()) / 1e9, rel=0.01)


@pytest.mark.kata("level15.worksheet.map_ms")
def test_a_map_takes_time_too(answer):
    """It stands between the link and the first token. Oracle: two FLOPs for each counted weight and token."""
    answer("map_ms").equals(1e3 * map_seconds(), rel=0.01)


@pytest.mark.kata("level15.worksheet.ready_seconds")
def test_move_map_and_repair_follow_each_other(answer):
    """This is the time to the first token that is set against a prefill. Oracle: three times, added up."""
    answer("ready_seconds").equals(bytes_of(SENDER) / 10e9 + map_seconds() + 9 - 0.85 * 9, rel=0.01)


@pytest.mark.kata("level15.worksheet.breakeven_gb_per_second")
def test_a_slower_link_is_not_worth_it(answer):
    """It tells on which links a router may move caches. Oracle: halving an interval; scores counted row by row."""
    pairs = sum(row + 1 for row in range(8192))
    flops = 2 * 70e9 * 8192 + RECEIVER * 64 * (2 + 2) * HEAD_DIM * pairs
    low, high = 0.0, 100e9
    for _ in range(60):
        middle = (low + high) / 2
        slower = bytes_of(RECEIVER, 8192) / middle > flops / 400e12 if middle else True
        low, high = (middle, high) if slower else (low, middle)
    answer("breakeven_gb_per_second").equals(low / 1e9, rel=0.01)


@pytest.mark.kata("level15.worksheet.moved_feature")
def test_a_key_is_turned_by_the_difference(answer):
    """The receiver's context has the prompt elsewhere. Oracle: out with e^-9i, in with e^11i."""
    content = complex(0.8, 0.6) * cmath.exp(-9j)
    answer("moved_feature").equals((content * cmath.exp(11j)).real, rel=0.01)


@pytest.mark.kata("level15.worksheet.slope")
def test_only_the_slope_pays(answer):
    """The price that is put on the intercept, or on each row, makes another map. Oracle: the least cost is searched."""
    X, Y, W, b = (1, 2, 6), (2, 3, 10), 0.0, 0.0
    for _ in range(4000):  # steps down the gradient
        off = [W * x + b - y for x, y in zip(X, Y)]
        W, b = W - 0.01 * (sum(o * x for o, x in zip(off, X)) + 4 * W), b - 0.01 * sum(off)
    answer("slope").equals(W, rel=0.01)


@pytest.mark.kata("level15.worksheet.retained")
def test_what_is_retained_begins_at_no_context(answer):
    """A ratio of losses looks well whatever was lost. Oracle: the share of the way, found in small steps."""
    share = 0.0
    while 2.46 + share * (1.62 - 2.46) > 1.83:
        share += 1e-5
    answer("retained").equals(share, rel=0.01)


@pytest.mark.kata("level15.worksheet.together_seconds")
def test_both_ends_are_reached_together(answer):
    """Neither the link nor the receiver waits. Oracle: of all shares the one whose slower part is done first."""
    move = bytes_of(RECEIVER) / 5e9
    shares = [i / 10_000 for i in range(10_001)]
    answer("together_seconds").equals(min(max((1 - s) * move, s * 7.8) for s in shares), rel=0.01)

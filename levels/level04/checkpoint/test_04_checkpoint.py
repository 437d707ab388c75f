"""The power pellet of level 04: what you predict of SmolLM2-135M is what it costs, and what your probes find is there.

Bytes and FLOPs are counted operator by operator and compared with decode_step_cost. Your probes are compared with
others of this machine, by CPU time on one thread; a ratio that is out of its band is measured again, and where the
machine itself is too unsteady the question stays open.
"""

import time

import numpy
import pytest
import torch

from dojo.cost import count
from dojo.models import load, matrices
from dojo.roofline import CLOCK, STEADY, Gemm, Gemv, Sweep, one_thread, unsteadiness
from level00.transformer import forward
from level01.generate import stream
from level02.cache import KVCache
from level04.ceiling import decode_ceiling, decode_step_cost, mbu, mfu
from level04.measure import best_time, cache_bytes, gemm_flops, probe_bytes, read_bandwidth
from level04.metrics import goodput, percentile, request_metrics, throughput
from level04.roofline import H100, Hardware, attainable, bound, ridge_point

CONTEXT, BATCH, PROMPT = 128, 8, 64
MOST_READ = 1.6  # times what is predicted: right steps read 1.01 to 1.3 times; one that copies the weights 1.97 times
NEED = 0.35  # of the sweep with 8 rows: right steps reach 0.60 to 0.79, one sequence after the other 0.21 to 0.22


@pytest.fixture(scope="module")
def model():
    return load()


def stepping(model, batch: int, forward=forward):
    """A decode step of `batch` sequences at CONTEXT, the new token included, that leaves its cache as it was."""
    config, params, _ = model
    cache, generator = KVCache(config, batch, CONTEXT), torch.Generator().manual_seed(0)
    shape = (2, batch, config.n_kv_heads, CONTEXT - 1, config.head_dim)
    k, v = torch.randn(shape, generator=generator)  # neither bytes nor seconds depend on what the cache says
    for layer in range(config.n_layers):
        cache.update(layer, k, v)
    ids = torch.full((batch, 1), 314)

    def step():
        logits = forward(params, config, ids, cache)
        cache.truncate(CONTEXT - 1)
        return logits

    return step


def within(ratio, low: float, high: float, sentence: str) -> None:
    """Pass when ratio() is in the band at one of three attempts; open when the machine is too unsteady to tell."""
    __tracebackhide__ = True
    found = []
    for attempt in range(3):
        time.sleep(attempt / 4)  # lets a burst of foreign load pass
        with one_thread():
            found.append(ratio())
        if low <= found[-1] <= high:
            return
    if (unsteady := unsteadiness(Gemv())) > STEADY:
        pytest.skip(f"inconclusive: the machine is unsteady ({unsteady:.1f} x), so try again when it is calmer")
    numbers = ", ".join(f"{value:.2f}" for value in found)
    pytest.fail(f"{sentence}: {numbers}, not {low:g} to {high:g}", pytrace=False)


def roofs() -> Hardware:
    """This machine, by the learner's probes."""
    return Hardware("here", gemm_flops(768, clock=CLOCK), read_bandwidth(192 * 2**20, clock=CLOCK), 0)


# ---- counts


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.parametrize("context", [1, 1000])
def test_a_step_reads_every_tensor_of_the_model_and_the_cache(expect, model, context):
    """538,060,032 bytes in float32, and 46,080 for each token of the context: summed over what is in memory."""
    config, params, _ = model
    right = {"weight_bytes": sum(p.nbytes for p in params.values()), "kv_bytes": KVCache(config, 1, context).nbytes}
    assert right == {"weight_bytes": 538_060_032, "kv_bytes": 46_080 * context}
    expect(decode_step_cost, config, 1, context, 4, 4).holds(
        lambda cost: {key: cost[key] for key in right} == right and cost["bytes"] == sum(right.values()), f"{right}"
    )


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.parametrize("batch", [1, BATCH])
def test_the_flops_that_are_counted_are_those_that_are_predicted(expect, model, batch):
    """278 MFLOP for one sequence. Fewer are counted only where scores are summed without a matrix product."""
    config = model[0]
    counted = count(stepping(model, batch)).flops
    scores = 4 * batch * config.n_layers * config.n_heads * config.head_dim * CONTEXT
    expect(decode_step_cost, config, batch, CONTEXT, 4, 4).holds(
        lambda cost: counted <= cost["flops"] <= counted + scores, f"{counted:,} FLOPs were counted"
    )


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.parametrize("batch", [1, BATCH])
def test_the_bytes_that_are_read_are_those_that_are_predicted(expect, model, batch):
    """With 8 sequences the weights are still read once: 585 MB a step, not 4.4 GB."""
    read = count(stepping(model, batch)).bytes_read
    expect(decode_step_cost, model[0], batch, CONTEXT, 4, 4).holds(
        lambda cost: 0.99 * cost["bytes"] <= read <= MOST_READ * cost["bytes"],
        f"{read:,} bytes were read, which is 1 to {MOST_READ} times the prediction",
    )


@pytest.mark.kata("level04.checkpoint")
def test_the_ceiling_on_an_h100_follows(expect, model):
    """In bfloat16 at context 1: 269,030,016 + 23,040 bytes a token, 3.35e12 a second: 12,451 tokens per second."""
    expect(decode_ceiling, model[0], 1, 1, H100).equals(3.35e12 / (269_030_016 + 23_040), rel=1e-6)


@pytest.mark.kata("level04.checkpoint")
def test_the_parts_agree_on_which_roof_binds(expect, model):
    """Below the ridge the attainable rate is a share of the peak, and a step takes as long as its bytes."""

    def agreement(batch):
        cost = decode_step_cost(model[0], batch, CONTEXT)
        rate = attainable(cost["intensity"], H100)
        side = "memory" if cost["intensity"] < ridge_point(H100) else "compute"
        speed = decode_ceiling(model[0], batch, CONTEXT, H100)
        return bound(cost["intensity"], H100) == side, speed * cost["flops"] / batch / rate

    for batch in (1, 64, 4096):
        expect(agreement, batch).equals((True, 1.0), rel=1e-9)


# ---- metrics of a real generation


@pytest.mark.kata("level04.checkpoint")
def test_the_metrics_of_a_real_generation_fit_together(expect, model):
    """TTFT and all gaps are the whole of E2E; two requests one after the other are served in the time of both."""
    config, params, _ = model
    requests = []
    for prompt in ([504, 3575, 282, 4649, 314], [28, 198, 2683]):
        arrival, times = time.perf_counter(), []
        for _ in stream(params, config, prompt, 4, cache=KVCache(config, 1, 16)):
            times.append(time.perf_counter())
        requests.append((arrival, times))
    for arrival, times in requests:
        gaps = numpy.diff(times).tolist()
        right = {"ttft": times[0] - arrival, "e2e": times[-1] - arrival, "tpot": sum(gaps) / 3, "itl": gaps}
        expect(request_metrics, arrival, times).equals(right, rel=1e-6)
        expect(lambda m: m["ttft"] + sum(m["itl"]), request_metrics(arrival, times)).equals(right["e2e"], rel=1e-6)
        expect(percentile, gaps, 90).equals(float(numpy.percentile(gaps, 90)), rel=1e-6)
    span = requests[1][1][-1] - requests[0][0]
    expect(throughput, requests).equals(8 / span, rel=1e-6)
    expect(goodput, requests, 1e6, 1e6, span).equals(2 / span, rel=1e-6)
    expect(goodput, requests, 1e6, 0.0, span).equals(0.0)


# ---- the clock


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.usefixtures("roofline")
def test_your_probes_find_the_roofs_that_others_find():
    """A probe that fits into the cache finds three times the bandwidth, and every MBU that follows is a third."""
    gemv, gemm = Gemv(), Gemm()
    n_bytes = min(probe_bytes(cache_bytes()), 2**29)

    def bandwidth():
        return read_bandwidth(n_bytes, clock=CLOCK) * best_time(gemv, clock=CLOCK) / gemv.bytes

    def arithmetic():
        return gemm_flops(768, clock=CLOCK) * best_time(gemm, clock=CLOCK) / gemm.flops

    within(bandwidth, 0.6, 1.6, "your bandwidth over that of another probe of 192 MiB")
    within(arithmetic, 0.6, 1.6, "your FLOP/s over those of another product of 768 x 768")


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.usefixtures("roofline")
@pytest.mark.parametrize("batch", [1, BATCH])
def test_the_mbu_of_a_real_step_is_a_share(model, batch):
    """Above 1 the bytes, the batch or the probe are wrong: nothing reads faster than memory."""
    step, cost = stepping(model, batch), decode_step_cost(model[0], batch, CONTEXT, 4, 4)

    def share():
        return mbu(batch / best_time(step, clock=CLOCK), batch, cost["bytes"], roofs())

    within(share, 0.15, 1.15, f"MBU of a step with {batch} sequence{'s' * (batch > 1)}")


@pytest.mark.kata("level04.checkpoint")
@pytest.mark.usefixtures("roofline")
def test_prefill_has_a_far_better_mfu_than_decode(model):
    """The same weights, 64 tokens for one read: MFU is a number for prefill, MBU the one for decode."""
    config, params, _ = model
    ids, step = torch.full((1, PROMPT), 314), stepping(model, 1)
    flops = decode_step_cost(config, 1, CONTEXT, 4, 4)["flops"]

    def times():
        here = roofs()
        prefill = mfu(PROMPT / best_time(lambda: forward(params, config, ids), 3, clock=CLOCK), flops, here)
        return prefill / mfu(1 / best_time(step, clock=CLOCK), flops, here)

    within(times, 2, 200, "MFU of a prefill of 64 tokens over that of decode")


@pytest.mark.kata("level04.checkpoint")
def test_a_step_of_8_sequences_takes_its_share_of_8_row_products(roofline, model):
    """One read of the weights serves all eight. A loop over the sequences would take eight times as long as one."""
    cost = decode_step_cost(model[0], BATCH, CONTEXT, 4, 4)
    here = roofs()
    notes = [
        f"by your probes {here.bandwidth / 1e9:.1f} GB/s and {here.peak_flops / 1e9:.0f} GFLOP/s, ridge "
        f"{ridge_point(here):.1f}: {decode_ceiling(model[0], 1, CONTEXT, here, 4, 4):.0f} tokens/s for one sequence, "
        f"{decode_ceiling(model[0], BATCH, CONTEXT, here, 4, 4):.0f} for {BATCH}"
    ]
    roofline(
        stepping(model, BATCH),
        Sweep(matrices(model[1]), BATCH),
        need=NEED,
        flops=cost["flops"],
        bytes=cost["bytes"],
        name=f"decode, batch {BATCH}",
        notes=notes,
    )

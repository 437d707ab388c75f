"""What a load came to: numbers with their intervals, as a table, as JSON, as a plot. Given."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from level04.metrics import Request, goodput, percentile, request_metrics

from .client import Record
from .stats import bootstrap_interval, steady_window, tail_samples_needed

QUANTILES = (50, 90, 99)


def spread(values: Sequence[float], rng: np.random.Generator) -> dict:
    """Percentiles with 95% intervals: {"n", "mean", "p50": [value, low, high], …}."""
    if not values:
        return {"n": 0}
    found = {"n": len(values), "mean": float(np.mean(values))}
    for q in QUANTILES:
        at = percentile(values, q)
        inside = (
            bootstrap_interval(values, lambda sample, q=q: percentile(sample, q), rng, 200) if values[1:] else (at, at)
        )
        found[f"p{q}"] = [at, *inside]
    return found


def summary(records: Sequence[Record], rate: float, warm_up: float, slos: tuple[float, float], seed: int = 0) -> dict:
    """The numbers of one load, without requests that were due in its first or its last `warm_up` seconds.

    A request that failed is in no latency, and meets no objective.
    """
    rng, dues = np.random.default_rng(seed), [record.due for record in records]
    begin, end = min(dues) + warm_up, max(dues) - warm_up
    seconds = max(end - begin, 1e-9)
    done: list[Request] = steady_window([record.request for record in records if not record.error], begin, end)
    failed = [record for record in records if record.error and begin <= record.due < end]
    metrics = [request_metrics(*request) for request in done]
    answers = [record.request[1] for record in records if record.chunk_times]
    came = [time for times in answers for time in times if begin <= time < end]
    ended = [times for times in answers if begin <= times[-1] < end]
    return {
        "rate": rate,
        "done": len(done),
        "failed": len(failed),
        "errors": sorted({record.error for record in failed}),
        "seconds": seconds,
        "requests_per_second": len(ended) / seconds,
        "tokens_per_second": len(came) / seconds,
        "goodput": goodput(done, *slos, seconds),
        "slos": {"ttft": slos[0], "tpot": slos[1]},
        "ttft": spread([m["ttft"] for m in metrics], rng),
        "tpot": spread([m["tpot"] for m in metrics if m["tpot"] is not None], rng),
        "itl": spread([gap for m in metrics for gap in m["itl"]], rng),
        "e2e": spread([m["e2e"] for m in metrics], rng),
        "late": max((record.sent - record.due for record in records), default=0.0),
    }


def milliseconds(found: dict, q: int) -> str:
    """ "123 (110-140)"."""
    if not found["n"]:
        return "-"
    at, low, high = (1000 * seconds for seconds in found[f"p{q}"])
    return f"{at:.0f} ({low:.0f}-{high:.0f})"


def table(summaries: Sequence[dict]) -> str:
    """One line for each rate, milliseconds with 95% intervals, and what must be known to read them."""
    columns = ("rate/s", "done", "failed", "tokens/s", "good/s", "TTFT p50 ms", "p90", "p99", "ITL p50 ms", "p99")
    rows = [
        (
            *(
                f"{s['rate']:g}",
                str(s["done"]),
                str(s["failed"]),
                f"{s['tokens_per_second']:.1f}",
                f"{s['goodput']:.2f}",
            ),
            *(milliseconds(s["ttft"], q) for q in QUANTILES),
            *(milliseconds(s["itl"], q) for q in (50, 99)),
        )
        for s in summaries
    ]
    widths = [max(len(row[i]) for row in (columns, *rows)) for i in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in (columns, *rows)]
    slos = summaries[0]["slos"]
    lines += ["", f"good/s: requests with a TTFT of {slos['ttft']:g} s and a TPOT of {slos['tpot']:g} s at most"]
    if (needed := tail_samples_needed(99)) > (least := min(s["done"] for s in summaries)):
        lines += [f"a p99 takes {needed} requests, and here are {least}: read its interval, not its value"]
    if any(s["done"] and s["seconds"] < 5 * s["e2e"]["p50"][0] for s in summaries):
        lines += ["a load was not much longer than one of its answers: its tokens/s are too low, take more requests"]
    if (late := max(s["late"] for s in summaries)) > 0.05:
        lines += [f"the client itself was late by up to {late:.2f} s: that is in the TTFT, and not the server's fault"]
    return "\n".join([*lines, *(f"failed: {error}" for s in summaries for error in s["errors"])])


def plot(summaries: Sequence[dict], path: Path) -> None:
    """Latencies over the rate, and the requests that were offered, answered, and good."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panes = pyplot.subplots(1, 3, figsize=(13, 4), layout="constrained")
    for pane, name in zip(panes, ("ttft", "itl")):
        shown = [s for s in summaries if s[name]["n"]]
        for q in QUANTILES:
            at, low, high = zip(*(s[name][f"p{q}"] for s in shown)) if shown else ((), (), ())
            [line] = pane.plot([s["rate"] for s in shown], at, "o-", label=f"p{q}")
            pane.fill_between([s["rate"] for s in shown], low, high, color=line.get_color(), alpha=0.2)
            pane.vlines([s["rate"] for s in shown], low, high, color=line.get_color(), alpha=0.5, linewidth=3)
        pane.set(title=f"{name.upper()}, with 95% intervals", xlabel="requests per second offered", ylabel="seconds")
        if shown:
            pane.set_yscale("log")
    rates = [s["rate"] for s in summaries]
    panes[2].plot(rates, rates, "x--", color="grey", label="offered")
    panes[2].plot(rates, [s["requests_per_second"] for s in summaries], "o-", label="answered")
    panes[2].plot(rates, [s["goodput"] for s in summaries], "o-", label="within both objectives")
    panes[2].set(title="goodput", xlabel="requests per second offered", ylabel="requests per second")
    panes[2].set_ylim(0, 1.4 * max(rates))
    for pane in panes:
        pane.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)

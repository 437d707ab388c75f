"""Lab: four ways in which a latency lies. One simulated server, asked by clients that wait and by clients that don't.

    python -m dojo lab level10 honest [--rate 8] [--seconds 1200] [--stall 10] [--out DIR]

Nothing here is graded. The server answers one request after the other, 10 a second on average, and once, in the middle,
it stands still. First the same stall as three clients see it: one that waits for each answer, the same with the omitted
requests put back, and users who come by chance. Then how wide the interval of a p99 is, by number of requests. Last
what is left out when requests are chosen by when they ended, and how long they wait near saturation. Look for three
things: a p99 that is wrong by more than a factor of ten, a p99 of 200 requests whose interval leaves the right value
out, and a server that is 19% busier and four times as slow.
"""

import argparse
from pathlib import Path

import numpy as np

from level04.metrics import percentile
from level10.openloop import correct_coordinated_omission, poisson_arrivals
from level10.stats import bootstrap_interval, steady_window, tail_samples_needed

ROOT = Path(__file__).resolve().parents[3]
SERVED = 10.0  # requests per second, on average
COUNTS = (50, 200, 1000, 5000)  # of which a p99 is taken


def answer_times(arrivals, services, stall: tuple[float, float]) -> np.ndarray:
    """When each answer of a server comes that takes one request after the other, and stands still for a while."""
    free, times = 0.0, []
    for arrival, service in zip(arrivals, services):
        begin = max(free, arrival)
        if stall[0] <= begin < stall[1]:
            begin = stall[1]
        free = begin + service
        times.append(free)
    return np.array(times)


def waiting_client(interval: float, services, stall: tuple[float, float], seconds: float) -> list[float]:
    """Latencies of one client that means to send every `interval`, and waits for each answer before it goes on."""
    now, latencies = 0.0, []
    for service in services:
        if now >= seconds:
            break
        begin = stall[1] if stall[0] <= now < stall[1] else now
        latencies.append(begin + service - now)
        now = max(now + interval, begin + service)
    return latencies


def three_views(rate: float, seconds: float, stall: float, rng) -> dict[str, list[float]]:
    """Latencies of about rate * seconds requests, as each client records them."""
    at = seconds / 2, seconds / 2 + stall
    services = rng.exponential(1 / SERVED, int(2 * rate * seconds))
    waiting = waiting_client(1 / rate, services, at, seconds)
    arrivals = poisson_arrivals(rate, int(rate * seconds), rng)
    open_loop = answer_times(arrivals, services, at) - arrivals
    return {
        "one client that waits": waiting,
        "the omitted put back": correct_coordinated_omission(waiting, 1 / rate),
        "open loop": open_loop.tolist(),
    }


def tails(rate: float, rng) -> list[tuple[int, float, float, float]]:
    """(requests, p99, low, high), without a stall."""
    arrivals = poisson_arrivals(rate, max(COUNTS), rng)
    latencies = answer_times(arrivals, rng.exponential(1 / SERVED, len(arrivals)), (-1, -1)) - arrivals
    rows = []
    for n in COUNTS:
        sample = latencies[:n].tolist()
        rows.append((n, percentile(sample, 99), *bootstrap_interval(sample, lambda x: percentile(x, 99), rng, 300)))
    return rows


def p99_formula(rate: float) -> float:
    return float(np.log(100)) / (SERVED - rate)


def chosen_wrongly(rate: float, rng) -> tuple[float, float]:
    """Mean latency of those who were due in a window, and of those who were answered in it: while a queue builds up."""
    arrivals = poisson_arrivals(1.3 * SERVED, 1000, rng)  # more than can be served
    times = answer_times(arrivals, rng.exponential(1 / SERVED, 1000), (-1, -1))
    requests = [(arrival, [time]) for arrival, time in zip(arrivals, times)]
    due = [token_times[0] - arrival for arrival, token_times in steady_window(requests, 20, 60)]
    answered = [time - arrival for arrival, time in zip(arrivals, times) if 20 <= time < 60]
    return float(np.mean(due)), float(np.mean(answered))


def near_saturation(rng, num: int = 40_000) -> list[tuple[float, float, float]]:
    """(rate, mean latency, 1 / (served - rate)) in seconds."""
    rows = []
    for rate in (2.0, 5.0, 8.0, 9.0, 9.5):
        arrivals = poisson_arrivals(rate, num, rng)
        latencies = answer_times(arrivals, rng.exponential(1 / SERVED, num), (-1, -1)) - arrivals
        rows.append((rate, float(np.mean(latencies)), 1 / (SERVED - rate)))
    return rows


def draw(path: Path, views, tail, right_p99, saturation) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, middle, right = (figure := Figure(figsize=(14, 4.2), layout="constrained")).subplots(1, 3)
    for (name, latencies), style in zip(views.items(), ("r-", "g--", "k-")):
        beyond = 1 - np.arange(len(latencies)) / len(latencies)
        left.plot(sorted(latencies), beyond, style, label=name)
    left.set(
        xscale="log", yscale="log", xlabel="seconds", ylabel="share of requests that take longer", xlim=(0.02, None)
    )
    left.set_title("The same stall, three clients")
    for n, value, low, high in tail:
        middle.plot([n, n], [low, high], "k-", lw=3, alpha=0.4)
        middle.plot(n, value, "o", color="tab:blue")
    middle.axhline(right_p99, color="k", linestyle="--", label="ln 100 / (served - rate)")
    middle.axvline(tail_samples_needed(99), color="0.6", linestyle="--", label="10 samples beyond it")
    middle.set(xscale="log", xlabel="requests", ylabel="p99, seconds", ylim=(0, None), title="A p99 and its interval")
    rates = np.linspace(0.5, 9.6, 100)
    right.plot(rates, 1 / (SERVED - rates), "k--", label="1 / (served - rate)")
    right.plot([r for r, _, _ in saturation], [m for _, m, _ in saturation], "o", color="tab:green", label="simulated")
    right.set(xlabel="requests per second", ylabel="mean latency, seconds", title="Near saturation (10 a second)")
    for axes in (left, middle, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level10 honest", description="Four ways in which it lies.")
    parser.add_argument("--rate", type=float, default=8.0, help="requests per second; the server can do 10")
    parser.add_argument("--seconds", type=float, default=1200.0)
    parser.add_argument("--stall", type=float, default=10.0, help="seconds in which the server stands still")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level10")
    args = parser.parse_args(argv)
    if not 0 < args.rate < SERVED or args.seconds < 100 or not 0 <= args.stall < args.seconds / 4:
        raise SystemExit("a rate below 10, at least 100 seconds and a stall of less than a quarter: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    rng = np.random.default_rng(0)
    views = three_views(args.rate, args.seconds, args.stall, rng)
    print(f"a stall of {args.stall:g} s in {args.seconds:g} s, {args.rate:g} requests/s\n")
    print(f"{'recorded by':<26}{'requests':>10}{'mean, s':>10}{'p50':>8}{'p99':>8}{'p99.9':>8}")
    for name, x in views.items():
        quantiles = "".join(f"{percentile(x, q):>8.2f}" for q in (50, 99, 99.9))
        print(f"{name:<26}{len(x):>10,}{np.mean(x):>10.2f}{quantiles}")
    tail = tails(args.rate, rng)
    print(f"\n{'p99 of so many requests':<26}{'seconds':>10}   95% interval")
    for n, value, low, high in tail:
        print(f"{n:<26,}{value:>10.2f}   {low:.2f} to {high:.2f}")
    print(f"{'ln 100 / (10 - rate)':<26}{p99_formula(args.rate):>10.2f}   neighbours in a queue wait together, and an")
    print(f"{'':<39}interval takes them for strangers: it is too narrow")
    due, answered = chosen_wrongly(args.rate, rng)
    print(f"\nserver overloaded, requests due in a window: {due:.1f} s on average; answered in it: {answered:.1f} s")
    saturation = near_saturation(rng)
    print(f"\n{'requests/s of 10':<26}" + "".join(f"{rate:>8g}" for rate, _, _ in saturation))
    print(f"{'mean latency, s':<26}" + "".join(f"{mean:>8.2f}" for _, mean, _ in saturation))
    print(f"{'1 / (10 - rate)':<26}" + "".join(f"{formula:>8.2f}" for _, _, formula in saturation))
    print("\nPutting back what was omitted repairs the tail of one client. It does not make a queue of many.")
    draw(args.out / "honest.png", views, tail, p99_formula(args.rate), saturation)
    print(f"\nwrote {args.out / 'honest.png'}")

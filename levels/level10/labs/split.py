"""Lab: when it pays to give prefill a machine of its own. Two devices, used alike or split, at rising rates.

    python -m dojo lab level10 split [--prompt 4000] [--tokens 150] [--link 50] [--num-requests 400] [--out DIR]

Nothing here is graded. Llama-3.1-8B in bfloat16 on two H100s, on paper: a prompt's prefill at half of the peak, decode
steps that read the weights and the caches of 16 sequences. Either both devices do everything, each for every second
request, prefill first; or one prefills and sends the cache to the other, which decodes. Look for three things: the gaps
in a stream whose neighbour is prefilled; two objectives, of which one, an average, does not see them; and the rate at
which the one device is full that does all the prefill. Then try --prompt 500, and --link 1.
"""

import argparse
from pathlib import Path

import numpy as np

from dojo.models import Config
from level02.cache import kv_bytes_per_token
from level04.ceiling import decode_step_cost, step_seconds
from level04.metrics import goodput, percentile, request_metrics
from level04.roofline import H100
from level10.disaggregate import kv_transfer_seconds, simulate_colocated, simulate_disaggregated
from level10.openloop import poisson_arrivals

ROOT = Path(__file__).resolve().parents[3]
LLAMA_8B = Config(32, 4096, 32, 8, 128, 14336, 128256, rope_theta=500000.0, max_seq_len=131072, tie_embeddings=False)
TTFT_SLO, TPOT_SLO, GAP_SLO = 1.0, 0.025, 0.1  # seconds; of an answer's tokens on average, and of its largest gap
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1)  # of the rate at which one device does nothing but prefill


def durations(prompt: int, link: float) -> tuple[float, float, float]:
    """Seconds of a prefill, of a decode step for 16 sequences, and of a cache on its way."""
    flops = prompt * decode_step_cost(LLAMA_8B, 1, max(1, prompt // 2))["flops"]
    prefill = flops / (0.5 * H100.peak_flops)
    step = step_seconds(decode_step_cost(LLAMA_8B, 16, prompt), H100)
    return prefill, step, kv_transfer_seconds(prompt, kv_bytes_per_token(LLAMA_8B, 2), link * 1e9, 1e-4)


def arrangements(requests, prefill: float, step: float, transfer: float) -> dict[str, list]:
    """(arrival, token times) of each request, both devices alike and split."""
    halves = [simulate_colocated(requests[i::2], prefill, step) for i in (0, 1)]
    alike = [halves[i % 2][i // 2] for i in range(len(requests))]
    split = simulate_disaggregated(requests, prefill, step, transfer)
    return {
        name: [(arrival, times) for (arrival, _), times in zip(requests, found)]
        for name, found in (("alike", alike), ("split", split))
    }


def numbers(found, seconds: float) -> tuple[float, float, float, float]:
    """TTFT p90, the p99 of a stream's largest gap, and the share that meets both objectives, by average and by gap."""
    metrics = [request_metrics(*request) for request in found]
    good = goodput(found, TTFT_SLO, TPOT_SLO, seconds) * seconds / len(found)
    ttft, gaps = [m["ttft"] for m in metrics], [max(m["itl"], default=0.0) for m in metrics]
    smooth = np.mean([first <= TTFT_SLO and gap <= GAP_SLO for first, gap in zip(ttft, gaps)])
    return percentile(ttft, 90), percentile(gaps, 99), good, float(smooth)


def sweep(prompt: int, tokens: int, link: float, num: int) -> list[tuple[float, dict[str, tuple]]]:
    """(rate, numbers of each arrangement), the same arrivals for both."""
    prefill, step, transfer = durations(prompt, link)
    rows = []
    for share in SHARES:
        rate, rng = share / prefill, np.random.default_rng(0)
        arrivals = poisson_arrivals(rate, num, rng)
        requests = [(float(arrival), tokens) for arrival in arrivals]
        both = arrangements(requests, prefill, step, transfer)
        rows.append((rate, {name: numbers(found, arrivals[-1]) for name, found in both.items()}))
    return rows


def one_stream(prompt: int, link: float) -> dict[str, list[float]]:
    """Gaps between the tokens of one answer, while three other prompts come in."""
    prefill, step, transfer = durations(prompt, link)
    first = prefill + 10 * step
    comes = (first, first + prefill + 10 * step, first + 2 * prefill + 15 * step)
    # both devices get the same neighbours, so that "alike" has as much to do on the one that is watched
    requests = [(0.0, 40)] * 2 + [(at, 5) for at in comes for _ in range(2)]
    found = arrangements(requests, prefill, step, transfer)
    return {name: list(np.diff(rows[0][1])) for name, rows in found.items()}


def draw(path: Path, stream, rows) -> None:
    from matplotlib.figure import Figure  # without pyplot: no window, no display needed

    left, middle, right = (figure := Figure(figsize=(14, 4.2), layout="constrained")).subplots(1, 3)
    rates = [rate for rate, _ in rows]
    for name, mark, color in (("alike", "s", "tab:orange"), ("split", "o", "tab:blue")):
        gaps = [1e3 * gap for gap in stream[name]]
        left.plot(range(1, len(gaps) + 1), gaps, mark + "-", color=color, ms=3, label=name)
        for axes, what, scale in ((middle, (1, 0), 1), (right, (3, 2), 100)):
            for i, line in zip(what, ("-", ":")):
                label = f"{name}: {('TTFT p90', 'largest gap, p99', 'by average', 'by largest gap')[i]}"
                values = [scale * found[name][i] for _, found in rows]
                axes.plot(rates, values, mark + line, color=color, label=label)
    left.set(xlabel="token", ylabel="milliseconds since the last one", yscale="log", title="One stream, three prompts")
    middle.set(xlabel="requests per second", ylabel="seconds", yscale="log", title="Waiting")
    right.set(xlabel="requests per second", ylabel="% within both objectives", ylim=(0, 105), title="Goodput")
    for axes in (left, middle, right):
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m dojo lab level10 split", description="A machine for prefill?")
    parser.add_argument("--prompt", type=int, default=4000, help="tokens of every prompt")
    parser.add_argument("--tokens", type=int, default=150, help="of every answer")
    parser.add_argument("--link", type=float, default=50.0, help="GB/s between the devices")
    parser.add_argument("--num-requests", type=int, default=400, help="for each rate")
    parser.add_argument("--out", metavar="DIR", type=Path, default=ROOT / "labs-out" / "level10")
    args = parser.parse_args(argv)
    if min(args.prompt, args.tokens) < 1 or args.link <= 0 or args.num_requests < 20:
        raise SystemExit("at least 1 token, a link above 0 GB/s and at least 20 requests: give other numbers")
    return args


def main(argv: list[str]) -> None:
    args = parse(argv)
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SystemExit(f"--out {args.out} cannot be made ({error.strerror}): name another folder") from None
    prefill, step, transfer = (1e3 * seconds for seconds in durations(args.prompt, args.link))
    print(
        f"prompts of {args.prompt:,} tokens: prefill {prefill:.1f} ms, step {step:.2f} ms, transfer {transfer:.2f} ms\n"
    )
    rows = sweep(args.prompt, args.tokens, args.link, args.num_requests)
    print(f"{'':<12}{'TTFT p90, s':>18}{'largest gap p99, ms':>24}{'% by average':>18}{'% by gap':>18}")
    print(
        f"{'requests/s':<12}"
        + f"{'alike':>10}{'split':>8}"
        + f"{'alike':>16}{'split':>8}"
        + f"{'alike':>10}{'split':>8}" * 2
    )
    for rate, found in rows:
        a, s = found["alike"], found["split"]
        shown = f"{a[0]:>10.2f}{s[0]:>8.2f}{1e3 * a[1]:>16.0f}{1e3 * s[1]:>8.0f}"
        print(f"{rate:<12.1f}{shown}" + "".join(f"{100 * a[i]:>10.0f}{100 * s[i]:>8.0f}" for i in (2, 3)))
    print(
        f"\n%: of requests with a first token within {TTFT_SLO:g} s, and then {1e3 * TPOT_SLO:g} ms a token on average,"
    )
    print(f"or no gap above {1e3 * GAP_SLO:g} ms. An average over an answer does not see that it stood still.")
    print("Split, no stream is ever interrupted, and one device does all prefill: its rate ends where that is full.")
    draw(args.out / "split.png", one_stream(args.prompt, args.link), rows)
    print(f"\nwrote {args.out / 'split.png'}")

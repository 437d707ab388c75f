"""Lab: one token's attention to a long cache as a GPU kernel, in Triton, beside your split_kv_decode.

    python -m dojo lab level07 kernel [--context 4096] [--splits 8]

Optional, and nothing here is graded. The kernel is the loop that you wrote, once for each query head and each split:
all of these programs run at the same time on a GPU, and your `merge` puts the splits together. With CUDA it runs there
and is timed; without it, Triton's interpreter runs it on the CPU, slowly, block by block, which shows that it is right.
Look for three things: what became of the tiles of queries, where the tail of the last block is hidden, and what is
still left for `merge`. Needs Triton (Linux): pip install "triton==3.9.*". Nothing else in this project does.
"""

import argparse
import os
import time

import torch
from torch import Tensor

from level07.decode import split_kv_decode
from level07.online import merge

CUDA = torch.cuda.is_available()
if not CUDA:
    os.environ["TRITON_INTERPRET"] = "1"  # before triton is imported: without a GPU nothing else can run it
try:
    import triton
    import triton.language as tl
except ImportError:
    fix = '.venv/bin/pip install "triton==3.9.*"'
    raise SystemExit(f"Triton is not installed (Linux only, 290 MB to fetch, 1 GB on disk): {fix}") from None

H, G, D, BLOCK = 9, 3, 64, 64  # the heads of SmolLM2; keys that a program takes at a time


@triton.jit
def decode_split(q, k, v, out, lse, kv_len, chunk, scale, GROUP: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    """One query head's attention to one split: q (H, D); k, v (G, kv_len, D); out (H, splits, D); lse (H, splits)."""
    head, split, num_splits = tl.program_id(0), tl.program_id(1), tl.num_programs(1)
    dims = tl.arange(0, D)
    query = tl.load(q + head * D + dims).to(tl.float32) * scale
    m, denominator, acc = float("-inf"), 0.0, tl.zeros([D], tl.float32)
    start = split * chunk
    end = tl.minimum(start + chunk, kv_len)
    for left in range(start, end, BLOCK):
        tokens = left + tl.arange(0, BLOCK)
        inside = tokens < end
        at = (head // GROUP * kv_len + tokens)[:, None] * D + dims[None, :]
        keys = tl.load(k + at, mask=inside[:, None], other=0.0).to(tl.float32)
        values = tl.load(v + at, mask=inside[:, None], other=0.0).to(tl.float32)
        # subtle: exp(0) is 1, so a key that is not there needs a score of -inf, not of 0
        scores = tl.where(inside, tl.sum(keys * query[None, :], 1), float("-inf"))
        new = tl.maximum(m, tl.max(scores, 0))
        shrink, weights = tl.exp(m - new), tl.exp(scores - new)
        acc = acc * shrink + tl.sum(weights[:, None] * values, 0)
        denominator = denominator * shrink + tl.sum(weights, 0)
        m = new
    row = head * num_splits + split
    tl.store(out + row * D + dims, acc / denominator)
    tl.store(lse + row, m + tl.log(denominator))


def triton_decode(q: Tensor, k: Tensor, v: Tensor, num_splits: int) -> tuple[Tensor, Tensor]:
    """split_kv_decode of one sequence: q (1, H, 1, D), k and v (1, G, K, D) -> (out, lse). No split may be empty."""
    if not q.is_cuda:  # the interpreter reads bfloat16 as if it were another type, and says nothing
        q, k, v = q.float(), k.float(), v.float()
    heads, kv_heads, kv_len = q.shape[1], k.shape[1], k.shape[2]
    chunk = -(-kv_len // num_splits)
    num_splits = -(-kv_len // chunk)
    out = torch.empty(heads, num_splits, q.shape[3], device=q.device)
    lse = torch.empty(heads, num_splits, device=q.device)
    arrays = [x.contiguous() for x in (q, k, v)]
    sizes = kv_len, chunk, q.shape[3] ** -0.5
    decode_split[heads, num_splits](*arrays, out, lse, *sizes, GROUP=heads // kv_heads, D=q.shape[3], BLOCK=BLOCK)
    done = out[None, :, :1], lse[None, :, :1]
    for i in range(1, num_splits):
        done = merge(*done, out[None, :, i : i + 1], lse[None, :, i : i + 1])
    return done


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser("python -m dojo lab level07 kernel", description="Decode attention in Triton.")
    parser.add_argument("--context", type=int, default=4096, help="keys and values in the cache")
    parser.add_argument("--splits", type=int, default=8, help="parts of the cache that are read at the same time")
    args = parser.parse_args(argv)
    if args.context < 1 or args.splits < 1:
        raise SystemExit("at least 1 token in the cache, and at least 1 split: give more")
    device = "cuda" if CUDA else "cpu"
    draw = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, n, m, D, generator=draw).to(device) for n, m in ((H, 1), (G, args.context), (G, args.context))
    )
    print(f"{args.context} tokens in {args.splits} splits, on {'CUDA' if CUDA else 'the interpreter (CPU)'}\n")
    for dtype in (torch.float32, torch.bfloat16):
        inputs = [x.to(dtype) for x in (q, k, v)]
        ours, theirs = split_kv_decode(*inputs, args.splits), triton_decode(*inputs, args.splits)
        worst = max((a.float() - b.float()).abs().max().item() for a, b in zip(ours, theirs))
        print(f"{str(dtype):<16} largest difference to your split_kv_decode: {worst:.1e}")
    for name, call in (("yours", split_kv_decode), ("the kernel", triton_decode)):
        call(q, k, v, args.splits)  # compiles, warms up
        start = time.perf_counter()
        for _ in range(10 if CUDA else 1):
            call(q, k, v, args.splits)
        if CUDA:
            torch.cuda.synchronize()
        taken = (time.perf_counter() - start) / (10 if CUDA else 1)
        print(
            f"{name:<16} {1e6 * taken:>10,.0f} µs"
            + ("" if CUDA else "  (the interpreter's time says nothing about a GPU)")
        )

"""The model behind level 10's endpoint, on this level's engine. Given; `nox -s serve` runs it."""

import argparse
from dataclasses import replace
from functools import partial

from dojo import models
from level00.tokenizer import SmolTokenizer
from level10.bridge import AsyncEngine
from level10.serve import arguments, launch

from .engine import Engine
from .paged import paged_step
from .prepack import available, prepack, prepacked_linear
from .scheduler import Scheduler

PARTS = {"forward": "level00", "sampler": "level03", "server": "level10", "engine": "level12"}
BLOCK = 16  # tokens


def arguments_of(words: list[str]) -> argparse.Namespace:
    parser = arguments(__doc__, max_seqs=32, max_open=128)
    parser.add_argument("--blocks", type=int, default=1024, help=f"blocks of {BLOCK} tokens that all requests share")
    parser.add_argument("--no-prefix-cache", action="store_true", help="compute what others have computed already")
    return parser.parse_args(words)


def main(words: list[str], parts: str = "") -> None:
    chosen = arguments_of(words)
    config, params, data = models.load()
    room = min(chosen.room, config.max_seq_len, (chosen.blocks - 1) * BLOCK + 1)  # more would never fit into the pool
    scheduler = Scheduler(
        chosen.blocks,
        BLOCK,
        chosen.token_budget,
        chosen.max_seqs,
        room,
        enable_caching=not chosen.no_prefix_cache,
    )
    config = replace(config, max_seq_len=room)
    run = paged_step
    if available():
        params, run = prepack(params), partial(paged_step, linear=prepacked_linear)
    engine = AsyncEngine(Engine(params, config, scheduler, run=run), chosen.max_open)
    launch(engine, SmolTokenizer.from_model(data), room, chosen.host, chosen.port, parts)

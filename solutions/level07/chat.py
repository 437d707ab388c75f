"""The conversation of level 03 on a cache in blocks and on attention in tiles. Given; `nox -s chat` runs it."""

from functools import partial

import level03.chat as earlier
from level00.transformer import forward
from level06.paged import PagedCache, Pool

from .flash import flash_attend

PARTS = earlier.PARTS | {"cache": "level06", "attention": "level07"}
BLOCK = 16  # tokens


class Conversation(earlier.Conversation):
    """As level 03's; its blocks come from a pool with room for the whole conversation."""

    forward = staticmethod(partial(forward, attend=flash_attend))

    def new_cache(self) -> PagedCache:
        return PagedCache(Pool(self.config, -(-self.room // BLOCK), BLOCK))

"""The blocks of each sequence: what it finds in the cache, what it still needs, and what it leaves behind."""

from collections.abc import Sequence

from level06.blocks import blocks_needed

from .block_pool import BlockPool
from .hash_chain import hash_full_blocks
from .state import Tracked


class KVCacheManager:
    """Gives blocks of a pool to sequences, and finds those that another one has filled with the same tokens.

    A sequence is a Tracked; its block table is the list of its blocks, in the order of its tokens. The methods are
    katas of their own; they use `pool` and `tables` (by the id of the sequence, only those that own blocks), and
    `num_keyed` (by the id: how many of its first blocks have a key).
    """

    def __init__(self, num_blocks: int, block_size: int, enable_caching: bool = True):
        if block_size < 1:
            raise ValueError(f"a block holds at least one token, not {block_size}")
        self.pool, self.block_size, self.enable_caching = BlockPool(num_blocks), block_size, enable_caching
        self.tables: dict[str, list[int]] = {}
        self.num_keyed: dict[str, int] = {}

    def block_table(self, sequence: Tracked) -> list[int]:
        """A copy of its block table; [] while it has no block. Given."""
        return list(self.tables.get(sequence.id, ()))

    def keys_of(self, sequence: Tracked) -> list[bytes]:
        """The key of each full block of its tokens, each computed once. Given."""
        if len(sequence.keys) < sequence.num_tokens // self.block_size:
            sequence.keys = hash_full_blocks(sequence.tokens, self.block_size, sequence.salt, sequence.keys)
        return sequence.keys

    def find_longest_hit(self, keys: Sequence[bytes], max_tokens: int) -> list[int]:
        """Return the blocks that the pool finds under the first keys, up to the first miss, and no more than max_tokens
        fill. Example: blocks of 4, all found, max_tokens 11 -> 2 blocks.

        ● · about 6 lines · part of KVCacheManager.get_computed_blocks
        """
        # TODO: one after the other, as long as they are there
        raise NotImplementedError("level12.kv_manager.KVCacheManager.get_computed_blocks")

    def get_computed_blocks(self, sequence: Tracked) -> tuple[list[int], int]:
        """Return (blocks, tokens in them): the longest beginning of a sequence's tokens that is in the cache.

        sequence  one that owns no blocks: it waits

        Tokens are its prompt and its output so far. At least its last token is left to run, since without it there are
        no logits; so of a sequence that is cached whole the last *block* is computed again. Nothing is changed: the
        blocks may be free. Without caching: ([], 0).
        Example: blocks of 4, tokens 0 .. 8 cached: 9 of them hit 2 blocks, ([1, 2], 8); the first 8 only ([1], 4).

        ● · about 4 lines · needs level12.hash_chain.hash_full_blocks, level12.block_pool.BlockPool
        """
        # TODO: which keys, and how many tokens at most?
        raise NotImplementedError("level12.kv_manager.KVCacheManager.get_computed_blocks")

    def blocks_taken(self, sequence: Tracked, num_tokens: int, hit: Sequence[int]) -> int:
        """Return by how many the free blocks would become fewer if the sequence got room for num_tokens in all, of
        which `hit` holds the first: its new blocks, and those of the hit that are free. Never below 0.

        ● · about 3 lines · part of KVCacheManager.allocate_slots
        """
        # TODO: what it has, what it shares, and what is missing
        raise NotImplementedError("level12.kv_manager.KVCacheManager.allocate_slots")

    def allocate_slots(
        self, sequence: Tracked, num_new_tokens: int, hit: Sequence[int] = (), whole_must_fit: bool = False
    ) -> list[int] | None:
        """Give a sequence room for its next tokens; return its *new* blocks, or None if they cannot be had.

        sequence        its `computed` tokens have their place already
        num_new_tokens  that are to run behind those and behind the hit; not more than it has
        hit             blocks that `get_computed_blocks` found for it just now; it owns none yet
        whole_must_fit  None also if there is no room for all tokens that it has, be it more than are to run now

        The table becomes the hit, which the pool is told of, and the new blocks behind it: no more than are needed.
        Every block that is full then gets its key *now*, before the tokens have run: a second sequence of the same step
        can share it, since its tokens run in the same pass or later. With None nothing has changed.
        Example: blocks of 4, 3 tokens computed in [1], one more: []; one more: [2].
        ValueError: num_new_tokens below 1.

        ●●● · about 15 lines · needs level12.kv_manager.KVCacheManager.get_computed_blocks
        """
        if num_new_tokens < 1:
            raise ValueError(f"at least one token is to run, so num_new_tokens is 1 or more, not {num_new_tokens}")
        # TODO: does it fit? then the hit, the new blocks, and the keys of those that are full
        raise NotImplementedError("level12.kv_manager.KVCacheManager.allocate_slots")

    def free(self, sequence: Tracked) -> None:
        """Take all blocks from a sequence, which then has no table; nothing happens if it owns none.

        The *last* block of the table is freed first: of a chain only the beginning can be hit, so its end should be
        forgotten earlier.
        Example: 9 tokens in blocks of 4, in [1, 2, 3] of 8 blocks: the free queue is then 3 4 5 6 7 2 1.

        ● · about 2 lines · needs level12.kv_manager.KVCacheManager.allocate_slots
        """
        # TODO: backwards; and what else is known of it?
        raise NotImplementedError("level12.kv_manager.KVCacheManager.free")

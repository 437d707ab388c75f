"""Reusing the keys and values of a prompt's beginning: blocks known by the tokens in them and all tokens before."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from .blocks import BlockAllocator


def block_keys(token_ids: Sequence[int], block_size: int, salt: bytes = b"") -> list[bytes]:
    """Return a key for each *full* block of the tokens.

    For one block_size, two keys are equal if and only if salt and all tokens up to the end of the block are (SHA-256
    does not collide): keys and values depend on everything before them. salt, any bytes, stands for what else they
    depend on: a LoRA adapter, a tenant. The keys are the same in every process.
    Example: 5 tokens in blocks of 2 -> 2 keys. ValueError: block_size below 1, an id outside 0 .. 2^32 - 1.

    ●● · about 6 lines
    """
    if block_size < 1:
        raise ValueError(f"a block holds at least one token, not {block_size}")
    if any(not 0 <= token < 2**32 for token in token_ids):
        raise ValueError("token ids are 0 or more, and below 2^32")
    # solution:begin a chain: what goes into the hash of a block besides its own tokens?
    keys, parent, salted = [], b"", hashlib.sha256(salt).digest()
    for end in range(block_size, len(token_ids) + 1, block_size):
        own = b"".join(token.to_bytes(4, "little") for token in token_ids[end - block_size : end])
        parent = hashlib.sha256(parent + salted + own).digest()
        keys.append(parent)
    return keys
    # solution:end


@dataclass
class Entry:
    """A cached block: where it is, who comes before it, and when it was last used. Given."""

    block: int
    parent: bytes | None
    used: int


class PrefixCache:
    """Full blocks of earlier requests, found by what is in them. The cache owns a reference to each of its blocks.

    match(token_ids, salt)  the blocks of the longest prefix that is cached, in order; the caller gets a reference to
                            each, and they count as used now. At least one token is left to run: of 8 tokens in blocks
                            of 4 only the first block can match
    insert(token_ids, block_table, salt)
                            takes the full blocks of a sequence that has been computed, which count as used now; where
                            a key is known, the cache keeps the block that it has. ValueError: more blocks are full
                            than the table has
    evict(num_blocks)       gives up to so many blocks back to the pool and returns how many: of those that nobody but
                            the cache owns, and that no cached block comes after, the one not used for longest, again
                            and again
    num_cached              blocks in the cache

    Example: insert 8 tokens in blocks of 4; a prompt with the same 8 and one more matches 2 blocks, the 8 alone 1.

    ●●● · about 24 lines · needs level06.blocks.BlockAllocator, level06.prefix.block_keys
    """

    def __init__(self, allocator: BlockAllocator, block_size: int):
        self.allocator, self.block_size = allocator, block_size
        self.entries: dict[bytes, Entry] = {}
        self.clock = 0  # of the last use

    @property
    def num_cached(self) -> int:
        return len(self.entries)

    def match(self, token_ids: Sequence[int], salt: bytes = b"") -> list[int]:
        # solution:begin block after block, as long as they are known; how many tokens are left to run?
        self.clock += 1
        found = []
        for key in block_keys(token_ids, self.block_size, salt)[: max(0, len(token_ids) - 1) // self.block_size]:
            if key not in self.entries:
                break
            entry = self.entries[key]
            entry.used = self.clock
            self.allocator.share(entry.block)
            found.append(entry.block)
        return found
        # solution:end

    def insert(self, token_ids: Sequence[int], block_table: Sequence[int], salt: bytes = b"") -> None:
        if len(block_table) < len(token_ids) // self.block_size:
            raise ValueError(f"{len(token_ids)} tokens fill more than {len(block_table)} blocks")
        # solution:begin whose reference is it, and what if the key is there already?
        self.clock += 1
        parent = None
        for key, block in zip(block_keys(token_ids, self.block_size, salt), block_table):
            if key not in self.entries:
                self.allocator.share(block)
                self.entries[key] = Entry(block, parent, self.clock)
            self.entries[key].used = self.clock
            parent = key
        # solution:end

    def evict(self, num_blocks: int) -> int:
        # solution:begin leaves that nobody uses, the oldest first
        evicted = 0
        while evicted < num_blocks:
            parents = {entry.parent for entry in self.entries.values()}
            leaves = [key for key in self.entries if key not in parents]
            idle = [key for key in leaves if self.allocator.ref_count(self.entries[key].block) == 1]
            if not idle:
                break
            oldest = min(idle, key=lambda key: self.entries[key].used)
            self.allocator.release(self.entries.pop(oldest).block)
            evicted += 1
        return evicted
        # solution:end

"""A key for what is in a block: its tokens, and through the key of the block before it everything before them."""

from collections.abc import Sequence
from hashlib import sha256

ROOT = bytes(32)  # the parent of a first block


def hash_block(parent: bytes | None, tokens: Sequence[int], extra: bytes = b"") -> bytes:
    """Return the key of one block, 32 bytes of SHA-256: other parent, other tokens, other order or extra, another key.

    parent  the key of the block before it, None for a first block
    tokens  ids of a block, 0 .. 2^32 - 1, as a list or a tuple
    extra   any bytes: what else the keys and values in it depend on

    Example: [1, 2] with parent None differs from [2] with the key of [1] as its parent.
    ValueError: an id outside 0 .. 2^32 - 1.

    ● · about 2 lines · part of hash_full_blocks
    """
    if any(not 0 <= token < 2**32 for token in tokens):
        raise ValueError("token ids are 0 or more, and below 2^32")
    # solution:begin three things, each of a length that cannot be mistaken
    own = b"".join(token.to_bytes(4, "little") for token in tokens)
    return sha256((parent or ROOT) + sha256(extra).digest() + own).digest()
    # solution:end


def hash_full_blocks(
    tokens: Sequence[int], block_size: int, salt: bytes = b"", known: Sequence[bytes] = ()
) -> list[bytes]:
    """Return a key for each *full* block of the tokens, known ones included: level 06's chain, one link at a time.

    salt   goes into the first block as its `extra`, and through the chain into all others
    known  keys of the first blocks, from an earlier call with fewer tokens: they stay as they are, and are not
           computed again

    For one block_size, keys are equal if and only if the salt and all tokens up to the end of the block are.
    Example: 11 tokens in blocks of 4 -> 2 keys; a 12th token: known=those 2, and only the third one is new.
    ValueError: block_size below 1; as hash_block.

    ● · about 5 lines
    """
    if block_size < 1:
        raise ValueError(f"a block holds at least one token, not {block_size}")
    # solution:begin where do the blocks begin that have no key yet, and what comes before each?
    keys = list(known)
    for start in range(len(keys) * block_size, len(tokens) - block_size + 1, block_size):
        own = tokens[start : start + block_size]
        keys.append(hash_block(keys[-1], own) if keys else hash_block(None, own, salt))
    return keys
    # solution:end

"""Known-wrong programs of level12.hash_chain. `ghost` is given when this is read."""


def _hash(name, sentence, *change, **how):
    ghost("level12.hash_chain.hash_full_blocks", name, sentence, change=change, **how)


PARENT = "(parent or ROOT) + "
EXTRA = "sha256(extra).digest()"
OWN = 'token.to_bytes(4, "little") for token in tokens'
DIGEST = "return sha256((parent or ROOT) + sha256(extra).digest() + own).digest()"
KNOWN = "keys = list(known)"
FROM = "range(len(keys) * block_size,"
TO = "len(tokens) - block_size + 1"
LINK = "hash_block(keys[-1], own) if keys"
FIRST = "hash_block(None, own, salt)"

# ---- one block

_hash(
    "parent_ignored",
    "The key of the block before does not enter yours, so the chain is no chain: hash the parent with the tokens.",
    (PARENT, "ROOT + "),
)
_hash(
    "order_lost",
    "[1, 2] and [2, 1] get one key: the order of the tokens is part of what a block holds, so don't sort them.",
    (OWN, 'token.to_bytes(4, "little") for token in sorted(tokens)'),
)
_hash(
    "a_set_of_tokens",
    "A token that occurs twice stands in two places: hash the sequence, not the set of its tokens.",
    (OWN, 'token.to_bytes(4, "little") for token in dict.fromkeys(tokens)'),
)
_hash(
    "digits_concatenated",
    "[1, 23] and [12, 3] get one key: give each token the same number of bytes before you join them.",
    (OWN, "str(token).encode() for token in tokens"),
)
_hash(
    "shortest_bytes",
    "[256] and [1, 0] get one key: each token needs the same number of bytes, also one that fits into fewer.",
    (OWN, 'token.to_bytes(max(1, (token.bit_length() + 7) // 8), "big") for token in tokens'),
)
_hash(
    "two_bytes_a_token",
    "Tokens that differ by 65536 get one key: an id below 2^32 needs four bytes.",
    (OWN, '(token % 65536).to_bytes(2, "little") for token in tokens'),
)
_hash(
    "single_precision",
    "A float32 has 24 bits: 16777216 and 16777217 get one key. Ids are whole numbers, so keep them so.",
    (OWN, '__import__("struct").pack("f", token) for token in tokens'),
)
_hash(
    "extra_ignored",
    "The extra does not enter your key: two tenants with different salts find each other's blocks.",
    (EXTRA, 'sha256(b"").digest()'),
)
_hash(
    "extra_runs_into_the_tokens",
    "Where the extra ends and the tokens begin can't be seen in your bytes: hash the extra first, or add its length.",
    (EXTRA, "extra"),
)
_hash(
    "a_mark_between",
    "A mark between extra and tokens may be a part of either: hash the extra first, or add its length.",
    (EXTRA, 'extra + b"|"'),
)
_hash(
    "a_mark_behind_the_tokens",
    "A mark between tokens and extra may be a part of either: hash the extra first, or add its length.",
    (DIGEST, 'return sha256((parent or ROOT) + own + b"," + extra).digest()'),
)
_hash(
    "sum_of_tokens",
    "Blocks of different tokens can have one sum: hash every token in its place.",
    (OWN, 'number.to_bytes(8, "little") for number in (sum(tokens), len(tokens))'),
)
_hash(
    "hash_of_python",
    "hash() has 64 bits and was not made against people who look for collisions: use SHA-256 of all bytes.",
    (DIGEST, 'return (hash((parent, own, extra)) % 2**64).to_bytes(32, "little")'),
)
_hash(
    "hexdigest",
    "A key is the 32 bytes of digest(); yours is their text in hexadecimal, twice as long.",
    (
        DIGEST,
        DIGEST.replace(").digest()", ").hexdigest().encode()").replace(EXTRA[:-9] + ".hexdigest().encode()", EXTRA),
    ),
)

# ---- all full blocks

_hash(
    "hash_without_parent",
    "You hash each block without the one before: two prompts that differ earlier share a block, and the second reads "
    "the first one's keys and values.",
    (LINK, "hash_block(None, own) if keys"),
)
_hash(
    "always_the_first_parent",
    "The parent of a block is the one right before it; yours is the first block for all.",
    (LINK, "hash_block(keys[0], own) if keys"),
)
_hash(
    "hash_partial_block",
    "The last block, partly filled, gets a key from you: it will still change, so nobody may use it.",
    (TO, "len(tokens)"),
)
_hash(
    "last_full_block_left_out",
    "A last block that is exactly full has a key too: the range ends one too early.",
    (TO, "len(tokens) - block_size"),
)
_hash(
    "ignore_salt",
    "The salt does not enter your keys: one tenant can find out, by the time of an answer, what another has asked.",
    (FIRST, "hash_block(None, own)"),
)
_hash(
    "salt_in_every_block",
    "The salt is the extra of the first block only: through the parent it is in all the others.",
    (LINK, "hash_block(keys[-1], own, salt) if keys"),
)
_hash(
    "known_computed_again",
    "The known keys stay as they are; yours are all computed again, in each step of a long chat.",
    (KNOWN, "keys = []"),
)
_hash(
    "known_list_grows",
    "The known keys are the caller's list: work on a copy, or a sequence that shares it gets keys of other tokens.",
    (KNOWN, "keys = known if isinstance(known, list) else list(known)"),
)
_hash(
    "known_ones_twice",
    "Behind the known keys go on with the first block that has none; yours begins again with block 0.",
    (FROM, "range(0,"),
)
_hash(
    "new_ones_only",
    "Return all keys, the known ones first; yours are only the new ones.",
    ("return keys", "return keys[len(known) :]"),
)
_hash(
    "chain_begins_again",
    "The parent of the first new block is the last known one; yours begins the chain afresh.",
    (LINK, "hash_block(keys[-1], own) if keys[len(known) :]"),
)
_hash(
    "whole_beginning_again",
    "The parent stands for all tokens before: hash the block's own tokens with it, not the whole beginning once more.",
    ("own = tokens[start : start + block_size]", "own = tokens[: start + block_size]"),
)

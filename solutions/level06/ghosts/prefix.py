"""Known-wrong programs of level06.prefix. `ghost` is given when this is read."""

# ---- block_keys

ENDS = "range(block_size, len(token_ids) + 1, block_size)"
PACKED = 'b"".join(token.to_bytes(4, "little") for token in token_ids[end - block_size : end])'
IDS = "token_ids[end - block_size : end]"
DIGEST = "hashlib.sha256(parent + salted + own).digest()"
SALTED = "hashlib.sha256(salt).digest()"


def _keys(name, sentence, *change, **how):
    ghost("level06.prefix.block_keys", name, sentence, change=change, **how)


# what is in a key
_keys(
    "no_chain",
    "K and V depend on everything before them: the key of the block before goes into the hash as well.",
    DIGEST,
    "hashlib.sha256(salted + own).digest()",
)
_keys(
    "place_and_tokens",
    "Which block of the prompt it is says nothing of the tokens before it: they belong into the hash, by the parent's key.",
    DIGEST,
    "hashlib.sha256(str(end).encode() + salted + own).digest()",
)
_keys(
    "two_blocks",
    "Not the tokens of one block before it, but all: take the parent's key, which stands for them.",
    DIGEST,
    'hashlib.sha256(b"".join(t.to_bytes(4, "little") for t in token_ids[max(0, end - 2 * block_size) : end]) + salted).digest()',
)
_keys(
    "four_blocks",
    "Attention reaches back to the first token, however far it is: a few blocks before are not enough.",
    DIGEST,
    "hashlib.sha256(str((end, list(token_ids[max(0, end - 4 * block_size) : end]))).encode() + salted).digest()",
)
_keys(
    "first_block_and_own",
    "All blocks before count, not the first alone, which is the same system prompt for everybody.",
    DIGEST,
    'hashlib.sha256((keys[0] if keys else b"") + salted + own).digest()',
)
_keys(
    "xor_of_the_blocks",
    "XOR and sums forget the order, and two equal blocks cancel out: hash the parent's key and the tokens in a row.",
    DIGEST,
    "bytes(x ^ y for x, y in zip(parent or bytes(32), hashlib.sha256(salted + own).digest()))",
)
_keys(
    "whole_prompt",
    "A block's key must not depend on what comes after it: then only equal prompts share anything.",
    DIGEST,
    "hashlib.sha256(parent + salted + str(list(token_ids)).encode() + own).digest()",
)
_keys(
    "length_of_the_prompt",
    "How long a prompt goes on does not change its first blocks: leave its length out.",
    DIGEST,
    "hashlib.sha256(parent + salted + str(len(token_ids)).encode() + own).digest()",
)
_keys(
    "key_of_the_block_before",
    "The key of a block has the block's own tokens in it; yours stands for the blocks before it.",
    (
        f"        parent = {DIGEST}\n        keys.append(parent)\n",
        f"        keys.append(parent or salted)\n        parent = {DIGEST}\n",
    ),
)
_keys(
    "last_token_missing",
    "A block's last token belongs to it: a slice ends before its second number.",
    IDS,
    "token_ids[end - block_size : end - 1]",
)
_keys(
    "first_token_missing",
    "A block's first token belongs to it.",
    IDS,
    "token_ids[end - block_size + 1 : end]",
)
_keys(
    "parents_first_byte",
    "One byte of the parent's key is the same for every 256th beginning: chain all of it.",
    DIGEST,
    "hashlib.sha256(parent[:1] + salted + own).digest()",
)

# which blocks have one
_keys(
    "unfinished_blocks",
    "A block that is not full still changes, and half a block is not what the key says: only full blocks have keys.",
    ENDS,
    "range(block_size, len(token_ids) + block_size, block_size)",
)
_keys(
    "full_at_the_end",
    "A block whose last token is the prompt's last is full, and has a key.",
    ENDS,
    "range(block_size, len(token_ids), block_size)",
)
_keys(
    "key_for_each_token",
    "Blocks don't overlap: the next one begins where the last has ended.",
    ENDS,
    "range(block_size, len(token_ids) + 1)",
)
_keys(
    "last_key_only",
    "A key for each block: a prompt that has only the first ones in common shares those.",
    "    return keys\n",
    "    return keys[-1:]\n",
)
_keys(
    "from_the_end",
    "Blocks are counted from the start: beginnings are shared, whatever a prompt's length.",
    IDS,
    "token_ids[end - block_size + len(token_ids) % block_size : end + len(token_ids) % block_size]",
)
_keys(
    "hex_digits",
    "A key is bytes, twice as short as its hex digits: digest(), not hexdigest().",
    "keys.append(parent)",
    "keys.append(parent.hex())",
)
_keys(
    "generator",
    "The keys come as a list: a generator is used up by the first who looks.",
    "    return keys\n",
    "    return iter(keys)\n",
)

# how tokens are written
_keys(
    "digits_joined",
    "1, 23 and 12, 3 are the same digits: give each id a fixed width, or put something between them.",
    PACKED,
    '"".join(map(str, token_ids[end - block_size : end])).encode()',
)
_keys(
    "one_byte",
    "Ids cut to a byte: 65 and 321 get the same key, and one prompt the other's context.",
    PACKED,
    "bytes(token % 256 for token in token_ids[end - block_size : end])",
)
_keys(
    "two_bytes",
    "Ids of 2^16 and more don't fit into two bytes: vocabularies have 100,000 and more.",
    PACKED,
    f'b"".join((token % 2**16).to_bytes(2, "little") for token in {IDS})',
)
_keys(
    "no_more_than_two_bytes",
    "to_bytes(2) refuses ids of 2^16 and more: vocabularies have 100,000 and more. They may have four bytes.",
    'to_bytes(4, "little")',
    'to_bytes(2, "little")',
)
_keys(
    "three_bytes",
    "Ids go up to 2^32 - 1: they don't fit into three bytes.",
    PACKED,
    f'b"".join((token % 2**24).to_bytes(3, "little") for token in {IDS})',
)
_keys(
    "signed",
    "Ids go up to 2^32 - 1: half of them don't fit into four bytes with a sign.",
    'to_bytes(4, "little")',
    'to_bytes(4, "little", signed=True)',
)
_keys(
    "floats",
    "float32 has 24 binary digits: ids above 2^24 become their neighbours.",
    PACKED,
    f'b"".join(__import__("struct").pack("<f", token) for token in {IDS})',
)
_keys(
    "as_few_bytes_as_need_be",
    "With as many bytes as an id needs nobody knows where one ends: 1, 0 and 0, 1 are the same. Give all the same width.",
    PACKED,
    f'b"".join(token.to_bytes((token.bit_length() + 7) // 8, "little") for token in {IDS})',
)
_keys(
    "sorted_tokens",
    "The order of tokens is what makes a text: don't sort them.",
    IDS,
    "sorted(token_ids[end - block_size : end])",
)
_keys(
    "no_token_twice",
    "A token that comes twice counts twice: without repetitions 1, 1, 2 and 1, 2, 2 are the same.",
    IDS,
    "dict.fromkeys(token_ids[end - block_size : end])",
)
# what the hash is
_keys(
    "pythons_hash",
    "Python's hash of bytes and text has another seed in each process, and its 8 bytes can be made to collide: hashlib.",
    DIGEST,
    "str(hash((salt, tuple(token_ids[:end])))).encode().rjust(20)",
)
_keys(
    "pythons_hash_of_text",
    "Python's hash of a text has another seed in each process: after a restart nothing in a store is found. hashlib.",
    DIGEST,
    "str(hash(repr((salt, list(token_ids[:end]))))).encode().rjust(20)",
)
_keys(
    "pythons_hash_of_ids",
    "Python's hash of numbers is no secret: anybody finds two prompts with the same, and gets the other's context. hashlib.",
    DIGEST,
    'hash(tuple(token_ids[:end])).to_bytes(8, "little", signed=True) + salted',
)
_keys(
    "pythons_hash_of_a_chain",
    "hash((parent, a, b)) can be made to collide, as Python's hash of numbers is no secret: hashlib.",
    ('[], b"", hashlib', "[], 0, hashlib"),
    (f"parent = {DIGEST}", f"parent = hash((parent, *{IDS}))"),
    ("keys.append(parent)", 'keys.append(parent.to_bytes(8, "little", signed=True) + salted)'),
)
_keys(
    "four_bytes",
    "Of keys with four bytes two are equal among some 80,000: keep the whole digest.",
    "keys.append(parent)",
    "keys.append(parent[:4])",
)
_keys(
    "eight_bytes",
    "Of keys with eight bytes two are equal among some billions, and can be searched for: keep the whole digest.",
    "keys.append(parent)",
    "keys.append(parent[:8])",
)
_keys(
    "crc32",
    "A CRC finds transmission errors; two prompts with the same are found at once. hashlib.",
    DIGEST,
    '__import__("zlib").crc32(parent + salted + own).to_bytes(4, "little") + salted',
)

# salt
_keys(
    "salt_ignored",
    "Another adapter has other K and V for the same tokens, and a tenant must not see another's: hash the salt too.",
    SALTED,
    'b""',
)
_keys(
    "salt_in_front",
    "Salt and tokens in a row: a salt that looks like the first token gets the keys of another prompt. Hash it by itself.",
    DIGEST,
    'hashlib.sha256(salt + b"".join(t.to_bytes(4, "little") for t in token_ids[:end])).digest()',
)
_keys(
    "salt_as_the_first_parent",
    "A salt may be any bytes, another's key as well, and would go on behind it as its parent: hash the salt by itself.",
    ('[], b"", hashlib', "[], salt, hashlib"),
    (DIGEST, "hashlib.sha256(parent + own).digest()"),
)
_keys(
    "salt_behind_the_parent",
    "Parent, salt and tokens in a row: a salt that is another's key would go on behind it. Hash the salt by itself.",
    DIGEST,
    "hashlib.sha256(parent + salt + own).digest()",
)
_keys(
    "salt_as_text",
    'Salt and ids in a row of text: "t" and 11 is "t1" and 1. Put something between them, or hash the salt by itself.',
    DIGEST,
    'hashlib.sha256(salt + ",".join(map(str, token_ids[:end])).encode()).digest()',
)
_keys(
    "salt_padded",
    'Salts of any length differ: with zeros behind it b"" becomes what b"\\0" does.',
    SALTED,
    r'salt.ljust(128, b"\0")',
)
_keys(
    "salt_cut",
    "All of the salt counts: two tenants whose names are long and begin alike are two.",
    SALTED,
    "hashlib.sha256(salt[:64]).digest()",
)
_keys("length_of_the_salt", "Two salts of the same length are two: hash what is in them.", SALTED, "bytes([len(salt)])")
_keys(
    "salt_of_the_first_block",
    "A salt counts for all blocks: here only the first has it, and the others don't know of the first.",
    DIGEST,
    "hashlib.sha256((b'' if keys else salted) + own).digest()",
)
_keys(
    "salt_as_a_word",
    "All bytes of a salt count: spaces, capitals, and those that are no text.",
    SALTED,
    'hashlib.sha256(salt.decode("utf-8", "replace").strip().lower().encode()).digest()',
)
_keys(
    "salted_or_not",
    "There are many tenants, not two: that there is a salt is not enough.",
    SALTED,
    "bytes([bool(salt)])",
)

# ---- PrefixCache

KEYS = "block_keys(token_ids, self.block_size, salt)[: max(0, len(token_ids) - 1) // self.block_size]"
LIMIT = "[: max(0, len(token_ids) - 1) // self.block_size]"
TICK = "        self.clock += 1\n        found = []\n"
MISS = "            if key not in self.entries:\n                break\n"
USE = "            entry.used = self.clock\n"
SHARE = "            self.allocator.share(entry.block)\n"
FIND = "            found.append(entry.block)\n"
FOUND = "        return found\n"
TICK_INSERT = "        self.clock += 1\n        parent = None\n"
PAIRS = "zip(block_keys(token_ids, self.block_size, salt), block_table)"
UNKNOWN = "            if key not in self.entries:\n                self.allocator.share(block)\n"
TAKE = "self.allocator.share(block)"
ENTRY = "self.entries[key] = Entry(block, parent, self.clock)"
USE_INSERT = "            self.entries[key].used = self.clock\n"
PARENT = "            parent = key\n"
COUNT = "        evicted = 0\n        while evicted < num_blocks:\n"
PARENTS = "parents = {entry.parent for entry in self.entries.values()}"
LEAVES = "leaves = [key for key in self.entries if key not in parents]"
IDLE = "idle = [key for key in leaves if self.allocator.ref_count(self.entries[key].block) == 1]"
OLDEST = "oldest = min(idle, key=lambda key: self.entries[key].used)"
RELEASE = "self.allocator.release(self.entries.pop(oldest).block)"
RETURN = "        return evicted\n"


def _cache(name, sentence, *change, **how):
    ghost("level06.prefix.PrefixCache", name, sentence, change=change, **how)


# match: which blocks
_cache(
    "whole_prompt_hit",
    "With all of a prompt in the cache nothing runs, and there are no logits to choose a token from: leave one token.",
    LIMIT,
    "",
)
_cache(
    "leaves_a_block",
    "One token is left to run, not a whole block: of 9 tokens in blocks of 4, two blocks can match.",
    LIMIT,
    "[: max(0, len(token_ids) - self.block_size) // self.block_size]",
)
_cache(
    "all_or_nothing",
    "A prompt that goes on differently still shares its beginning: return what is found up to there.",
    MISS,
    "            if key not in self.entries:\n                return []\n",
)
_cache(
    "first_block_only",
    "As many blocks as are known, one after the other, not only the first.",
    FIND,
    FIND + "            break\n",
)
_cache(
    "last_block_only",
    "The request reads all blocks of the beginning, in order: return them all.",
    FOUND,
    "        return found[-1:]\n",
)
_cache(
    "backwards",
    "The blocks come in the order of the tokens: they are the begin of a block table.",
    FOUND,
    "        return found[::-1]\n",
)
_cache(
    "numbers_of_tokens",
    "match returns the blocks, not how many tokens are in them.",
    FOUND,
    "        return len(found) * self.block_size\n",
)
_cache(
    "none_for_nothing",
    "Where nothing is found the list is empty: the caller goes on with it as a table.",
    FOUND,
    "        return found or None\n",
)
_cache(
    "own_tokens_only",
    "Blocks with the same tokens behind others are others: look them up by block_keys, which has all tokens before.",
    (
        KEYS,
        "[(tuple(token_ids[i : i + self.block_size]), salt) for i in range(0, len(token_ids) - self.block_size, self.block_size)]",
    ),
    (
        PAIRS,
        "zip([(tuple(token_ids[i : i + self.block_size]), salt) for i in range(0, len(token_ids) - self.block_size + 1, self.block_size)], block_table)",
    ),
)

# match: whose reference
_cache(
    "match_does_not_share",
    "Without a reference of its own, an eviction takes the blocks away under a running request.",
    SHARE,
    "",
)
_cache(
    "match_shares_twice",
    "One reference for each block: a second is never given back, and the block never free.",
    SHARE,
    SHARE + SHARE,
)
_cache(
    "match_shares_the_last",
    "The request needs a reference to each block, not only to the last.",
    (SHARE, ""),
    (FOUND, "        for block in found[-1:]:\n            self.allocator.share(block)\n        return found\n"),
)
_cache(
    "match_shares_once",
    "Each request that matches gets a reference, also where another has one already: both will release it.",
    SHARE,
    "            if self.allocator.ref_count(entry.block) == 1:\n                self.allocator.share(entry.block)\n",
)
_cache(
    "match_shares_the_left_out",
    "The block that is left to run is not matched: nobody will release it.",
    FOUND,
    "        rest = block_keys(token_ids, self.block_size, salt)[len(found) :]\n"
    "        for key in rest:\n"
    "            if key in self.entries:\n"
    "                self.allocator.share(self.entries[key].block)\n"
    "        return found\n",
)
_cache(
    "match_gives_away",
    "A match shares: the cache keeps its blocks, for the next one.",
    (SHARE, ""),
    (FIND, FIND + "            del self.entries[key]\n"),
)

# match: the clock
_cache(
    "match_is_no_use",
    "What is matched has been used: the cache is for what is asked for again, not for what is new.",
    USE,
    "",
)
_cache(
    "match_uses_the_last",
    "All blocks of a match count as used, not only the last: when it has gone, the others are the oldest.",
    (USE, ""),
    (FOUND, "        if found:\n            entry.used = self.clock\n        return found\n"),
)
_cache(
    "match_uses_the_first",
    "All blocks of a match count as used, not only the first.",
    USE,
    "            if not found:\n                entry.used = self.clock\n",
)
_cache(
    "match_uses_what_it_leaves",
    "The block that is left to run is computed anew: it does not count as used.",
    FOUND,
    "        for key in block_keys(token_ids, self.block_size, salt):\n"
    "            if key in self.entries:\n"
    "                self.entries[key].used = self.clock\n"
    "        return found\n",
)
_cache(
    "match_stops_the_clock",
    "Each match is later than what was before it: without a tick it is as old as that.",
    TICK,
    "        found = []\n",
)

# insert
_cache(
    "takes_over_the_reference",
    "The request keeps its reference until it ends, and then releases it: the cache needs one of its own.",
    TAKE,
    "pass",
    convention=True,
)
_cache(
    "owns_twice",
    "A key that is known is owned already: a second reference is never given back, and the block never free.",
    UNKNOWN,
    "            self.allocator.share(self.entries[key].block if key in self.entries else block)\n            if key not in self.entries:\n",
)
_cache(
    "owns_whatever_is_given",
    "Where a key is known, the cache owns its block already: one more reference, to it or a duplicate, is never given back.",
    UNKNOWN,
    "            if key in self.entries:\n                self.allocator.share(block)\n" + UNKNOWN,
)
_cache(
    "takes_the_duplicate",
    "Where a key is known the cache keeps its block: two with the same tokens are one too many.",
    UNKNOWN,
    "            if key in self.entries and self.entries[key].block != block:\n                self.allocator.share(block)\n            if key not in self.entries:\n                self.allocator.share(block)\n",
)
_cache(
    "new_block_for_a_known_key",
    "Where a key is known, the cache keeps the block that it has: others may be reading it, and it is as good.",
    UNKNOWN,
    "            if key in self.entries and self.entries[key].block != block:\n"
    "                self.allocator.release(self.entries.pop(key).block)\n" + UNKNOWN,
)
_cache(
    "new_block_and_old_one_lost",
    "The cache keeps the block that it has: yours forgets it without a release, and it is never free again.",
    UNKNOWN,
    "            if key in self.entries and self.entries[key].block != block:\n"
    "                del self.entries[key]\n" + UNKNOWN,
)
_cache(
    "releases_the_duplicate",
    "A duplicate is the request's own, which still reads it and will release it when it ends.",
    UNKNOWN,
    "            if key in self.entries and self.entries[key].block != block:\n"
    "                self.allocator.release(block)\n" + UNKNOWN,
)
_cache(
    "owns_the_whole_table",
    "Only full blocks can be found: a reference to the last one, which is not full, is never given back.",
    PAIRS,
    PAIRS
    + ":\n            pass\n        for block in block_table[len(token_ids) // self.block_size :]:\n            self.allocator.share(block)\n        for key, block in "
    + PAIRS,
)
_cache(
    "leaves_one_to_run",
    "One token is left to run by match, not by insert: a block that ends with the sequence is full, and is taken.",
    PAIRS,
    "list(zip(block_keys(token_ids, self.block_size, salt), block_table))[: max(0, len(token_ids) - 1) // self.block_size]",
)
_cache("first_block_taken_only", "All full blocks are taken, not only the first.", PAIRS, f"list({PAIRS})[:1]")
_cache(
    "blocks_from_the_end",
    "Block i of the table holds what key i stands for, counted from the start.",
    PAIRS,
    PAIRS.replace("block_table)", "block_table[-(len(token_ids) // self.block_size or 1) :])"),
)
_cache(
    "stops_at_a_known_key",
    "What comes after a known block may be new: a longer sequence adds its other blocks.",
    UNKNOWN,
    "            if key in self.entries:\n                self.entries[key].used = self.clock\n                return\n"
    + UNKNOWN,
)
_cache(
    "insert_is_no_use",
    "An insert is a use, also of blocks that are known: they have just been computed again.",
    USE_INSERT,
    "",
)
_cache(
    "insert_uses_the_last",
    "All blocks of the sequence count as used, not only the last.",
    USE_INSERT,
    "            if block == block_table[len(token_ids) // self.block_size - 1]:\n                self.entries[key].used = self.clock\n",
)
_cache(
    "insert_stops_the_clock",
    "Each insert is later than what was before it: without a tick it is as old as that.",
    TICK_INSERT,
    "        parent = None\n",
)
_cache(
    "first_come_first_gone",
    "Not used for longest is not the same as here for longest: each match and insert is a use.",
    (USE, ""),
    (USE_INSERT, ""),
)
_cache(
    "parent_of_new_blocks_only",
    "The parent of a new block may be one that was known before.",
    UNKNOWN + "                " + ENTRY + "\n" + USE_INSERT + PARENT,
    UNKNOWN + "                " + ENTRY + "\n                parent = key\n" + USE_INSERT,
)
_cache(
    "parent_by_block",
    "The parent is the block that the cache has for the key before, not the duplicate in the request's own table.",
    (ENTRY, "self.entries[key] = Entry(block, parent, self.clock)"),
    (PARENT, "            parent = block\n"),
    (LEAVES, "leaves = [key for key in self.entries if self.entries[key].block not in parents]"),
)

# salt
_cache(
    "match_without_salt",
    "The salt belongs into the key of a match too: a tenant must not find what another has asked.",
    KEYS,
    KEYS.replace(", salt", ""),
)
_cache(
    "insert_without_salt",
    "What is inserted under a salt is found under it, and by nobody else.",
    PAIRS,
    PAIRS.replace(", salt", ""),
)
_cache(
    "no_salt_at_all",
    "Tenants and adapters must not share blocks: give the salt to block_keys, here and there.",
    (KEYS, KEYS.replace(", salt", "")),
    (PAIRS, PAIRS.replace(", salt", "")),
)

# evict: which
_cache(
    "evicts_the_latest",
    "The one not used for longest goes first; yours takes what was used last.",
    OLDEST,
    OLDEST.replace("min(", "max("),
)
_cache(
    "evicts_the_last_of_a_chain_at_once",
    "Again and again the least recently used: when one has gone, its parent may have been used later than other blocks.",
    OLDEST,
    "oldest = min(idle, key=lambda key: min(entry.used for entry in self.entries.values() if entry.block == self.entries[key].block or entry.parent == self.entries[key].parent))",
)
_cache(
    "evicts_the_smallest_number",
    "A block's number says nothing of when it was used.",
    OLDEST,
    "oldest = min(idle, key=lambda key: self.entries[key].block)",
)
_cache(
    "evicts_the_longest_chain",
    "How far from the start a block is does not matter: among the ends of chains the oldest goes.",
    OLDEST,
    "oldest = max(idle, key=lambda key: (self._depth(key), -self.entries[key].used))",
)
_cache(
    "least_often_used",
    "The one not used for longest goes, not the one used least often: what was popular long ago would never go.",
    (USE, "            entry.used += 1\n"),
    (ENTRY, "self.entries[key] = Entry(block, parent, 0)"),
    (USE_INSERT, "            self.entries[key].used += 1\n"),
)
_cache(
    "parents_first",
    "A block without the one before it is never found again, and fills the pool for ever: evict the ends of chains.",
    LEAVES,
    "leaves = list(self.entries)",
)
_cache(
    "takes_children_along",
    "Ends of chains go first, one by one: yours takes the begin, and all that comes after it.",
    (LEAVES, "leaves = list(self.entries)"),
    (
        RELEASE,
        "gone = {oldest}\n"
        "            while more := {key for key, entry in self.entries.items() if entry.parent in gone} - gone:\n"
        "                gone |= more\n"
        "            for key in gone:\n"
        "                self.allocator.release(self.entries.pop(key).block)",
    ),
)
_cache(
    "takes_parents_along",
    "The blocks before an end stay as long as they can: only so many go as are asked for.",
    RELEASE,
    "parent = self.entries[oldest].parent\n"
    "            self.allocator.release(self.entries.pop(oldest).block)\n"
    "            while parent and parent not in {e.parent for e in self.entries.values()} and self.allocator.ref_count(self.entries[parent].block) == 1:\n"
    "                entry = self.entries.pop(parent)\n"
    "                self.allocator.release(entry.block)\n"
    "                parent = entry.parent",
)
_cache(
    "leaves_once",
    "When the end of a chain has gone, the block before it is the end: look for ends again after each eviction.",
    COUNT + "            " + PARENTS + "\n            " + LEAVES + "\n",
    "        evicted = 0\n        "
    + PARENTS
    + "\n        ends = [key for key in self.entries if key not in parents]\n        while evicted < num_blocks:\n            leaves = [key for key in ends if key in self.entries]\n",
)
_cache(
    "order_of_the_start",
    "Which one is the oldest is asked again and again: a parent that becomes the end may be older than the other ends.",
    COUNT + "            " + PARENTS + "\n            " + LEAVES + "\n",
    "        evicted, queue = 0, []\n        while evicted < num_blocks:\n            "
    + PARENTS
    + "\n            "
    + LEAVES
    + "\n            queue = [key for key in queue if key in self.entries] or leaves\n            leaves = [key for key in queue if key in leaves]\n",
)

# evict: what is in use
_cache(
    "evicts_in_use",
    "A request still reads this block: only what nobody but the cache owns can go.",
    IDLE,
    "idle = leaves",
)
_cache(
    "evicts_with_one_owner_more",
    "One owner is the cache; a second is a request that reads the block: it stays.",
    IDLE,
    IDLE.replace("== 1", "<= 2"),
)
_cache(
    "evicts_nothing",
    "The cache itself owns a reference: a block that nobody else uses has one owner, not none.",
    IDLE,
    IDLE.replace("== 1", "== 0"),
)
_cache(
    "stops_at_one_in_use",
    "Where the oldest is in use the next one goes: it need not wait.",
    OLDEST,
    "oldest = min(leaves, key=lambda key: self.entries[key].used)\n            if oldest not in idle:\n                break",
)
_cache(
    "counts_what_is_in_use",
    "A block in use is not given back, and does not count.",
    OLDEST,
    "oldest = min(leaves, key=lambda key: self.entries[key].used)\n            if oldest not in idle:\n                evicted += 1\n                continue",
)
_cache(
    "ignores_children_in_use",
    "A block that a request holds comes after its parents as well: without them it is never found again.",
    PARENTS,
    "parents = {entry.parent for entry in self.entries.values() if self.allocator.ref_count(entry.block) == 1}",
)
_cache(
    "keeps_what_comes_after_one_in_use",
    "A block that nobody holds can go, although a request holds those before it: they are found without it.",
    IDLE,
    IDLE
    + "\n            idle = [key for key in idle if not (above := self.entries[key].parent) or self.allocator.ref_count(self.entries[above].block) == 1]",
)
_cache(
    "in_use_is_used",
    "A use is a match or an insert, here: that a request still holds a block later on does not make it newer.",
    COUNT,
    "        for entry in self.entries.values():\n"
    "            if self.allocator.ref_count(entry.block) > 1:\n"
    "                entry.used = self.clock\n" + COUNT,
    convention=True,
)
_cache(
    "old_uses_of_new_blocks",
    "A block that is cached again after it was evicted has been used now, and not when it was there before.",
    (
        USE_INSERT,
        "            self.old = self.__dict__.get('old', {})\n            self.entries[key].used = self.old.pop(key, self.clock)\n",
    ),
    (
        RELEASE,
        "self.old = self.__dict__.get('old', {})\n            self.old[oldest] = self.entries[oldest].used\n            "
        + RELEASE,
    ),
)
_cache(
    "nothing_while_one_is_in_use",
    "One request that runs does not hold up all others: what it does not use can go.",
    "            if not idle:\n",
    "            if not idle or any(self.allocator.ref_count(entry.block) > 1 for entry in self.entries.values()):\n",
)

# evict: what becomes of it, and how many
_cache(
    "keeps_the_block",
    "Evicting gives the block back to the pool: forgotten without a release it is lost.",
    RELEASE,
    "del self.entries[oldest]",
)
_cache(
    "keeps_the_entry",
    "Who finds a block that was given back reads somebody else's keys and values: forget its key as well.",
    RELEASE,
    "self.allocator.release(self.entries[oldest].block)",
)
_cache(
    "releases_until_free",
    "The cache gives back its own reference, and no other's: a request's is not the cache's to release.",
    (IDLE, "idle = leaves"),
    (
        RELEASE,
        "block = self.entries.pop(oldest).block\n            while self.allocator.ref_count(block):\n                self.allocator.release(block)",
    ),
)
_cache(
    "says_what_was_asked",
    "Return how many were given back, which may be fewer than asked for: the caller counts on them.",
    RETURN,
    "        return num_blocks\n",
)
_cache(
    "says_nothing",
    "Return how many blocks were given back: the caller must know whether it has room now.",
    RETURN,
    "        return None\n",
)
_cache(
    "says_what_is_left",
    "Return how many were given back, not how many are left.",
    RETURN,
    "        return len(self.entries)\n",
)
_cache(
    "one_only",
    "Up to num_blocks go, not one.",
    COUNT,
    "        evicted = 0\n        while evicted < min(1, num_blocks):\n",
)
_cache(
    "one_too_many",
    "num_blocks go, and not one more: what stays saves somebody's prefill.",
    COUNT,
    "        evicted = 0\n        while evicted <= num_blocks:\n",
)
_cache(
    "evicts_all",
    "Only as many go as are asked for: what stays saves somebody's prefill.",
    COUNT,
    "        evicted = 0\n        while True:\n",
)
_cache(
    "all_or_none",
    "Up to so many: where there are fewer, those go.",
    "            if not idle:\n                break\n",
    "            if not idle or (evicted == 0 and len(self.entries) < num_blocks):\n                break\n",
)
_cache(
    "until_so_many_are_free",
    "So many blocks are given back, whether or not others are free: the caller knows how many it lacks.",
    COUNT,
    "        evicted = 0\n        while self.allocator.num_free < num_blocks:\n",
    convention=True,
)

"""Known-wrong programs of level06.blocks. `ghost` is given when this is read."""


def _waste(name, sentence, *pairs):
    ghost("level06.blocks.wasted_slots", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _pool(name, sentence, *pairs):
    ghost("level06.blocks.BlockAllocator", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- blocks_needed

_CEIL = "return -(-num_tokens // block_size)"

_waste("floor", "A block that is only partly full is a block too: round up.", _CEIL, "return num_tokens // block_size")
_waste(
    "always_one_more",
    "16 tokens fill a block of 16, and need no second one: round up only where a rest remains.",
    _CEIL,
    "return num_tokens // block_size + 1",
)
_waste(
    "nearest",
    "Round up, not to the nearest: a block that holds one token is as much of a block as a full one.",
    _CEIL,
    "return int(num_tokens / block_size + 0.5)",
)
_waste(
    "at_least_one",
    "A sequence of 0 tokens needs no block: who waits must not hold memory.",
    _CEIL,
    "return max(1, -(-num_tokens // block_size))",
)
_waste(
    "upside_down",
    "Tokens over block size, rounded up; yours divides the block size by the tokens.",
    _CEIL,
    "return -(-block_size // num_tokens) if num_tokens else 0",
)
_waste(
    "one_below",
    "Add block_size - 1 before dividing with //: with less, a single token in the last block is lost.",
    _CEIL,
    "return (num_tokens + max(0, block_size - 2)) // block_size",
)
_waste(
    "slots_instead_of_blocks",
    "Count blocks; yours counts the slots in them.",
    _CEIL,
    "return -(-num_tokens // block_size) * block_size",
)
_waste(
    "blocks_of_16",
    "The block size is an argument: 16 is only the usual one.",
    _CEIL,
    "return -(-num_tokens // 16)",
)
_waste(
    "single_precision",
    "A float32 has 24 bits: divide whole numbers with //, and no length is rounded away.",
    _CEIL,
    "import torch\n\n    return int((torch.tensor(float(num_tokens)) / block_size).ceil())",
)
_waste(
    "almost_one_more",
    "Adding 0.999 before int() loses one token in a large block: add block_size - 1, in whole numbers.",
    _CEIL,
    "return int(num_tokens / block_size + 0.999)",
)
_waste(
    "rounds_to_a_power_of_two",
    "A shift divides by powers of two only; a block may hold any number of tokens.",
    _CEIL,
    "bits = (block_size - 1).bit_length()\n    return -(-num_tokens >> bits)",
)

# ---- wasted_slots

_SUM = "return sum(blocks_needed(length, block_size) * block_size - length for length in lengths)"

_waste(
    "total_first",
    "Sequences don't share their last blocks: round up each length by itself, not the sum of all.",
    _SUM,
    "return blocks_needed(sum(lengths), block_size) * block_size - sum(lengths)",
)
_waste(
    "half_a_block_each",
    "Half a block per sequence is only what is wasted on average: count the real tails.",
    _SUM,
    "return sum(block_size // 2 for length in lengths if blocks_needed(length, block_size))",
)
_waste(
    "waste_of_whole_blocks",
    "These are the blocks in use; waste is what is allocated in them and holds nothing.",
    _SUM,
    "return sum(blocks_needed(length, block_size) for length in lengths)",
)
_waste(
    "allocated",
    "Waste is what is allocated minus what is used: subtract the lengths.",
    _SUM,
    "return sum(blocks_needed(length, block_size) * block_size for length in lengths)",
)
_waste(
    "blocks_minus_tokens",
    "blocks_needed counts blocks: times block_size they are slots, and only those can be compared with tokens.",
    _SUM,
    "return sum(blocks_needed(length, block_size) - length for length in lengths)",
)
_waste(
    "used_of_the_last",
    "length % block_size is what the last block holds; what is empty is the rest of it.",
    _SUM,
    "return sum(blocks_needed(length, block_size) and length % block_size for length in lengths)",
)
_waste(
    "full_block_is_empty",
    "Where length % block_size is 0 the last block is full and nothing is wasted, not a whole block.",
    _SUM,
    "return sum(block_size - length % block_size for length in lengths if blocks_needed(length, block_size))",
)
_waste(
    "empty_request_holds_a_block",
    "A sequence of 0 tokens has no block, so there is nothing that it could waste.",
    _SUM,
    "return sum(max(1, blocks_needed(length, block_size)) * block_size - length for length in lengths)",
)
_waste(
    "each_length_once",
    "Two sequences of one length have a tail each: do not make a set of the lengths.",
    _SUM,
    _SUM.replace("in lengths", "in set(lengths)"),
)
_waste(
    "padded_to_the_longest",
    "Each sequence has its own number of blocks: yours gives all of them as many as the longest needs.",
    _SUM,
    "longest = max((blocks_needed(length, block_size) for length in lengths), default=0)\n"
    "    return longest * block_size * len(lengths) - sum(lengths)",
)
_waste(
    "largest_tail",
    "The waste of all sequences is a sum; yours is the largest of them.",
    _SUM,
    _SUM.replace("sum(", "max((").replace("in lengths)", "in lengths), default=0)"),
)
_waste(
    "of_each",
    "One number for all sequences together: sum them up.",
    _SUM,
    _SUM.replace("sum(", "[").replace("in lengths)", "in lengths]"),
)
_waste(
    "share",
    "A number of slots is asked for, not their share of all that is allocated.",
    _SUM,
    "held = sum(blocks_needed(length, block_size) * block_size for length in lengths)\n"
    "    return (held - sum(lengths)) / held if held else 0.0",
)
_waste(
    "accepts_negative_lengths",
    "-length % block_size has an answer for negative lengths too: let blocks_needed refuse them.",
    _SUM,
    "return sum(-length % block_size for length in lengths if blocks_needed(abs(length), block_size))",
)
_waste(
    "skips_bad_lengths",
    "A negative length is refused, not left out: somebody's count is wrong, and should hear of it.",
    _SUM,
    "return sum(blocks_needed(length, block_size) * block_size - length for length in lengths if length >= 0)",
)
_waste(
    "without_the_last",
    "All sequences count, the last one too.",
    _SUM,
    _SUM.replace("in lengths", "in lengths[:-1]"),
)

# ---- BlockAllocator: who is free

_FREE = "self.free = list(range(num_blocks))\n"
_OWNERS = "self.owners = [0] * num_blocks\n"
_NUM_FREE = "return len(self.free)"
_COUNT = "return self.owners[block]"
_CHECK_FREE = "        if not self.free:\n"
_RAISE = '            raise OutOfBlocks(f"all {self.num_blocks} blocks are in use")\n'
_POP = "block = self.free.pop()"
_FIRST = "        self.owners[block] = 1\n"
_SHARE = "self.owners[block] += 1"
_FEWER = "        self.owners[block] -= 1\n"
_LAST = "        if not self.owners[block]:\n"
_BACK = "            self.free.append(block)\n"
_ALONE = "if self.owners[block] == 1:\n            return block, None\n"
_NEW = "        new = self.allocate()  # first: if there is none, nothing has changed\n"
_LEAVE = "        self.release(block)\n"
_PAIR = "return new, block\n"

_pool(
    "block_0_held_back",
    "Every block of the pool is handed out, block 0 too: some engines keep it back for padding, this pool has none.",
    _FREE,
    "self.free = list(range(1, num_blocks))\n",
)
_pool(
    "counts_from_1",
    "The blocks are 0 .. num_blocks - 1: block num_blocks lies behind the pool.",
    _FREE,
    "self.free = list(range(1, num_blocks + 1))\n",
    _OWNERS,
    "self.owners = [0] * (num_blocks + 1)\n",
)
_pool(
    "one_block_too_many",
    "range(num_blocks) has all blocks: one more than that is memory that nobody has reserved.",
    _FREE,
    "self.free = list(range(num_blocks + 1))\n",
    _OWNERS,
    "self.owners = [0] * (num_blocks + 1)\n",
)
_pool(
    "free_by_references",
    "num_free counts blocks without an owner: a block with three owners is one block, not three.",
    _NUM_FREE,
    "return self.num_blocks - sum(self.owners)",
)
_pool(
    "free_or_with_one_owner",
    "num_free counts blocks without an owner; one that a single sequence holds is in use.",
    _NUM_FREE,
    "return len(self.free) + self.owners.count(1)",
)
_pool(
    "free_is_the_pool",
    "num_free falls when a block is taken: the scheduler asks it whether a request fits.",
    _NUM_FREE,
    "return self.num_blocks",
)
_pool(
    "used_instead_of_free",
    "num_free counts the free blocks; yours counts those in use.",
    _NUM_FREE,
    "return self.num_blocks - len(self.free)",
)
_pool(
    "owned_or_not",
    "ref_count is the number of owners, not whether there is one: with 2 a write needs a copy, with 1 it does not.",
    _COUNT,
    "return int(self.owners[block] > 0)",
)

# ---- BlockAllocator: allocate, share, release

_pool(
    "no_exception_of_its_own",
    "An empty pool raises OutOfBlocks, which the scheduler waits for; an IndexError looks like a bug.",
    _CHECK_FREE + _RAISE,
    "",
)
_pool(
    "none_when_used_up",
    "An empty pool raises OutOfBlocks; None would be taken for a block by whoever forgets to look.",
    _RAISE,
    "            return None\n",
)
_pool(
    "keeps_the_last_one",
    "The last free block can be handed out too.",
    _CHECK_FREE,
    "        if len(self.free) <= 1:\n",
)
_pool(
    "takes_a_used_block",
    "A used-up pool says so. Yours hands out a block that somebody reads: two users' texts get mixed.",
    _RAISE,
    "            self.free.append(0)\n",
)
_pool(
    "hands_it_out_twice",
    "A block that is handed out is no longer free: take it out of the list.",
    _POP,
    "block = self.free[-1]",
)
_pool(
    "no_first_owner",
    "Whoever gets a block is its first owner: its count is 1, not 0.",
    _FIRST,
    "",
)
_pool(
    "hands_out_new_blocks_only",
    "A released block can be handed out again: yours gives out each one once, and then the server stands still.",
    _CHECK_FREE,
    "        if not getattr(self, 'left', 1):\n",
    _POP,
    "self.left = getattr(self, 'left', self.num_blocks) - 1\n        block = self.free.pop(0)",
)
_pool(
    "share_takes_a_block",
    "Sharing takes no block: the count alone grows, that is what it saves.",
    _SHARE,
    "self.owners[self.allocate()] -= 1\n        self.owners[block] += 1",
)
_pool(
    "share_takes_one_off_the_list",
    "Sharing takes no block off the list of the free ones: the count alone grows, that is what it saves.",
    _SHARE,
    "self.owners[block] += 1\n        self.free.pop()",
)
_pool(
    "two_at_most",
    "A block can have any number of owners: add one, do not set it to 2.",
    _SHARE,
    "self.owners[block] = 2",
)
_pool(
    "share_counts_nothing",
    "share adds an owner. Without it the first release frees a block that the other still reads.",
    _SHARE,
    "pass",
)
_pool(
    "share_counts_twice",
    "share adds one owner, who will release once; yours adds two, so the block is never free again.",
    _SHARE,
    "self.owners[block] += 2",
)
_pool(
    "freed_at_first_release",
    "A block is free when its last owner has gone; the others still read it.",
    _FEWER,
    "        self.owners[block] = 0\n",
)
_pool(
    "freed_while_shared",
    "A block goes back to the free ones with its last owner only: yours hands it out while others own it.",
    _LAST,
    "        if block not in self.free:\n",
)
_pool(
    "never_freed",
    "With its last owner a block becomes free: put it back, or the pool runs dry.",
    _LAST + _BACK,
    "",
)
_pool(
    "freed_with_one_owner_left",
    "0 owners is free, 1 is not.",
    _LAST,
    "        if self.owners[block] <= 1 and block not in self.free:\n",
)
_pool(
    "release_does_not_count",
    "release takes one owner away: with the count as it was a second release frees the block again.",
    _FEWER + _LAST,
    "        self.owners[block] -= self.owners[block] > 1\n        if self.owners[block] == 1:\n",
)
_pool(
    "released_blocks_keep_a_count",
    "A free block has 0 owners: with its count left at 1 it can be released again, and is handed out twice.",
    _FEWER + _LAST + _BACK,
    "        if self.owners[block] == 1:\n"
    "            self.free.append(block)\n"
    "        else:\n"
    "            self.owners[block] -= 1\n",
)
_pool(
    "another_block_is_freed",
    "The block that was released is free, not the one with its count's number.",
    _BACK,
    "            self.free.append(len(self.free))\n",
)
_pool(
    "freed_twice_over",
    "Put a released block back once: twice in the list, it is handed to two sequences.",
    _BACK,
    "            self.free += [block, block]\n",
)

# ---- BlockAllocator: make_writable

_pool(
    "always_copies",
    "Nobody else sees what the only owner writes: it keeps its block, and nothing is copied.",
    _ALONE,
    "if self.owners[block] < 1:\n            return block, None\n",
)
_pool(
    "never_copies",
    "With more than one owner the writer needs a block of its own: the others would see its tokens.",
    _ALONE,
    "if self.owners[block] >= 1:\n            return block, None\n",
)
_pool(
    "two_owners_write_in_place",
    "Two owners are one too many: in place only with exactly one.",
    _ALONE,
    "if self.owners[block] <= 2:\n            return block, None\n",
)
_pool(
    "stays_an_owner",
    "The writer leaves the old block: without one owner less it is never free again.",
    _LEAVE,
    "",
)
_pool(
    "frees_the_old_one",
    "One owner leaves the old block; the others are still there.",
    _LEAVE,
    "        self.owners[block] = 0\n        self.free.append(block)\n",
)
_pool(
    "the_last_one_leaves",
    "The only owner keeps its block: released first, it is free, and somebody gets it while the owner writes.",
    "        if self.owners[block] == 1:\n            return block, None\n" + _NEW + _LEAVE + "        " + _PAIR,
    "        self.release(block)\n"
    "        if not self.owners[block]:\n            return block, None\n"
    "        return self.allocate(), block\n",
)
_pool(
    "one_owner_is_left",
    "The writer alone leaves: the old block has one owner less, not one owner.",
    _LEAVE,
    "        self.owners[block] = 1\n",
)
_pool(
    "all_move_along",
    "Only the writer gets the new block: the other owners don't know of it, and keep the old one.",
    _LEAVE,
    "        self.owners[new], self.owners[block] = self.owners[block] - 1, 1\n",
)
_pool(
    "leaves_before_it_has_one",
    "First get a new block, then leave the old: if there is none, the reference must still be there.",
    _NEW + _LEAVE,
    "        self.release(block)\n        new = self.allocate()\n",
)
_pool(
    "reserves_for_the_only_owner",
    "The only owner needs no free block: look at its count before you ask for one.",
    "        if self.owners[block] == 1:\n            return block, None\n" + _NEW,
    "        new = self.allocate()\n"
    "        if self.owners[block] == 1:\n            self.release(new)\n            return block, None\n",
)
_pool(
    "old_first",
    "(new block, old block): the first is where to write, the second what to copy from.",
    _PAIR,
    "return block, new\n",
)
_pool(
    "nothing_to_copy",
    "Say what is to be copied: the tokens before the new one are in the old block, the new one holds garbage.",
    _PAIR,
    "return new, None\n",
)
_pool(
    "copies_onto_itself",
    "The only owner has nothing to copy: None, not the block itself.",
    "return block, None\n",
    "return block, block\n",
)
_pool(
    "in_place_when_full",
    "Without a free block a shared one can't be written: OutOfBlocks, and somebody has to wait.",
    _NEW,
    "        if not self.free:\n            return block, None\n" + _NEW,
)
_pool(
    "new_block_counts_two",
    "The new block has one owner, the writer: allocate has counted it already.",
    _PAIR,
    "self.owners[new] += 1\n        return new, block\n",
)

"""Known-wrong programs of level06.paged. `ghost` is given when this is read."""


def _row(name, sentence, *pairs):
    ghost("level06.paged.gather", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _cache(name, sentence, *pairs):
    ghost("level06.paged.PagedCache", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- slots

_POSITIONS = "positions = torch.arange(start, end)\n"
_TABLE = "torch.tensor(block_table, dtype=torch.int64)"
_SLOTS = f"return {_TABLE}[positions // block_size] * block_size + positions % block_size"
_FOUND = "found = pool.flatten(0, 1)[slots(block_table, 0, length, pool.shape[1])]"
_ROW = "return found.transpose(0, 1).unsqueeze(0)"

_row(
    "swapped",
    "The quotient says which block, the remainder where in it; yours has them the wrong way round.",
    _SLOTS,
    f"return {_TABLE}[positions % len(block_table)] * block_size + positions // block_size % block_size",
)
_row(
    "not_translated",
    "The quotient is an entry of the table, not a block of the pool: ask the table where that part lies.",
    _SLOTS,
    "return positions // block_size * block_size + positions % block_size",
)
_row(
    "one_block_after_the_other",
    "The blocks of a sequence lie anywhere: only within a block are tokens neighbours.",
    _SLOTS,
    "return (block_table[0] if len(block_table) else 0) * block_size + positions",
)
_row(
    "blocks_not_slots",
    "A block is block_size slots long: multiply its number by that before you add the offset.",
    _SLOTS,
    f"return {_TABLE}[positions // block_size] + positions % block_size",
)
_row(
    "without_the_offset",
    "Add the offset in the block: yours gives every token the block's first slot.",
    _SLOTS,
    f"return {_TABLE}[positions // block_size] * block_size",
)
_row(
    "position_as_offset",
    "The offset is counted from the block's first token: position % block_size, not the position.",
    _SLOTS,
    f"return {_TABLE}[positions // block_size] * block_size + positions",
)
_row(
    "backwards_in_the_block",
    "The first token of a block has offset 0.",
    _SLOTS,
    f"return {_TABLE}[positions // block_size] * block_size + block_size - 1 - positions % block_size",
)
_row(
    "from_the_first_token",
    "The tokens start .. end - 1 are asked for; yours counts from token 0 again, where the prompt lies.",
    _POSITIONS,
    "positions = torch.arange(end - start)\n",
)
_row(
    "all_up_to_the_end",
    "Begin at start: what is before it has been written already.",
    _POSITIONS,
    "positions = torch.arange(end)\n",
)
_row(
    "end_included",
    "The last token is end - 1, as in range(start, end).",
    _POSITIONS,
    "positions = torch.arange(start, min(end, len(block_table) * block_size - 1) + 1)\n",
)
_row(
    "last_one_missing",
    "range(start, end) has end - start tokens: yours leaves out the last.",
    _POSITIONS,
    "positions = torch.arange(start, max(start, end - 1))\n",
)
_row(
    "sorted_table",
    "The table has the order of the tokens, not of the addresses: sort it, and the text is another.",
    _TABLE,
    "torch.tensor(sorted(block_table), dtype=torch.int64)",
)
_row(
    "table_backwards",
    "The first block of the table has the first tokens.",
    _TABLE,
    "torch.tensor(block_table[::-1], dtype=torch.int64)",
)
_row(
    "int32",
    "An index tensor is int64, as the docstring says; a pool of 2^31 slots would overflow int32.",
    _SLOTS,
    _SLOTS.replace("return ", "return (") + ").int()",
)
_row(
    "a_list",
    "A tensor is asked for: it indexes the pool in one step.",
    _SLOTS,
    _SLOTS.replace("return ", "return (") + ").tolist()",
)
_row(
    "blocks_of_16",
    "The block size is an argument, and 16 only the usual one.",
    _SLOTS,
    _SLOTS.replace("block_size", "16"),
)
_row(
    "a_mask_of_the_pool",
    "In the order of the sequence, not of the pool: a mask of the slots forgets which comes first.",
    _SLOTS,
    _SLOTS.replace("return ", "return (") + ").sort().values",
)
_row(
    "float_quotient",
    "An index is a whole number: / makes a float of it, // does not.",
    "positions // block_size]",
    "positions / block_size]",
)
_row(
    "empty_table",
    "A sequence that has not begun has no blocks: torch.tensor([]) is float, say that it is int64.",
    _SLOTS,
    "held = torch.tensor(block_table)\n    return held[positions // block_size] * block_size + positions % block_size",
)


def _listed(name, sentence, slot, positions="range(start, end)", type=", dtype=torch.int64"):
    """The same in a loop over the positions i, as many would write it."""
    _row(name, sentence, _SLOTS, f"return torch.tensor([{slot} for i in {positions}]{type})")


_LISTED = "block_table[i // block_size] * block_size + i % block_size"

_listed(
    "no_slots_are_float",
    "torch.tensor([]) is float, and no index: a sequence of no tokens has slots of int64 too.",
    _LISTED,
    type="",
)
_listed(
    "up_to_end",
    "The last token is end - 1, as in range(start, end): for end there may be no block.",
    _LISTED,
    "range(start, end + 1)",
)
_listed(
    "offset_times_size",
    "A block is block_size slots long: its number is multiplied by that, and the offset added as it is.",
    "block_table[i // block_size] + i % block_size * block_size",
)
_listed(
    "float_entries",
    "An entry of the table has a whole number: / makes a float of it, // does not.",
    "block_table[i / block_size] * block_size + i % block_size",
)

# ---- gather

_row(
    "whole_blocks",
    "Stop at `length`: the slots behind it hold what somebody else has left there.",
    _FOUND,
    "slots(block_table, 0, length, pool.shape[1])\n"
    "    found = pool[torch.tensor(block_table, dtype=torch.int64)].flatten(0, 1)",
)
_row(
    "all_of_the_pool",
    "Only the blocks of the table belong to the sequence; yours reads the pool from its first block.",
    _FOUND,
    "slots(block_table, 0, length, pool.shape[1])\n    found = pool.flatten(0, 1)[:length]",
)
_row(
    "cuts_in_silence",
    "More tokens than the blocks hold are refused: a slice that stops early forgets the newest tokens.",
    _FOUND,
    "found = pool[torch.tensor(block_table, dtype=torch.int64)].flatten(0, 1)[:length]",
)
_row(
    "in_the_order_of_the_pool",
    "A mask of the pool forgets the order: the table says which token comes first, so index with its slots.",
    _FOUND,
    _FOUND.replace("pool.shape[1])]", "pool.shape[1]).sort().values]"),
)
_row(
    "newest_tokens",
    "The *first* `length` tokens: yours takes the last slots of the blocks.",
    _FOUND,
    "slots(block_table, 0, length, pool.shape[1])\n"
    "    found = pool[torch.tensor(block_table, dtype=torch.int64)].flatten(0, 1)\n"
    "    found = found[len(found) - length :]",
)
_row(
    "a_token_per_block",
    "A block holds block_size tokens: index the slots, not the blocks.",
    _FOUND,
    "slots(block_table, 0, length, pool.shape[1])\n"
    "    table = [block for block in block_table for _ in range(pool.shape[1])]\n"
    "    found = pool[:, 0][torch.tensor(table, dtype=torch.int64)[:length]]",
)
_row(
    "size_from_another_axis",
    "The block size is the pool's second axis; the third counts the heads.",
    "pool.shape[1])]",
    "pool.shape[2])]",
)
_row(
    "number_of_blocks_as_size",
    "The block size is the pool's second axis; the first counts the blocks.",
    "pool.shape[1])]",
    "pool.shape[0])]",
)
_row(
    "one_token_behind",
    "`length` tokens, the newest too: it attends to itself.",
    _FOUND,
    _FOUND + "[: max(0, length - 1)]",
)
_row(
    "reshaped",
    "Move the axis of the heads to the front; a reshape keeps the numbers in their order and mixes heads and tokens.",
    _ROW,
    "return found.reshape(1, pool.shape[2], length, pool.shape[3])",
)
_row(
    "tokens_before_heads",
    "Attention takes (1, G, length, D): the heads come before the tokens.",
    _ROW,
    "return found.unsqueeze(0)",
)
_row(
    "without_the_batch",
    "(1, G, length, D): a batch of one is an axis too.",
    _ROW,
    "return found.transpose(0, 1)",
)
_row(
    "features_before_tokens",
    "(1, G, length, D): the features come last.",
    _ROW,
    "return found.permute(1, 2, 0).unsqueeze(0)",
)
_row(
    "tokens_backwards",
    "Token 0 comes first: the causal mask takes the last keys for the newest.",
    _ROW,
    "return found.transpose(0, 1).unsqueeze(0).flip(2)",
)
_row(
    "heads_backwards",
    "The heads keep their order: each query head reads its own.",
    _ROW,
    "return found.transpose(0, 1).unsqueeze(0).flip(1)",
)
_row(
    "always_float32",
    "A pool in bfloat16 is gathered in bfloat16: nothing is computed here.",
    _ROW,
    "return found.transpose(0, 1).unsqueeze(0).float()",
)
_row(
    "nan_is_0",
    "Tokens are moved, not mended: a NaN in a key should be seen by whoever looks for its cause.",
    _ROW,
    "return found.transpose(0, 1).unsqueeze(0).nan_to_num()",
)
_row(
    "sum_with_a_mask",
    "0 · NaN is NaN: index the slots that are wanted, do not sum over all with zeros for the others.",
    _FOUND,
    "at = slots(block_table, 0, length, pool.shape[1])\n"
    "    chosen = (at[:, None] == torch.arange(pool.shape[0] * pool.shape[1])).double()\n"
    "    found = torch.einsum('ts,sgd->tgd', chosen, pool.flatten(0, 1).double()).to(pool.dtype)",
)

# ---- PagedCache: write and update

_START = "start, end = self.counts[layer], self.counts[layer] + k.shape[2]\n"
_FIRST = "        if layer == 0:\n            self._reserve(start, end)\n"
_AT = "at = slots(self.block_table, start, end, self.pool.block_size)\n"
_HELD = "((self.pool.keys, k), (self.pool.values, v))"
_PUT = "held[layer].flatten(0, 1)[at] = new[0].transpose(0, 1).to(held.dtype)"
_COUNT = "        self.counts[layer] = end\n        # solution:end"
_GATHER = "tuple(gather(held[layer], self.block_table, end) for held in (self.pool.keys, self.pool.values))"
_LENGTH = "return self.counts[-1]"

_cache(
    "values_are_keys",
    "Keys and values have a tensor each: the values go into pool.values.",
    _HELD,
    "((self.pool.keys, k), (self.pool.values, k))",
)
_cache(
    "swapped",
    "Keys into pool.keys, values into pool.values: exchanged, a fork or a kernel finds them in the wrong place.",
    _HELD,
    "((self.pool.keys, v), (self.pool.values, k))",
    _GATHER,
    _GATHER.replace("(self.pool.keys, self.pool.values)", "(self.pool.values, self.pool.keys)"),
)
_cache(
    "values_first",
    "update returns (keys, values), in this order.",
    _GATHER,
    _GATHER.replace("(self.pool.keys, self.pool.values)", "(self.pool.values, self.pool.keys)"),
)
_cache(
    "one_layer_for_all",
    "Every layer has its own keys and values in the block: yours writes them all into layer 0.",
    _PUT,
    _PUT.replace("held[layer]", "held[0]"),
    _GATHER,
    _GATHER.replace("held[layer]", "held[0]"),
)
_cache(
    "writes_at_the_front",
    "Write behind what the layer holds; yours begins at the first slot again.",
    _AT,
    _AT.replace("start, end", "0, end - start"),
)
_cache(
    "reshaped",
    "The pool has tokens before heads, k has heads before tokens: transpose, a reshape mixes them.",
    _PUT,
    "held[layer].flatten(0, 1)[at] = new[0].reshape(new.shape[2], new.shape[1], new.shape[3]).to(held.dtype)",
)
_cache(
    "into_a_copy",
    "What you write must land in the pool; an indexed tensor is a copy, and the tokens are lost with it.",
    _PUT,
    "held[layer][self.block_table].flatten(0, 1)[:end][start:] = new[0].transpose(0, 1).to(held.dtype)",
)
_cache(
    "type_of_the_newcomer",
    "The pool has a type, and keys of another are converted to it: an indexed write does not do that by itself.",
    _PUT,
    _PUT.replace(".to(held.dtype)", ""),
)
_cache(
    "by_way_of_float32",
    "Convert to the pool's type at once: float64 keys lose their last bits on the way through float32.",
    _PUT,
    _PUT.replace(".to(held.dtype)", ".float().to(held.dtype)"),
)
_cache(
    "returns_the_newcomer_s_type",
    "What is returned is what the pool holds, in its type: rounded to bfloat16 it stays bfloat16.",
    _GATHER,
    _GATHER.replace("end) for", "end).to(k.dtype) for"),
)
_cache(
    "returns_the_new_ones_only",
    "update returns all that the layer holds, old and new: the query attends to the whole past.",
    _GATHER,
    _GATHER.replace("end) for", "end)[:, :, end - k.shape[2] :] for"),
)
_cache(
    "one_pass_behind",
    "The new tokens are part of what is returned: a token attends to itself.",
    _GATHER,
    _GATHER.replace("end) for", "self.length if layer < len(self.counts) - 1 else end - k.shape[2]) for"),
)
_cache(
    "whole_blocks",
    "Return the tokens that the layer holds, not all slots of its blocks: the rest is garbage.",
    _GATHER,
    _GATHER.replace("end) for", "len(self.block_table) * self.pool.block_size) for"),
)
_cache(
    "first_layer_moves_it",
    "length moves with the *last* layer of a pass: the others must not see another position than the first.",
    _LENGTH,
    "return self.counts[0]",
)
_cache(
    "first_layer_is_never_the_last",
    "A model may have a single layer: the first one of a pass is then the last one as well, and moves the length.",
    _LENGTH,
    "return self.counts[-1] if len(self.counts) > 1 else 0",
)
_cache(
    "length_in_whole_blocks",
    "length counts tokens, not the slots of the blocks that are reserved for them.",
    _LENGTH,
    "return len(self.block_table) * self.pool.block_size",
)
_cache(
    "length_of_all_layers",
    "A token counts once, not once for each layer.",
    _LENGTH,
    "return sum(self.counts)",
)
_cache(
    "one_count_for_all_layers",
    "Each layer has to know what it holds itself: with one count the second layer writes behind the first one's tokens.",
    _START,
    "start, end = self.counts[-1], self.counts[-1] + k.shape[2]\n",
    _COUNT,
    "        self.counts[-1] = end\n        # solution:end",
    "        end = self.counts[layer]\n",
    "        end = self.counts[-1]\n",
)
_cache(
    "counts_nothing",
    "Each layer's count moves with what is written into it: else every token goes into the first slot.",
    _COUNT,
    "        # solution:end",
)
_cache(
    "length_instead_of_the_layers_count",
    "update returns what its own layer holds: length, which moves with the last layer, lacks the new tokens in all others.",
    _COUNT,
    "        if layer == len(self.counts) - 1:\n            self.counts = [end] * len(self.counts)\n        # solution:end",
)
_cache(
    "counts_updates",
    "An update may bring several tokens: count them, not the updates.",
    _COUNT,
    "        self.counts[layer] = start + 1\n        # solution:end",
)
_cache(
    "counts_heads",
    "The tokens are the third axis of k, (1, G, n, D); the second counts the heads.",
    _START,
    _START.replace("k.shape[2]", "k.shape[1]"),
)
_cache(
    "write_forgets_to_count",
    "write puts tokens into the cache, so the length moves with it; yours counts in update alone.",
    _COUNT,
    "        # solution:end",
    "        end = self.counts[layer]\n",
    "        self.counts[layer] += k.shape[2]\n        end = self.counts[layer]\n",
)
_cache(
    "write_reserves_nothing",
    "write needs room like update: blocks are taken in the first layer of a pass, whichever of the two it calls.",
    _FIRST,
    "",
    "        self.write(layer, k, v)\n",
    "        if layer == 0:\n"
    "            self._reserve(self.counts[0], self.counts[0] + k.shape[2])\n"
    "        self.write(layer, k, v)\n",
)

# ---- PagedCache: which blocks are taken, and when

_MISSING = "missing = blocks_needed(end, size) - len(self.block_table)\n"
_SHARED = "shared = start % size > 0 and allocator.ref_count(self.block_table[start // size]) > 1\n"
_CHECK = "        if allocator.num_free < missing + shared:\n"
_RAISE = (
    '            raise OutOfBlocks(f"{missing + shared} more blocks are needed, and {allocator.num_free} are free")\n'
)
_WRITABLE = "new, old = allocator.make_writable(self.block_table[start // size])\n"
_COPY = "                held[:, new] = held[:, old]\n"
_SIDES = "            for held in (self.pool.keys, self.pool.values):\n                held[:, new]"
_ENTER = "            self.block_table[start // size] = new\n"
_GROW = "self.block_table += [allocator.allocate() for _ in range(missing)]\n"

_cache(
    "reserves_per_layer",
    "A block is the same block in every layer: take it once, in the first layer of the pass.",
    "        if layer == 0:\n            self._reserve(start, end)\n",
    "        self._reserve(start, end + layer * self.pool.block_size)\n",
)
_cache(
    "reserves_in_the_last_layer",
    "Blocks are taken in the first layer: the later ones write into them.",
    _FIRST,
    "        if layer == 0 or layer == len(self.counts) - 1:\n"
    "            self._reserve(start, end if layer else max(start, end - 1))\n"
    "            self._reserve(start, end)\n",
)
_cache(
    "one_block_per_update",
    "A chunk goes on in the block that is partly full: 3 and 2 tokens are 2 blocks of 4, not one for each update.",
    _MISSING,
    "missing = blocks_needed(end - start, size)\n",
)
_cache(
    "one_block_at_most",
    "Several tokens may need several blocks: a prompt is as long as it likes.",
    _MISSING,
    "missing = min(1, blocks_needed(end, size) - len(self.block_table))\n",
)
_cache(
    "one_block_ahead",
    "Blocks for the tokens that come, and no more: one in reserve for everybody is half of a small pool.",
    _MISSING,
    "missing = end // size + 1 - len(self.block_table)\n",
)
_cache(
    "rounds_down",
    "A last block that is partly full is a block too: round up.",
    _MISSING,
    "missing = end // size - len(self.block_table)\n",
)
_cache(
    "newest_block_first",
    "The table has the order of the tokens: a new block comes behind the old ones.",
    _GROW,
    "self.block_table[:0] = [allocator.allocate() for _ in range(missing)]\n",
)
_cache(
    "sorted_table",
    "The table has the order of the tokens, not of the addresses.",
    _GROW,
    _GROW + "        self.block_table.sort()\n",
)
_cache(
    "never_asks",
    "Ask before you take: an exception halfway leaves blocks that are taken, copied and never used.",
    _CHECK + _RAISE,
    "",
)
_cache(
    "takes_what_is_there",
    "Ask before you take: refused halfway, the cache keeps blocks for tokens that never came, and others wait for them.",
    _CHECK + _RAISE,
    "",
    _GROW,
    "for _ in range(missing):\n            self.block_table.append(allocator.allocate())\n",
)
_cache(
    "forgets_the_copy",
    "A copy-on-write needs a free block too: with one free, a copy and a new block are one too many.",
    _CHECK,
    "        if allocator.num_free < missing:\n",
)
_cache(
    "keeps_one_free",
    "The last free block can be used: only fewer than needed is too few.",
    _CHECK,
    "        if missing + shared and allocator.num_free <= missing + shared:\n",
)
_cache(
    "always_room_for_a_copy",
    "Nothing is copied where nobody else owns the block, so no block is needed for it.",
    _CHECK,
    "        if allocator.num_free < missing + (start % size > 0):\n",
)
_cache(
    "forgets_the_room_that_is_left",
    "The last block has room for some of the new tokens: only what is missing beyond it has to be free.",
    _CHECK,
    "        if allocator.num_free < max(blocks_needed(end - start, size), missing + shared):\n",
)
_cache(
    "counts_what_is_refused",
    "Count when the tokens are written: refused ones must leave the cache as it was.",
    "        if layer == 0:\n            self._reserve(start, end)\n",
    "        self.counts[layer] = end\n        if layer == 0:\n            self._reserve(start, end)\n",
)
_cache(
    "refuses_with_valueerror",
    "A pool that is used up raises OutOfBlocks: the caller waits for that, and a ValueError is somebody's mistake.",
    _RAISE,
    '            raise ValueError("too few blocks")\n',
)

# ---- PagedCache: copy-on-write

_cache(
    "writes_into_shared_blocks",
    "After a fork the half full block has two owners: whoever writes first needs a copy, or both see it.",
    _SHARED,
    "shared = False\n",
)
_cache(
    "copies_only_for_three",
    "Two owners are enough for a copy: only with one nobody else sees what is written.",
    _SHARED,
    _SHARED.replace("> 1\n", "> 2\n"),
)
_cache(
    "copies_what_is_its_own",
    "The only owner writes in place: a copy would take a block for nothing.",
    _SHARED,
    "shared = start % size > 0\n",
    _WRITABLE,
    "old = self.block_table[start // size]\n"
    "            new = allocator.allocate()\n"
    "            allocator.release(old)\n",
)
_cache(
    "copies_full_blocks",
    "A full block is never written again: it stays shared, and the next token gets a new block.",
    _SHARED,
    "place = (start - 1) // size\n        shared = start > 0 and allocator.ref_count(self.block_table[place]) > 1\n",
    _WRITABLE,
    "new, old = allocator.make_writable(self.block_table[place])\n",
    _ENTER,
    "            self.block_table[place] = new\n",
)
_cache(
    "not_after_one_token",
    "A block is shared also where only its middle is written: ask who owns it whenever start lies within a block.",
    _SHARED,
    "shared = start % size > 1 and allocator.ref_count(self.block_table[start // size]) > 1\n",
)
_cache(
    "copies_all_shared_blocks",
    "Only the block that is written is copied: the full ones before it are read alone, and stay shared.",
    _ENTER,
    _ENTER + "            for place, block in enumerate(self.block_table):\n"
    "                if allocator.ref_count(block) > 1 and allocator.num_free > missing:\n"
    "                    mine, theirs = allocator.make_writable(block)\n"
    "                    self.pool.keys[:, mine] = self.pool.keys[:, theirs]\n"
    "                    self.pool.values[:, mine] = self.pool.values[:, theirs]\n"
    "                    self.block_table[place] = mine\n",
)
_cache(
    "copies_shared_blocks_in_order",
    "Only the block that is written is copied: those before it are full, read by all, and stay shared.",
    _SHARED,
    "shared = 0\n",
    "        if shared:\n            " + _WRITABLE,
    "        for place, block in enumerate(self.block_table):\n"
    "            new, old = allocator.make_writable(block)\n"
    "            if old is None:\n                continue\n",
    _ENTER,
    "            self.block_table[place] = new\n",
)
_cache(
    "copies_nothing",
    "A new block is not enough: the tokens before the new one are in the old block, copy them.",
    "            for held in (self.pool.keys, self.pool.values):\n" + _COPY,
    "",
)
_cache(
    "copies_one_layer",
    "The block is the same in every layer: copy it in all of them, [:, new], not in the first alone.",
    _COPY,
    "                held[0, new] = held[0, old]\n",
)
_cache(
    "last_layer_not_copied",
    "All layers are copied, the last one too.",
    _COPY,
    "                held[:-1, new] = held[:-1, old]\n",
)
_cache(
    "copies_keys_alone",
    "Values are copied as well as keys.",
    _SIDES,
    "            for held in (self.pool.keys,):\n                held[:, new]",
)
_cache(
    "copies_values_alone",
    "Keys are copied as well as values.",
    _SIDES,
    "            for held in (self.pool.values,):\n                held[:, new]",
)
_cache(
    "copies_backwards",
    "From the old block into the new one: the other way round the owners of the old one lose their tokens.",
    _COPY,
    "                held[:, old] = held[:, new]\n",
)
_cache(
    "copies_one_token_less",
    "All tokens that the block holds are copied, start % size of them.",
    _COPY,
    "                held[:, new, : start % size - 1] = held[:, old, : start % size - 1]\n",
)
_cache(
    "copies_the_first_slot",
    "All tokens that the block holds are copied, not the first alone.",
    _COPY,
    "                held[:, new, :1] = held[:, old, :1]\n",
)
_cache(
    "copies_when_its_turn_comes",
    "Copy all layers before the first write: when the others' turn comes, the old block may be somebody else's.",
    _COPY,
    "                held[0, new] = held[0, old]\n            self.later = new, old\n",
    _AT,
    _AT + "        if layer and getattr(self, 'later', None):\n"
    "            new, old = self.later\n"
    "            for held in (self.pool.keys, self.pool.values):\n"
    "                held[layer, new] = held[layer, old]\n"
    "            if layer == len(self.counts) - 1:\n"
    "                self.later = None\n",
)
_cache(
    "table_keeps_the_old_block",
    "Put the new block into the table: yours copies, and then writes into the old one all the same.",
    _ENTER,
    "",
)
_cache(
    "new_block_at_the_end",
    "The copy takes the place of the block that it replaces, where the table has that part of the sequence.",
    _ENTER,
    "            self.block_table.append(new)\n",
)
_cache(
    "last_of_the_table",
    "Copy the block of the first new token: after a pass that broke off it is not the last of the table.",
    _SHARED,
    "shared = start % size > 0 and allocator.ref_count(self.block_table[-1]) > 1\n",
    _WRITABLE,
    "new, old = allocator.make_writable(self.block_table[-1])\n",
    _ENTER,
    "            self.block_table[-1] = new\n",
)
_cache(
    "stays_an_owner",
    "Whoever has a copy leaves the old block: without one owner less it is never free again.",
    _WRITABLE,
    _WRITABLE + "            allocator.share(old)\n",
)
_cache(
    "frees_the_old_block",
    "make_writable has given the old block up already: released again, it is taken from those who still read it.",
    _WRITABLE,
    _WRITABLE + "            allocator.release(old)\n",
)
_cache(
    "copies_in_every_pass",
    "Once copied the block is the writer's own, until the next fork.",
    _SHARED,
    _SHARED.replace("shared = ", "self.shared = shared = getattr(self, 'shared', False) or ").replace("\n", "")
    + "\n        shared = bool(shared and start % size)\n",
    _WRITABLE,
    "old, new = self.block_table[start // size], allocator.allocate()\n            allocator.release(old)\n",
)

# ---- PagedCache: truncate, fork, release

_KEEP = "keep = blocks_needed(n, self.pool.block_size)\n"
_GIVE = "        for block in self.block_table[keep:]:\n            self.pool.allocator.release(block)\n"
_DROP = "        del self.block_table[keep:]\n"
_CUT = "        self.counts = [n] * len(self.counts)\n"
_SHARE = "        for block in self.block_table:\n            self.pool.allocator.share(block)\n"
_CHILD = "return PagedCache(self.pool, self.block_table, self.length)"
_ALL = "self.truncate(0)"

_cache(
    "keeps_the_blocks",
    "Blocks of which nothing is left go back to the pool: others wait for them.",
    _GIVE + _DROP,
    "",
)
_cache(
    "cuts_the_table_only",
    "Taken out of the table, a block is still owned: release it, or it is lost for ever.",
    _GIVE,
    "",
)
_cache(
    "releases_and_keeps",
    "A block that was given back is another's: take it out of the table.",
    _DROP,
    "",
)
_cache(
    "gives_back_too_much",
    "A block of which one token is left stays: round up.",
    _KEEP,
    "keep = n // self.pool.block_size\n",
)
_cache(
    "gives_back_too_little",
    "Cut at the end of a block, nothing is left of the next one: it goes back.",
    _KEEP,
    "keep = n // self.pool.block_size + 1\n",
)
_cache(
    "keeps_one_block",
    "An empty cache holds no block: with truncate(0) all go back.",
    _KEEP,
    "keep = max(1, blocks_needed(n, self.pool.block_size))\n",
)
_cache(
    "gives_back_the_first",
    "truncate keeps the first tokens: the blocks at the end of the table go back.",
    _GIVE + _DROP,
    "        gone = len(self.block_table) - keep\n"
    "        for block in self.block_table[:gone]:\n"
    "            self.pool.allocator.release(block)\n"
    "        del self.block_table[:gone]\n",
)
_cache(
    "drops_n",
    "truncate(n) keeps n tokens; yours drops n.",
    _KEEP,
    "n = self.length - n\n        " + _KEEP,
)
_cache(
    "cuts_in_whole_blocks",
    "truncate(n) keeps n tokens, and a block may be partly full: blocks are what is given back, not what is kept.",
    _CUT,
    "        self.counts = [keep * self.pool.block_size] * len(self.counts)\n",
)
_cache(
    "last_layer_only",
    "All layers forget: yours cuts the one that length is read from, the others go on behind what they had.",
    _CUT,
    "        self.counts[-1] = n\n",
)
_cache(
    "as_many_in_every_layer",
    "Keep the first n in every layer; after a pass that broke off some hold more, and have more to forget.",
    _CUT,
    "        gone = self.length - n\n        self.counts = [count - gone for count in self.counts]\n",
)
_cache(
    "nothing_to_release",
    "length 0 does not mean no blocks: a first pass that broke off has taken some.",
    _ALL,
    "if self.length:\n            self.truncate(0)",
)
_cache(
    "never_longer_than_it_is",
    "Also where n is the length there may be something to take back: blocks of a pass that broke off.",
    _KEEP,
    "if n == self.length:\n            return\n        " + _KEEP,
)
_cache(
    "frees_for_everybody",
    "Each gives back its own reference: the others still read the block.",
    _GIVE,
    "        for block in self.block_table[keep:]:\n"
    "            while self.pool.allocator.ref_count(block):\n"
    "                self.pool.allocator.release(block)\n",
)
_cache(
    "keeps_what_is_shared",
    "Give back shared blocks as well: each owner lets go of its own reference.",
    _GIVE,
    "        for block in self.block_table[keep:]:\n"
    "            if self.pool.allocator.ref_count(block) == 1:\n"
    "                self.pool.allocator.release(block)\n",
)
_cache(
    "fork_counts_nothing",
    "A fork is one more owner of each block: without it the first that ends frees what the other reads.",
    _SHARE,
    "",
)
_cache(
    "fork_counts_the_last_block",
    "Every block has one more owner, the full ones too: they are read as long as either lives.",
    _SHARE,
    _SHARE.replace("in self.block_table:", "in self.block_table[-1:]:"),
)
_cache(
    "fork_counts_full_blocks",
    "The half full block has one more owner too: it is the one that must be copied before somebody writes.",
    _SHARE,
    _SHARE.replace("in self.block_table:", "in self.block_table[: self.length // self.pool.block_size]:"),
)
_cache(
    "fork_shares_the_table",
    "Each sequence has a table of its own: what one of them appends is not the other's.",
    _CHILD,
    "child = PagedCache(self.pool, self.block_table, self.length)\n"
    "        child.block_table = self.block_table\n        return child",
)
_cache(
    "fork_is_itself",
    "A fork is another sequence; yours is the same one with another name.",
    _CHILD,
    "return self",
)
_cache(
    "fork_copies_everything",
    "A fork shares all blocks: copied, sixteen answers hold the prompt sixteen times.",
    _SHARE + "        " + _CHILD,
    "        table = []\n"
    "        for block in self.block_table:\n"
    "            table.append(self.pool.allocator.allocate())\n"
    "            self.pool.keys[:, table[-1]] = self.pool.keys[:, block]\n"
    "            self.pool.values[:, table[-1]] = self.pool.values[:, block]\n"
    "        return PagedCache(self.pool, table, self.length)",
)
_cache(
    "fork_copies_the_last_block",
    "Not even the half full block is copied by a fork: only when somebody writes, and the last one never.",
    _CHILD,
    "child = PagedCache(self.pool, self.block_table, self.length)\n"
    "        if self.length % self.pool.block_size:\n"
    "            child._reserve(self.length, self.length)\n"
    "        return child",
)
_cache(
    "fork_forgets_the_length",
    "A fork has the same tokens, so it has the same length: from 0 it writes over them.",
    _CHILD,
    "return PagedCache(self.pool, self.block_table)",
)
_cache(
    "fork_of_the_first_layer",
    "A fork has the tokens that all layers hold, `length`: in a pass that broke off the first layer is ahead.",
    _CHILD,
    "return PagedCache(self.pool, self.block_table, self.counts[0])",
)
_cache(
    "fork_in_whole_blocks",
    "A fork has as many tokens as its parent, not as its blocks have slots.",
    _CHILD,
    "return PagedCache(self.pool, self.block_table, len(self.block_table) * self.pool.block_size)",
)
_cache(
    "release_counts_nothing_down",
    "release gives the blocks back; yours forgets them, and they are owned for ever.",
    _ALL,
    "self.block_table, self.counts = [], [0] * len(self.counts)",
)
_cache(
    "release_keeps_the_table",
    "After release the cache is empty: a second one would give back blocks that are another's by now.",
    _ALL,
    "for block in self.block_table:\n            self.pool.allocator.release(block)",
)
_cache(
    "release_keeps_the_length",
    "An empty cache has length 0: its next token is the first.",
    _ALL,
    "for block in self.block_table:\n            self.pool.allocator.release(block)\n        self.block_table = []",
)
_cache(
    "release_leaves_shared_blocks",
    "Release each block once, whoever owns it as well: its last owner frees it.",
    _ALL,
    "for block in self.block_table:\n"
    "            if self.pool.allocator.ref_count(block) == 1:\n"
    "                self.pool.allocator.release(block)\n"
    "        self.block_table, self.counts = [], [0] * len(self.counts)",
)
_cache(
    "one_pool_for_all",
    "A cache lives in the pool that it was made with: another model has another pool.",
    "self.pool, self.block_table = pool, list(block_table)",
    "type(self).pool, self.block_table = pool, list(block_table)",
)
_cache(
    "release_what_length_needs",
    "Give back all of the table: a pass that broke off has taken blocks for tokens that never came.",
    _ALL,
    "for block in self.block_table[: blocks_needed(self.length, self.pool.block_size)]:\n"
    "            self.pool.allocator.release(block)\n"
    "        self.block_table, self.counts = [], [0] * len(self.counts)",
)

# ---- PagedCache: the same mistakes of those who ask for room in every layer, and whether the table has the block

_IN_EVERY_LAYER = (
    (_FIRST, "        self._reserve(start, end)\n"),
    (
        _SHARED,
        "place = start // size\n"
        "        shared = start < end and place < len(self.block_table)\n"
        "        shared = shared and allocator.ref_count(self.block_table[place]) > 1\n",
    ),
)


def _again(name, sentence, *pairs):
    _cache(f"{name}_in_every_layer", sentence, *[text for pair in _IN_EVERY_LAYER for text in pair], *pairs)


_again(
    "table_keeps_the_old_block",
    "The new block has to stand in the table: else every layer copies again, and all write into the old one.",
    _ENTER,
    "",
)
_again(
    "one_count",
    "Each layer has to know what it holds itself: yours moves all counts at once.",
    _COUNT,
    "        self.counts = [end] * len(self.counts)\n        # solution:end",
)
_again(
    "counts_nothing",
    "Count what is written: with the counts where they were, every pass writes over the one before.",
    _COUNT,
    "        # solution:end",
)
_again(
    "takes_blocks_for_each_layer",
    "A block is the same block in every layer: what the first layer has taken is there for the others.",
    _MISSING,
    "missing = blocks_needed(end - start, size)\n",
)
_again(
    "gives_back_too_much",
    "Of the block in which the cut lies tokens are left: it stays, so round the number of blocks up.",
    _KEEP,
    "keep = n // self.pool.block_size\n",
)
_again(
    "gives_back_too_little",
    "n // size + 1 is one block too many where n fills its blocks, and with 0 tokens: round up.",
    _KEEP,
    "keep = n // self.pool.block_size + 1\n",
)
_again(
    "keeps_the_next_block",
    "Cut at the end of a block, nothing is left of the next one: it goes back, as release does with all.",
    _KEEP,
    "keep = n // self.pool.block_size + 1\n",
    _ALL,
    "for block in self.block_table:\n            self.pool.allocator.release(block)\n"
    "        self.block_table, self.counts = [], [0] * len(self.counts)",
)
_again(
    "fork_shares_the_table",
    "A fork has a list of its own: in one that both use, each finds the other's blocks.",
    _CHILD,
    "child = PagedCache(self.pool, self.block_table, self.length)\n"
    "        child.block_table = self.block_table\n        return child",
)
_again(
    "release_keeps_the_length",
    "After release the counts are 0, as the table is empty: the next token is the first.",
    _ALL,
    "for block in self.block_table:\n            self.pool.allocator.release(block)\n        self.block_table = []",
)

"""Known-wrong programs of level12.kv_manager. `ghost` is given when this is read."""


def _get(name, sentence, *change, **how):
    ghost("level12.kv_manager.KVCacheManager.get_computed_blocks", name, sentence, change=change, **how)


def _slots(name, sentence, *change, **how):
    ghost("level12.kv_manager.KVCacheManager.allocate_slots", name, sentence, change=change, **how)


def _free(name, sentence, *change, **how):
    ghost("level12.kv_manager.KVCacheManager.free", name, sentence, change=change, **how)


# ---- get_computed_blocks

CUT = "keys[: max_tokens // self.block_size]"
MISS = "                break\n"
FOUND = "            found.append(block)\n"
ASK = "hit = self.find_longest_hit(self.keys_of(sequence), sequence.num_tokens - 1)\n"
TOKENS = "return hit, len(hit) * self.block_size"
OFF = "if not self.enable_caching:"

_get(
    "full_hit_allowed",
    "Everything was a hit, so no token is left to run, and there are no logits to sample from: keep at least the last "
    "token.",
    (ASK, ASK.replace(" - 1)", ")")),
)
_get(
    "one_block_less",
    "9 tokens, 8 of them cached: one is left to run, and that is enough; yours drops a block more.",
    (ASK, ASK.replace("sequence.num_tokens - 1", "sequence.num_tokens - self.block_size")),
)
_get(
    "prompt_only",
    "One that comes back has output as well, which may be in the cache: its tokens are prompt and output.",
    (ASK, ASK.replace("sequence.num_tokens - 1", "len(sequence.prompt) - 1")),
)
_get(
    "one_token_recomputed",
    "Blocks are shared whole: of a sequence that is cached whole the last block is left out, not only its last token, "
    "which would be written into a shared block.",
    (
        ASK + "        " + TOKENS,
        ASK.replace(" - 1)", ")")
        + "        return hit, min(len(hit) * self.block_size, max(0, sequence.num_tokens - 1))",
    ),
)
_get(
    "scattered_hits",
    "A hit ends at the first miss: what comes behind it can't be used, since nobody has computed what stands in the gap.",
    (MISS, "                continue\n"),
)
_get(
    "from_the_end",
    "That a later block is cached does not mean that all before it are: go from the first on, up to the first miss.",
    (
        "found = []\n        for key in "
        + CUT
        + ":\n            if (block := self.pool.get_cached_block(key)) is None:\n"
        "                break\n            found.append(block)\n",
        "found = [self.pool.get_cached_block(key) for key in " + CUT + "]\n        while found and found[-1] is None:\n"
        "            found.pop()\n",
    ),
)
_get(
    "rounds_up",
    "A block of which only a part may be used is not used at all: round max_tokens / block_size down.",
    (CUT, "keys[: -(-max_tokens // self.block_size)]"),
)
_get(
    "no_limit",
    "No more blocks than max_tokens fill: yours takes all that are found.",
    (CUT, "keys"),
)
_get(
    "only_in_use",
    "A free block keeps what is in it until it is given away: it is a hit like one in use.",
    (MISS, MISS + "            if not self.pool.ref_count(block):\n                break\n"),
)
_get(
    "touches_the_hit",
    "Looking changes nothing: whether the sequence gets in is not known yet, and allocate_slots touches the hit then.",
    ("        " + TOKENS, "        self.pool.touch(hit)\n        " + TOKENS),
)
_get(
    "counts_as_computed_at_once",
    "Nothing is changed: if there is no room it goes on waiting, and by then its hit may be gone. Who lets it in counts.",
    ("        " + TOKENS, "        sequence.computed = len(hit) * self.block_size\n        " + TOKENS),
)
_get(
    "counts_blocks",
    "The second value is a number of tokens: blocks times block_size.",
    (TOKENS, "return hit, len(hit)"),
)
_get(
    "counts_tokens_of_the_keys",
    "Only the blocks that were found count as computed, not all that have a key.",
    (TOKENS, "return hit, min(len(self.keys_of(sequence)) * self.block_size, sequence.num_tokens - 1)"),
)
_get(
    "caching_cannot_be_switched_off",
    "Without caching nothing is found, whatever the pool holds: ([], 0).",
    (OFF, "if False:"),
)
_get(
    "salt_left_out",
    "Look under the keys of this sequence, with its salt: yours finds the blocks of other tenants.",
    (ASK, ASK.replace("self.keys_of(sequence)", "hash_full_blocks(sequence.tokens, self.block_size)")),
)
_get(
    "backwards",
    "The table is in the order of the tokens, so the hit is too: yours begins with its end.",
    (FOUND, "            found.insert(0, block)\n"),
)
_get(
    "first_block_only",
    "A hit goes on for as long as the next key finds a block; yours ends after the first.",
    (FOUND, FOUND + "            break\n"),
)

# ---- allocate_slots

HELD = "held = len(self.tables.get(sequence.id, ())) + len(hit)"
HIT_FREE = "free = sum(not self.pool.ref_count(block) for block in hit)"
TAKEN = "return max(0, blocks_needed(num_tokens, self.block_size) - held) + free"
TOTAL = "total = sequence.computed + len(hit) * self.block_size + num_new_tokens\n"
MUST = "must_fit = sequence.num_tokens if whole_must_fit else total\n"
FITS = "if self.blocks_taken(sequence, must_fit, hit) > self.pool.num_free:\n            return None\n"
TABLE = "table = self.tables.setdefault(sequence.id, [])\n"
TOUCH = "        self.pool.touch(hit)  # before new blocks are taken: they might be the same ones\n"
ADD_HIT = "        table += hit\n"
NEW = "        new = self.pool.get_new_blocks(max(0, blocks_needed(total, self.block_size) - len(table)))\n"
ADD_NEW = "        table += new\n"
CACHING = "if self.enable_caching:"
KEYED = "keyed, full = self.num_keyed.get(sequence.id, len(hit)), total // self.block_size\n"
PAIRS = "for block, key in zip(table[keyed:full], self.keys_of(sequence)[keyed:full]):\n"
NOTE = "            self.num_keyed[sequence.id] = full\n"
GIVE = "        return new\n"

_slots(
    "count_new_only",
    "A hit that is free leaves the queue too, so it takes a free block: count it before you let the sequence in.",
    (HIT_FREE, "free = 0"),
)
_slots(
    "counts_every_hit",
    "A hit that another one uses takes no free block: only those of the hit without a user count.",
    (HIT_FREE, "free = len(hit)"),
)
_slots(
    "hit_needs_new_blocks",
    "The hit holds the first of the tokens: new blocks are needed only for those behind it.",
    (HELD, "held = len(self.tables.get(sequence.id, ()))"),
)
_slots(
    "forgets_what_it_has",
    "The sequence has blocks already: count only those that are missing, or one that runs is turned away.",
    (HELD, "held = len(hit)"),
)
_slots(
    "less_than_nothing",
    "Blocks that it has too many of are not given back: what is missing is never below 0.",
    (
        TAKEN,
        TAKEN.replace(
            "max(0, blocks_needed(num_tokens, self.block_size) - held)",
            "blocks_needed(num_tokens, self.block_size) - held",
        ),
    ),
)
_slots(
    "new_ones_for_the_hit_too",
    "blocks_taken counts the free blocks of the hit too, and those it has got: take new ones only for what is behind it.",
    (TABLE, "taken = self.blocks_taken(sequence, total, hit)\n        " + TABLE),
    (NEW, "        new = self.pool.get_new_blocks(taken)\n"),
)
_slots(
    "block_per_step",
    "You take a new block for every step: first fill the free slots of the last block.",
    (NEW, "        new = self.pool.get_new_blocks(blocks_needed(num_new_tokens, self.block_size))\n"),
)
_slots(
    "floor",
    "A block that is only partly full is a block too: round up.",
    (NEW, NEW.replace("blocks_needed(total, self.block_size)", "total // self.block_size")),
)
_slots(
    "one_ahead",
    "No more blocks than are needed: yours takes one for the next token, which may never come.",
    (
        NEW,
        NEW.replace("blocks_needed(total,", "blocks_needed(total + 1,").replace("max(0, ", "min(self.pool.num_free, "),
    ),
)
_slots(
    "room_for_all_at_once",
    "Blocks for the tokens that are to run now: those of a later chunk may go to others until then.",
    (NEW, NEW.replace("blocks_needed(total,", "blocks_needed(must_fit,")),
)
_slots(
    "last_free_block_unused",
    "If as many blocks are free as are taken, it fits: > and not >=.",
    (FITS, FITS.replace("hit) >", "hit) >=")),
)
_slots(
    "partial_allocation",
    "None must mean that nothing has changed: yours takes what is left first, and those blocks are lost.",
    (
        FITS,
        FITS.replace(
            "            return None",
            "            self.pool.get_new_blocks(self.pool.num_free)\n            return None",
        ),
    ),
)
_slots(
    "touched_although_refused",
    "None must mean that nothing has changed: yours has touched the hit by then, and nobody will ever free it.",
    (
        FITS,
        "        taken = self.blocks_taken(sequence, must_fit, hit)\n        room = self.pool.num_free\n"
        "        self.pool.touch(hit)\n        if taken > room:\n            return None\n".lstrip(),
    ),
    (TOUCH, ""),
)
_slots(
    "empty_table_for_who_waits",
    "`tables` has only those that own blocks: make the entry when you know that there is room.",
    (FITS + "        " + TABLE, TABLE + "        " + FITS),
)
_slots(
    "whole_ignored",
    "With whole_must_fit there must be room for all tokens that it has, not only for this chunk: else many are let in "
    "that can't all go on.",
    (MUST, "must_fit = total\n"),
)
_slots(
    "always_the_whole",
    "Only with whole_must_fit all tokens need room: else a chunk runs as soon as it fits.",
    (MUST, "must_fit = sequence.num_tokens\n"),
)
_slots(
    "whole_prompt_only",
    "One that comes back runs its output again as well: all of its tokens must find room, not only the prompt.",
    (MUST, "must_fit = max(total, len(sequence.prompt)) if whole_must_fit else total\n"),
)
_slots(
    "whole_and_more",
    "All of its tokens include those that run now: don't count these twice.",
    (MUST, "must_fit = sequence.num_tokens + num_new_tokens if whole_must_fit else total\n"),
)
_slots(
    "not_touched",
    "Tell the pool of the hit: without a user more its blocks are given to somebody else.",
    (TOUCH, ""),
)
_slots(
    "touches_too_late",
    "Touch the hit before you take new blocks: those of it that are free may be the next in the queue.",
    (
        TOUCH + ADD_HIT + NEW,
        NEW.replace("len(table)", "len(table) - len(hit)") + "        self.pool.touch(hit)\n" + ADD_HIT,
    ),
)
_slots(
    "new_before_the_hit",
    "The table is in the order of the tokens: the hit comes first, the new blocks behind it.",
    (ADD_NEW, "        table[:0] = new\n"),
)
_slots(
    "hit_not_in_the_table",
    "The hit belongs to the table: its blocks hold the first tokens of the sequence.",
    (ADD_HIT, ""),
    (NEW, NEW.replace("len(table)", "len(table) - len(hit)")),
)
_slots(
    "hit_does_not_count_as_computed",
    "The new tokens come behind the hit: room is needed for its tokens and for these.",
    (TOTAL, "total = sequence.computed + num_new_tokens\n"),
)
_slots(
    "table_is_the_callers_hit",
    "The hit is the caller's list: make a table of your own.",
    (TABLE + TOUCH + ADD_HIT, "table = self.tables.setdefault(sequence.id, hit if hit else [])\n" + TOUCH),
)
_slots(
    "returns_the_table",
    "Return the new blocks only: the caller asks for the whole table where it needs it.",
    (GIVE, "        return list(table)\n"),
)
_slots(
    "none_for_no_new_block",
    "[] is a yes, there is room in the last block: None only if the blocks can't be had.",
    (GIVE, "        return new or None\n"),
)
_slots(
    "no_keys",
    "Every block that is full gets its key here, or nobody will ever find it.",
    (CACHING, "if False:"),
)
_slots(
    "caching_cannot_be_switched_off",
    "Without caching no block gets a key: it would go to the back of the queue, and nobody would look for it.",
    (CACHING, "if True:"),
)
_slots(
    "keys_one_step_late",
    "Keys are given now, before the tokens have run: yours gives them in the next step, and two equal prompts of one "
    "step share nothing.",
    (KEYED, KEYED.replace("total // self.block_size", "(total - num_new_tokens) // self.block_size")),
)
_slots(
    "key_for_a_part",
    "A block that is only partly full has no key yet: it will still change.",
    (KEYED, KEYED.replace("total // self.block_size", "blocks_needed(total, self.block_size)")),
)
_slots(
    "keys_for_tokens_that_do_not_run",
    "Only blocks that are full after this step get a key: the last of a chunk is not, though its tokens are known.",
    (KEYED, KEYED.replace("total // self.block_size", "sequence.num_tokens // self.block_size")),
)
_slots(
    "keys_for_known_tokens",
    "A chunk may end inside a block whose tokens are all known: that block gets its key in the step that fills it.",
    (KEYED, KEYED.replace("total // self.block_size", "min(len(table), sequence.num_tokens // self.block_size)")),
)
_slots(
    "keys_for_new_blocks_only",
    "A block that was half full and is filled now gets its key too, not only new blocks.",
    (KEYED, KEYED.replace("self.num_keyed.get(sequence.id, len(hit))", "len(table) - len(new)")),
)
_slots(
    "a_second_key",
    "The blocks of the hit have their keys: begin behind them.",
    (KEYED, KEYED.replace("len(hit)", "0")),
)
_slots(
    "all_keys_again",
    "Blocks that have a key keep it: remember in num_keyed how many of the first ones do.",
    (NOTE, ""),
)
_slots(
    "shifted_keys",
    "The key of a block is that of its own place in the table: yours begins with the first key.",
    (PAIRS, PAIRS.replace("self.keys_of(sequence)[keyed:full]", "self.keys_of(sequence)")),
)
_slots(
    "a_known_key_is_not_given_twice",
    "Two blocks may hold the same: both get the key, and the second is found when the first is given away.",
    (
        "                self.pool.cache_block(block, key)\n",
        "                if self.pool.get_cached_block(key) is None:\n                    self.pool.cache_block(block, key)\n",
    ),
)

# ---- free

FREE = "self.pool.free_blocks(reversed(self.tables.pop(sequence.id, [])))"
FORGET = "        self.num_keyed.pop(sequence.id, None)\n"

_free(
    "free_in_table_order",
    "You free the beginning first, so it is given away first; and without it nothing behind it can be hit.",
    (FREE, "self.pool.free_blocks(self.tables.pop(sequence.id, []))"),
)
_free(
    "forget_table",
    "It still has a table after you have freed its blocks: when it comes back it writes into somebody else's.",
    (FREE, "self.pool.free_blocks(reversed(self.tables.get(sequence.id, [])))"),
)
_free(
    "an_empty_table_stays",
    "`tables` has only those that own blocks: yours keeps an empty one for each request that there ever was.",
    (FREE, FREE + "\n        self.tables[sequence.id] = []"),
)
_free(
    "frees_only_hashed",
    "The last block, which is partly full and has no key, is freed too: yours leaks one a request.",
    (FREE, "self.pool.free_blocks([b for b in reversed(self.tables.pop(sequence.id, [])) if self.pool.key_of(b)])"),
)
_free(
    "frees_only_the_unhashed",
    "Blocks with a key are freed as well: it is the pool that keeps what is in them for as long as it can.",
    (FREE, "self.pool.free_blocks([b for b in reversed(self.tables.pop(sequence.id, [])) if not self.pool.key_of(b)])"),
)
_free(
    "keyed_count_stays",
    "When it comes back its blocks are new ones: forget how many of the old ones had a key.",
    (FORGET, ""),
)
_free(
    "forgets_what_is_in_them",
    "Freed is not forgotten: the keys stay, and whoever comes with the same beginning hits it.",
    (FREE, "for block in self.tables.get(sequence.id, []):\n            self.pool.forget(block)\n        " + FREE),
)
_free(
    "one_by_one_from_the_end",
    "Free the blocks of a table in one call: one by one, those without a key turn their order around.",
    (FREE, "for block in reversed(self.tables.pop(sequence.id, [])):\n            self.pool.free_blocks([block])"),
)
_free(
    "must_own_something",
    "One that owns no blocks may be freed: a request that waits is aborted too.",
    (FREE, "self.pool.free_blocks(reversed(self.tables.pop(sequence.id)))"),
)
_free(
    "until_nobody_uses_them",
    "A shared block has other users: take away one, this sequence's.",
    (
        FREE,
        "for block in reversed(self.tables.pop(sequence.id, [])):\n            while self.pool.ref_count(block):\n"
        "                self.pool.free_blocks([block])",
    ),
)
_free(
    "frees_everybody",
    "Only this sequence's blocks: yours frees those of all.",
    (FREE, "for id in list(self.tables):\n            self.pool.free_blocks(reversed(self.tables.pop(id)))"),
)
_free(
    "last_block_stays",
    "All blocks of the table are freed, the last one too.",
    (FREE, "self.pool.free_blocks(reversed(self.tables.pop(sequence.id, [])[:-1]))"),
)
_free(
    "sorted_backwards",
    "The last block of the table comes first, not the one with the largest number: a table is not sorted.",
    (FREE, "self.pool.free_blocks(sorted(self.tables.pop(sequence.id, []), reverse=True))"),
)

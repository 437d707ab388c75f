"""Right programs, written another way, for level12.kv_manager. `alternative` is given when this is read."""

from itertools import takewhile


def _hit_by_takewhile(self, keys, max_tokens):
    found = map(self.pool.get_cached_block, keys[: max_tokens // self.block_size])
    return list(takewhile(lambda block: block is not None, found))


def _hit_recursive(self, keys, max_tokens):
    if max_tokens < self.block_size or not keys:
        return []
    first = self.pool.get_cached_block(keys[0])
    return [] if first is None else [first, *self.find_longest_hit(keys[1:], max_tokens - self.block_size)]


def _computed_by_keys(self, sequence):
    """The number of blocks first: those that end before the last token."""
    blocks = []
    if self.enable_caching:
        most = (len(sequence.prompt) + len(sequence.output) - 1) // self.block_size
        for key in self.keys_of(sequence)[:most]:
            block = self.pool.get_cached_block(key)
            if block is None:
                break
            blocks += [block]
    return blocks, self.block_size * len(blocks)


def _computed_then_cut(self, sequence):
    """All that is found, and the last block away if nothing would be left to run."""
    if not self.enable_caching:
        return [], 0
    hit = self.find_longest_hit(self.keys_of(sequence), sequence.num_tokens)
    if len(hit) * self.block_size == sequence.num_tokens:
        hit = hit[:-1]
    return hit, len(hit) * self.block_size


def _taken_one_by_one(self, sequence, num_tokens, hit):
    have, taken = self.block_table(sequence) + list(hit), 0
    while (len(have) + taken) * self.block_size < num_tokens:
        taken += 1
    return taken + [self.pool.ref_count(block) for block in hit].count(0)


def _taken_by_free(self, sequence, num_tokens, hit):
    free = {block for block in hit if block in set(self.pool.free_ids())}
    missing = num_tokens - (len(self.block_table(sequence)) + len(hit)) * self.block_size
    return len(free) + len(range(0, missing, self.block_size))


def _slots_by_missing_keys(self, sequence, num_new_tokens, hit=(), whole_must_fit=False):
    """Looks which blocks have no key yet, and needs no num_keyed."""
    if num_new_tokens < 1:
        raise ValueError("nothing to run")
    table = [*self.tables.get(sequence.id, []), *hit]
    total = sequence.computed + num_new_tokens + self.block_size * len(hit)
    whole = max(total, sequence.num_tokens if whole_must_fit else 0)
    free = [block for block in self.pool.free_ids() if block not in hit]
    if -(-whole // self.block_size) - len(table) > len(free):
        return None
    self.pool.touch(hit)
    new = self.pool.get_new_blocks(max(-(-total // self.block_size) - len(table), 0))
    self.tables[sequence.id] = table + new
    keys = self.keys_of(sequence) if self.enable_caching else []
    for i in range(min(total // self.block_size, len(keys))):
        block = self.tables[sequence.id][i]
        if self.pool.key_of(block) is None:
            self.pool.cache_block(block, keys[i])
    return new


def _slots_block_by_block(self, sequence, num_new_tokens, hit=(), whole_must_fit=False):
    """A block whenever a token has no place; the keys as the blocks become full."""
    if num_new_tokens <= 0:
        raise ValueError("nothing to run")
    end = sequence.computed + len(hit) * self.block_size + num_new_tokens
    room = end
    if whole_must_fit:
        room = sequence.num_tokens
    if self.blocks_taken(sequence, room, hit) > self.pool.num_free:
        return None
    for block in hit:
        self.pool.touch([block])
    table = self.tables[sequence.id] = self.block_table(sequence) + list(hit)
    before = len(table)
    while len(table) * self.block_size < end:
        table.extend(self.pool.get_new_blocks(1))
    if self.enable_caching:
        done = self.num_keyed.get(sequence.id, len(hit))
        while (done + 1) * self.block_size <= end:
            self.pool.cache_block(table[done], self.keys_of(sequence)[done])
            done += 1
        self.num_keyed[sequence.id] = done
    return table[before:]


def _free_if_known(self, sequence):
    if sequence.id in self.tables:
        table = self.tables.pop(sequence.id)
        self.num_keyed.pop(sequence.id, 0)
        self.pool.free_blocks(table[::-1])


def _free_in_two_parts(self, sequence):
    """Those without a key first, then those with one: each in its own call, each from the end."""
    table = self.block_table(sequence)
    table.reverse()
    self.tables.pop(sequence.id, None)
    self.num_keyed.pop(sequence.id, None)
    self.pool.free_blocks([block for block in table if self.pool.key_of(block) is None])
    self.pool.free_blocks([block for block in table if self.pool.key_of(block) is not None])


def _kv(method, name, program, part=""):
    kata = f"level12.kv_manager.KVCacheManager.{method}"
    alternative(kata, name, program=program, part=part and f"KVCacheManager.{part}")


_kv("get_computed_blocks", "takewhile", _hit_by_takewhile, "find_longest_hit")
_kv("get_computed_blocks", "recursive", _hit_recursive, "find_longest_hit")
_kv("get_computed_blocks", "by_keys", _computed_by_keys)
_kv("get_computed_blocks", "then_cut", _computed_then_cut)
_kv("allocate_slots", "one_by_one", _taken_one_by_one, "blocks_taken")
_kv("allocate_slots", "by_free", _taken_by_free, "blocks_taken")
_kv("allocate_slots", "by_missing_keys", _slots_by_missing_keys)
_kv("allocate_slots", "block_by_block", _slots_block_by_block)
_kv("free", "if_known", _free_if_known)
_kv("free", "in_two_parts", _free_in_two_parts)

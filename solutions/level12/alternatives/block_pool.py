"""Right programs, written another way, for level12.block_pool. `alternative` is given when this is read."""

from collections import Counter, defaultdict


class _Sorted:
    """No queue: each free block has a number, and the smallest is in front."""

    def __init__(self, num_blocks):
        if num_blocks < 2:
            raise ValueError("too few")
        self.num_blocks, self.users, self.keys, self.ages = num_blocks, Counter(), {}, {}
        self.place = {block: block for block in range(1, num_blocks)}

    @property
    def num_free(self):
        return len(self.place)

    def free_ids(self):
        return sorted(self.place, key=self.place.get)

    def ref_count(self, block):
        return self.users[block]

    def key_of(self, block):
        return self.keys.get(block)

    def get_cached_block(self, key):
        found = [block for block, its in self.keys.items() if its == key]
        return found[0] if found else None  # a dict is in the order in which the blocks got their keys

    def cache_block(self, block, key):
        if block in self.keys or not self.users[block]:
            raise ValueError("a second key")
        self.keys[block] = key

    def forget(self, block):
        self.keys.pop(block, None)

    def get_new_blocks(self, n):
        if n > len(self.place):
            raise ValueError("too many")
        new = self.free_ids()[:n]
        for block in new:
            self.keys.pop(block, None)
            del self.place[block]
        self.users.update(new)
        return new

    def touch(self, blocks):
        for block in blocks:
            self.place.pop(block, None)
            self.users[block] += 1

    def free_blocks(self, blocks):
        blocks = list(blocks)
        if any(self.users[block] < 1 for block in blocks):
            raise ValueError("no user")
        for block in reversed(blocks):
            if self.users[block] == 1 and block not in self.keys:
                self.place[block] = min(self.place.values(), default=0) - 1
        for block in blocks:
            if self.users[block] == 1 and block in self.keys:
                self.place[block] = max(self.place.values(), default=0) + 1
            self.users[block] -= 1


class _Block:
    """What is known of one block."""

    def __init__(self):
        self.users, self.key = 0, None


class _Objects:
    """An object for each block, the queue of level12, and a list of blocks for each key."""

    def __init__(self, num_blocks):
        from level12.free_queue import FreeQueue

        if num_blocks <= 1:
            raise ValueError("too few")
        self.num_blocks = num_blocks
        self.blocks = [_Block() for _ in range(num_blocks)]
        self.queue = FreeQueue(range(1, num_blocks))
        self.map = defaultdict(list)

    num_free = property(lambda self: len(self.queue))

    def free_ids(self):
        return self.queue.ids()

    def ref_count(self, block):
        return self.blocks[block].users

    def key_of(self, block):
        return self.blocks[block].key

    def get_cached_block(self, key):
        return self.map[key][0] if self.map.get(key) else None

    def cache_block(self, block, key):
        if self.blocks[block].key is not None:
            raise ValueError("a second key")
        self.blocks[block].key = key
        self.map[key].append(block)

    def forget(self, block):
        if (key := self.blocks[block].key) is not None:
            self.map[key].remove(block)
            self.blocks[block].key = None

    def get_new_blocks(self, n):
        new = []
        if n > len(self.queue):
            raise ValueError("too many")
        while len(new) < n:
            new.append(self.queue.popleft())
        self._all(new, self.forget)
        self.touch(new)
        return new

    def _all(self, blocks, act):
        for block in blocks:
            act(block)

    def touch(self, blocks):
        for block in blocks:
            if block in self.queue:
                self.queue.remove(block)
            self.blocks[block].users += 1

    def free_blocks(self, blocks):
        blocks = [*blocks]
        if not all(0 < block < self.num_blocks and self.blocks[block].users for block in blocks):
            raise ValueError("no user")
        front = []
        for block in blocks:
            self.blocks[block].users -= 1
            if self.blocks[block].users:
                continue
            if self.blocks[block].key is None:
                front.append(block)
            else:
                self.queue.append_n([block])
        self.queue.prepend_n(front)


class _Sets:
    """A set of user numbers for each block, a list as the queue, and only blocks in use or with a key are known."""

    def __init__(self, num_blocks):
        if num_blocks < 2:
            raise ValueError("too few")
        self.num_blocks, self.row, self.readers, self.named = num_blocks, [*range(1, num_blocks)], {}, {}

    @property
    def num_free(self):
        return self.num_blocks - 1 - len(self.readers)

    def free_ids(self):
        return self.row[:]

    def ref_count(self, block):
        return self.readers.get(block, 0)

    def key_of(self, block):
        for key, blocks in self.named.items():
            if block in blocks:
                return key
        return None

    def get_cached_block(self, key):
        return (self.named.get(key) or [None])[0]

    def cache_block(self, block, key):
        if self.key_of(block) is not None:
            raise ValueError("a second key")
        self.named[key] = [*self.named.get(key, []), block]

    def forget(self, block):
        self.named = {key: [one for one in blocks if one != block] for key, blocks in self.named.items()}

    def get_new_blocks(self, n):
        if len(self.row) < n:
            raise ValueError("too many")
        for block in self.row[:n]:
            self.forget(block)
        return [self._take(block) for block in self.row[:n]]

    def _take(self, block):
        if block in self.row:
            self.row.remove(block)
        self.readers[block] = self.readers.get(block, 0) + 1
        return block

    def touch(self, blocks):
        for block in blocks:
            self._take(block)

    def free_blocks(self, blocks):
        blocks = tuple(blocks)
        if any(block not in self.readers for block in blocks):
            raise ValueError("no user")
        last = [block for block in blocks if self.readers[block] == 1]
        for block in blocks:
            self.readers[block] -= 1
            if block in last:
                del self.readers[block]
        keyed = [block for block in last if self.key_of(block) is not None]
        self.row = [block for block in last if block not in keyed] + self.row + keyed


alternative("level12.block_pool.BlockPool", "sorted_places", program=_Sorted)
alternative("level12.block_pool.BlockPool", "objects", program=_Objects)
alternative("level12.block_pool.BlockPool", "sets", program=_Sets)

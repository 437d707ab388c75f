"""Right programs, written another way, for level06.paged. `alternative` is given when this is read."""

import numpy as np
import torch


def _slots_by_lists(block_table, start, end, block_size):
    if start < 0 or end < start or end > len(block_table) * block_size:
        raise ValueError("no such tokens")
    found = []
    for position in range(start, end):
        block, offset = divmod(position, block_size)
        found.append(block_table[block] * block_size + offset)
    return torch.tensor(found, dtype=torch.long)


def _slots_by_a_grid(block_table, start, end, block_size):
    """All slots of all blocks, of which a stretch is cut."""
    if not 0 <= start <= end <= len(block_table) * block_size:
        raise ValueError("no such tokens")
    first = torch.tensor(list(block_table), dtype=torch.long).mul(block_size)
    return (first[:, None] + torch.arange(block_size)).reshape(-1)[start:end]


def _slots_by_numpy(block_table, start, end, block_size):
    if not 0 <= start <= end <= len(block_table) * block_size:
        raise ValueError("no such tokens")
    every = np.concatenate([[], *(block * block_size + np.arange(block_size) for block in block_table)])
    return torch.from_numpy(every[start:end].astype(np.int64))


alternative("level06.paged.gather", "lists", program=_slots_by_lists, part="slots")
alternative("level06.paged.gather", "grid", program=_slots_by_a_grid, part="slots")
alternative("level06.paged.gather", "numpy", program=_slots_by_numpy, part="slots")


def _gather_blocks(pool, block_table, length):
    """Whole blocks are picked, laid end to end, and cut."""
    if length > len(block_table) * pool.shape[1]:
        raise ValueError("too many tokens")
    blocks = pool[torch.tensor(block_table, dtype=torch.long)]
    return blocks.permute(2, 0, 1, 3).reshape(1, pool.shape[2], -1, pool.shape[3])[:, :, :length]


def _gather_token_by_token(pool, block_table, length):
    _, size, groups, width = pool.shape
    if len(block_table) * size < length:
        raise ValueError("too many tokens")
    out = pool.new_empty(1, groups, length, width)
    for t in range(length):
        out[0, :, t] = pool[block_table[t // size]][t % size]
    return out


def _gather_pieces(pool, block_table, length):
    """Views of blocks, the last one cut, joined."""
    size = pool.shape[1]
    if length > size * len(block_table):
        raise ValueError("too many tokens")
    pieces = [pool[block, : min(size, length - i * size)] for i, block in enumerate(block_table) if i * size < length]
    joined = torch.cat(pieces) if pieces else pool[0, :0]
    return joined.permute(1, 0, 2)[None].contiguous()


def _gather_by_index_select(pool, block_table, length):
    from level06.paged import slots

    at = slots(block_table, 0, length, pool.shape[1])
    heads = pool.permute(2, 0, 1, 3).flatten(1, 2)  # (G, all slots, D)
    return heads.index_select(1, at).unsqueeze(0)


def _gather_per_head(pool, block_table, length):
    from level06.paged import slots

    at = slots(block_table, 0, length, pool.shape[1])
    blocks, offsets = at // pool.shape[1], at % pool.shape[1]
    return torch.stack([pool[blocks, offsets, head] for head in range(pool.shape[2])])[None]


alternative("level06.paged.gather", "whole_blocks_cut", program=_gather_blocks)
alternative("level06.paged.gather", "token_by_token", program=_gather_token_by_token)
alternative("level06.paged.gather", "pieces", program=_gather_pieces)
alternative("level06.paged.gather", "index_select", program=_gather_by_index_select)
alternative("level06.paged.gather", "per_head", program=_gather_per_head)


class _OneLength:
    """One length: every layer of a pass writes behind it, and the last one moves it. Tokens are written one by one."""

    def __init__(self, pool, block_table=(), length=0):
        self.pool, self.block_table, self.length = pool, [*block_table], length

    def write(self, layer, k, v):
        from level06.blocks import OutOfBlocks

        size, allocator, n = self.pool.block_size, self.pool.allocator, k.shape[2]
        if layer == 0:
            place, offset = divmod(self.length, size)
            copied = offset > 0 and allocator.ref_count(self.block_table[place]) > 1
            missing = max(0, -(-(self.length + n) // size) - len(self.block_table))
            if copied + missing > allocator.num_free:
                raise OutOfBlocks("wait")
            if copied:
                old, self.block_table[place] = self.block_table[place], allocator.allocate()
                allocator.release(old)
                self.pool.keys[:, self.block_table[place], :offset] = self.pool.keys[:, old, :offset]
                self.pool.values[:, self.block_table[place], :offset] = self.pool.values[:, old, :offset]
            while missing:
                self.block_table.append(allocator.allocate())
                missing -= 1
        for i in range(n):
            place, offset = divmod(self.length + i, size)
            self.pool.keys[layer, self.block_table[place], offset] = k[0, :, i]
            self.pool.values[layer, self.block_table[place], offset] = v[0, :, i]
        if layer == self.pool.keys.shape[0] - 1:
            self.length += n
        self.reach = self.length if layer == self.pool.keys.shape[0] - 1 else self.length + n

    def update(self, layer, k, v):
        from level06.paged import gather

        self.write(layer, k, v)
        keys = gather(self.pool.keys[layer], self.block_table, self.reach)
        return keys, gather(self.pool.values[layer], self.block_table, self.reach)

    def truncate(self, n):
        if n < 0 or n > self.length:
            raise ValueError("not held")
        while len(self.block_table) * self.pool.block_size - n >= self.pool.block_size:
            self.pool.allocator.release(self.block_table.pop())
        self.length = n

    def fork(self):
        for block in self.block_table:
            self.pool.allocator.share(block)
        return _OneLength(self.pool, self.block_table, self.length)

    def release(self):
        while self.block_table:
            self.pool.allocator.release(self.block_table.pop())
        self.length = 0


class _RollsBack:
    """Takes blocks one by one and gives them back when there are too few; fills whole blocks; a tuple as the table."""

    def __init__(self, pool, block_table=(), length=0):
        self.pool, self.block_table, self.ends = pool, tuple(block_table), dict.fromkeys(range(len(pool.keys)), length)

    length = property(lambda self: min(self.ends.values()))

    def _ready(self, start, end):
        from level06.blocks import OutOfBlocks

        size, allocator = self.pool.block_size, self.pool.allocator
        first, last = start // size, -(-end // size)
        table, taken, left = list(self.block_table), [], []
        try:
            for place in range(first, last):
                if place == len(table):
                    taken.append(allocator.allocate())
                    table.append(taken[-1])
                elif allocator.ref_count(table[place]) > 1:
                    taken.append(allocator.allocate())
                    left.append((table[place], taken[-1]))
                    table[place] = taken[-1]
        except OutOfBlocks:
            for block in taken:
                allocator.release(block)
            raise
        for old, new in left:
            self.pool.keys[:, new].copy_(self.pool.keys[:, old])
            self.pool.values[:, new].copy_(self.pool.values[:, old])
            allocator.release(old)
        self.block_table = tuple(table)

    def write(self, layer, k, v):
        start, size = self.ends[layer], self.pool.block_size
        end = start + k.shape[2]
        if layer == 0:
            self._ready(start, end)
        while start < end:
            block, offset = self.block_table[start // size], start % size
            n = min(size - offset, end - start)
            for held, new in ((self.pool.keys, k), (self.pool.values, v)):
                held[layer, block, offset : offset + n] = new[0, :, :n].transpose(0, 1)
            k, v, start = k[:, :, n:], v[:, :, n:], start + n
        self.ends[layer] = end

    def update(self, layer, k, v):
        from level06.paged import gather

        self.write(layer, k, v)
        return [gather(held[layer], self.block_table, self.ends[layer]) for held in (self.pool.keys, self.pool.values)]

    def truncate(self, n):
        if n not in range(self.length + 1):
            raise ValueError("not held")
        keep = (n + self.pool.block_size - 1) // self.pool.block_size
        for block in reversed(self.block_table[keep:]):
            self.pool.allocator.release(block)
        self.block_table, self.ends = self.block_table[:keep], dict.fromkeys(self.ends, n)

    def fork(self):
        [self.pool.allocator.share(block) for block in self.block_table]
        return type(self)(self.pool, self.block_table, self.length)

    def release(self):
        for block in self.block_table:
            self.pool.allocator.release(block)
        self.__init__(self.pool)


class _WriteCallsUpdate:
    """The slots of a pass are found in its first layer, for all of them; a fork that keeps only what its length needs;
    write is update, whose result nobody looks at."""

    def __init__(self, pool, block_table=(), length=0):
        self.pool, self.block_table, self.length = pool, list(block_table), length
        self.at = torch.empty(0, dtype=torch.long)

    def update(self, layer, k, v):
        from level06.blocks import OutOfBlocks
        from level06.paged import slots

        pool, allocator = self.pool, self.pool.allocator
        end = self.length + k.shape[2]
        if layer == 0:
            place = self.length // pool.block_size
            shared = [block for block in self.block_table[place : place + 1] if allocator.ref_count(block) > 1]
            fresh = -(-end // pool.block_size) - len(self.block_table)
            if allocator.num_free - len(shared) - fresh < 0:
                raise OutOfBlocks("wait")
            for block in shared:
                new, _ = allocator.make_writable(block)
                pool.keys[:, new], pool.values[:, new] = pool.keys[:, block], pool.values[:, block]
                self.block_table[self.block_table.index(block)] = new
            for _ in range(fresh):
                self.block_table += [allocator.allocate()]
            self.at = slots(self.block_table, 0, end, pool.block_size)
        for side, new in ((pool.keys, k), (pool.values, v)):
            rows = side[layer].view(-1, *side.shape[3:])
            rows.index_copy_(0, self.at[self.length :], new[0].transpose(0, 1).contiguous().to(side.dtype))
        if layer == pool.keys.shape[0] - 1:
            self.length = end
        flat = (side[layer].flatten(0, 1)[self.at].movedim(0, 1)[None] for side in (pool.keys, pool.values))
        return tuple(flat)

    write = update

    def truncate(self, n):
        if not 0 <= n <= self.length:
            raise ValueError("not held")
        keep = -(-n // self.pool.block_size)
        gone, self.block_table = self.block_table[keep:], self.block_table[:keep]
        list(map(self.pool.allocator.release, gone))
        self.length = n

    def fork(self):
        held = self.block_table[: -(-self.length // self.pool.block_size)]
        list(map(self.pool.allocator.share, held))
        return _WriteCallsUpdate(self.pool, held, self.length)

    def release(self):
        self.truncate(0)


alternative("level06.paged.PagedCache", "one_length", program=_OneLength)
alternative("level06.paged.PagedCache", "rolls_back", program=_RollsBack)
alternative("level06.paged.PagedCache", "write_is_update", program=_WriteCallsUpdate)
alternative(
    "level06.paged.PagedCache",
    "copies_what_is_held",
    change=("held[:, new] = held[:, old]", "held[:, new, : start % size] = held[:, old, : start % size]"),
)
alternative(
    "level06.paged.PagedCache",
    "a_new_table_each_time",
    change=[
        (
            "self.block_table += [allocator.allocate() for _ in range(missing)]",
            "self.block_table = self.block_table + [allocator.allocate() for _ in range(missing)]",
        ),
        ("del self.block_table[keep:]", "self.block_table = self.block_table[:keep]"),
    ],
)
alternative(
    "level06.paged.PagedCache",
    "contiguous_and_detached",
    change=(
        "tuple(gather(held[layer], self.block_table, end) for held in (self.pool.keys, self.pool.values))",
        "[gather(x[layer], self.block_table, end).contiguous().detach() for x in (self.pool.keys, self.pool.values)]",
    ),
)

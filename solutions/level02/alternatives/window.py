"""Right programs, written another way, for level02.window. `alternative` is given when this is read."""

import torch


def _put_in(length, window):
    """The tokens that are left, put into their slots one by one."""
    if window < 1 or length < 0:
        raise ValueError("no such ring")
    ring = [-1] * window
    for p in range(max(0, length - window), length):
        ring[p % window] = p
    return torch.tensor(ring)


def _rounds(length, window):
    """Slots before the pen are of this round, the others of the round before."""
    if not (window >= 1 and length >= 0):
        raise ValueError("no such ring")
    whole, pen = divmod(length, window)
    slot = torch.arange(window, dtype=torch.int64)
    positions = torch.where(slot < pen, whole * window + slot, (whole - 1) * window + slot)
    positions[positions < 0] = -1
    return positions


def _rolled(length, window):
    """The last positions in the order of time, turned until each is in its slot."""
    if window < 1 or length < 0:
        raise ValueError("no such ring")
    if length <= window:
        return torch.cat([torch.arange(length), torch.full((window - length,), -1)])
    return torch.arange(length - window, length).roll(length % window)


def _pair_by_pair(q_positions, kv_positions, window):
    rows = [[k >= 0 and q - window < k <= q for k in kv_positions.tolist()] for q in q_positions.tolist()]
    return torch.tensor(rows, dtype=torch.bool).view(len(q_positions), len(kv_positions))


def _between(q_positions, kv_positions, window):
    """Between the oldest position that a query sees, never below 0, and its own."""
    q, k = torch.meshgrid(q_positions, kv_positions, indexing="ij")
    oldest = torch.clamp(q - (window - 1), min=0)
    return torch.logical_and(k >= oldest, ~(k > q))


def _looked_up(q_positions, kv_positions, window):
    """For each query the list of positions that it sees."""
    rows = [torch.isin(kv_positions, torch.arange(max(0, q + 1 - window), q + 1)) for q in q_positions.tolist()]
    return torch.stack(rows)


def _ring(length, window):
    """The level's own, whichever is mounted."""
    from level02.window import ring_positions

    return ring_positions(length, window)


class _OneByOne:
    """Token by token into its slot, written at `length` by all layers; the last one moves it."""

    def __init__(self, config, batch, window, dtype=torch.float32):
        if batch < 1 or window < 1:
            raise ValueError("nothing to hold")
        self.batch, self.window, self.length, self.last = batch, window, 0, config.n_layers - 1
        self.ring = [
            [torch.ones(batch, config.n_kv_heads, window, config.head_dim, dtype=dtype) for _ in "kv"]
            for _ in range(config.n_layers)
        ]

    def positions_for(self, n):
        old = [-1] * self.window
        for p in range(max(0, self.length - self.window), self.length):
            old[p % self.window] = p
        return torch.tensor(old + [self.length + i for i in range(n)])

    def update(self, layer, k, v):
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError("another shape")
        seen = []
        for ring, new in zip(self.ring[layer], (k, v)):
            seen.append(torch.cat([ring, new.to(ring)], dim=2))
            for i in range(new.shape[2]):
                ring[:, :, (self.length + i) % self.window] = new[:, :, i]
        if layer == self.last:
            self.length += k.shape[2]
        return tuple(seen)

    @property
    def nbytes(self):
        return sum(x.nbytes for pair in self.ring for x in pair)

    def truncate(self, n):
        if n < 0 or n > self.length or (n not in (0, self.length) and self.length > self.window):
            raise ValueError("cannot go back")
        self.length = n


class _Gathered:
    """A new ring at each update: which of [ring, new tokens] stands in each slot afterwards."""

    def __init__(self, config, batch, window, dtype=torch.float32):
        if batch < 1 or window < 1:
            raise ValueError("nothing to hold")
        self.batch, self.window = batch, window
        self.kv = [torch.zeros(2, batch, config.n_kv_heads, window, config.head_dim, dtype=dtype)] * config.n_layers
        self.seen = [0] * config.n_layers

    def positions_for(self, n):
        return torch.cat((_ring(self.length, self.window), self.length + torch.arange(n)))

    def update(self, layer, k, v):
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError("another shape")
        ring, start, n = self.kv[layer], self.seen[layer], k.shape[2]
        both = torch.cat([ring, torch.stack([k, v]).to(ring.dtype)], 3)
        after = _ring(start + n, self.window)
        source = torch.where(after >= start, self.window + after - start, torch.arange(self.window))
        self.kv[layer] = both.index_select(3, source)
        self.seen[layer] = start + n
        return both[0], both[1]

    @property
    def length(self):
        return min(self.seen)

    @property
    def nbytes(self):
        return sum(ring.nbytes for ring in self.kv)

    def truncate(self, n):
        if n not in range(self.length + 1):
            raise ValueError("never had")
        held = {p for p in _ring(n, self.window).tolist() if p >= 0}
        if not held <= set(_ring(self.length, self.window).tolist()):
            raise ValueError("overwritten")
        self.seen = [n for _ in self.seen]


class _InOrderOfTime:
    """Keeps the last tokens in the order of time and turns them into the order of the slots when they are asked for."""

    def __init__(self, config, batch, window, dtype=torch.float32):
        if batch < 1 or window < 1:
            raise ValueError("nothing to hold")
        self.batch, self.window, self.dtype = batch, window, dtype
        self.shape = (2, batch, config.n_kv_heads, window, config.head_dim)
        self.kept, self.counts = {}, [0] * config.n_layers

    def positions_for(self, n):
        return torch.cat([_ring(self.length, self.window), torch.arange(self.length, self.length + n)])

    def update(self, layer, k, v):
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError("another shape")
        start, new = self.counts[layer], torch.stack([k, v]).to(self.dtype)
        kept = self.kept.get(layer, new[:, :, :, :0])
        held = kept.shape[3]
        ring = new.new_zeros(self.shape)
        for i in range(held):
            ring[:, :, :, (start - held + i) % self.window] = kept[:, :, :, i]
        seen = torch.cat([ring, new], 3)
        self.kept[layer] = torch.cat([kept, new], 3)[:, :, :, -self.window :].clone()
        self.counts[layer] = start + k.shape[2]
        return seen.unbind()

    @property
    def length(self):
        return self.counts[-1]

    @property
    def nbytes(self):
        return len(self.counts) * torch.empty(self.shape, dtype=self.dtype, device="meta").nbytes

    def truncate(self, n):
        if n < 0 or n > self.length or 0 < n < self.length > self.window:
            raise ValueError("cannot go back")
        if n == 0:
            self.kept = {}
        for layer, kept in self.kept.items():
            self.kept[layer] = kept[:, :, :, : kept.shape[3] - (self.counts[layer] - n)]
        self.counts = [n] * len(self.counts)


alternative("level02.window.ring_positions", "put_in_one_by_one", program=_put_in)
alternative("level02.window.ring_positions", "by_rounds", program=_rounds)
alternative("level02.window.ring_positions", "rolled", program=_rolled)
alternative("level02.window.window_mask", "pair_by_pair", program=_pair_by_pair)
alternative("level02.window.window_mask", "between", program=_between)
alternative("level02.window.window_mask", "looked_up", program=_looked_up)
alternative("level02.window.RingCache", "one_by_one", program=_OneByOne)
alternative("level02.window.RingCache", "gathered", program=_Gathered)
alternative("level02.window.RingCache", "in_order_of_time", program=_InOrderOfTime)

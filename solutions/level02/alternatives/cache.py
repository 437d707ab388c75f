"""Right programs, written another way, for level02.cache. `alternative` is given when this is read."""

import torch


def _bytes_in_loops(config, bytes_per_element):
    """Entry by entry, as a person would count on paper."""
    entries = 0
    for _ in range(config.n_layers):
        for _ in range(config.n_kv_heads):
            entries += config.head_dim  # a key
            entries += config.head_dim  # and its value
    return float(entries) * bytes_per_element


def _bytes_of_a_tensor(config, bytes_per_element):
    """From a tensor without memory."""
    kept = torch.empty(config.n_layers, 2, config.n_kv_heads, 1, config.head_dim, device="meta")
    return kept.numel() * bytes_per_element


def _in_steps(start, steps, bytes_per_token):
    if min(start, steps) < 0:
        raise ValueError("less than nothing")
    return sum(held * bytes_per_token for held in range(start + 1, start + steps + 1))


def _mean_times_steps(start, steps, bytes_per_token):
    """In floats: the steps write start + 1 to start + steps tokens, on average the mean of both."""
    if start < 0:
        raise ValueError(f"start = {start}")
    if steps < 0:
        raise ValueError(f"steps = {steps}")
    return steps * (2 * start + steps + 1) / 2.0 * bytes_per_token


class _PerLayer:
    """A buffer for each layer, keys and values in one tensor, written through narrow().copy_()."""

    def __init__(self, config, batch, max_cached_tokens, dtype=torch.float32):
        if min(batch, max_cached_tokens) < 1:
            raise ValueError("nothing to hold")
        self.max_cached_tokens = max_cached_tokens
        shape = (2, batch, config.n_kv_heads, max_cached_tokens, config.head_dim)
        self._layers = [torch.zeros(shape, dtype=dtype) for _ in range(config.n_layers)]
        self._ends = dict.fromkeys(range(config.n_layers), 0)

    def update(self, layer, k, v):
        buffer, start = self._layers[layer], self._ends[layer]
        n = k.size(2)
        if k.shape != v.shape or k.size(0) != buffer.size(1) or start + n > self.max_cached_tokens:
            raise ValueError(f"{tuple(k.shape)}, {tuple(v.shape)} do not fit")
        buffer.narrow(3, start, n).copy_(torch.stack((k, v)))
        self._ends[layer] += n
        keys, values = buffer.narrow(3, 0, start + n).unbind(0)
        return keys, values

    @property
    def length(self):
        return min(self._ends.values())

    @property
    def nbytes(self):
        return sum(buffer.numel() * buffer.element_size() for buffer in self._layers)

    def truncate(self, n):
        if n < 0 or n > self.length:
            raise ValueError(f"{n} of {self.length}")
        for layer in self._ends:
            self._ends[layer] = min(n, self._ends[layer])


class _OneCount:
    """All layers write at `length`, which the last one moves. Tokens are the outermost axis in memory."""

    def __init__(self, config, batch, max_cached_tokens, dtype=torch.float32):
        if batch < 1 or max_cached_tokens < 1:
            raise ValueError("nothing to hold")
        self.batch, self.max_cached_tokens, self.length = batch, max_cached_tokens, 0
        memory = torch.full(
            (max_cached_tokens, config.n_layers, 2, batch, config.n_kv_heads, config.head_dim), torch.nan, dtype=dtype
        )
        self.nbytes = memory.nbytes
        self.room = memory.permute(1, 2, 3, 4, 0, 5)  # (layers, 2, B, G, room, D)

    def update(self, layer, k, v):
        if k.shape != v.shape or k.shape[0] != self.batch:
            raise ValueError("another shape")
        end = self.length + k.shape[2]
        if end > self.max_cached_tokens:
            raise ValueError("too long")
        for side, new in enumerate((k, v)):
            self.room[layer, side, ..., self.length : end, :] = new
        if layer == len(self.room) - 1:
            self.length = end
        return tuple(self.room[layer, ..., :end, :])

    def truncate(self, n):
        if n not in range(self.length + 1):
            raise ValueError("not held")
        self.length = n


class _FirstLayerDecides:
    """The first layer of a pass finds the place for all of them, the last one ends the pass; indexed writes."""

    def __init__(self, config, batch, max_cached_tokens, dtype=torch.float32):
        if batch <= 0 or max_cached_tokens <= 0:
            raise ValueError("nothing to hold")
        self.batch, self.max_cached_tokens, self.last = batch, max_cached_tokens, config.n_layers - 1
        self.place, self.held = range(0), 0
        rows = config.n_layers, batch, config.n_kv_heads, max_cached_tokens, config.head_dim
        self.kv = torch.empty(2, *rows, dtype=dtype)

    def update(self, layer, k, v):
        if k.shape != v.shape or len(k) != self.batch:
            raise ValueError("another shape")
        if layer == 0:
            if self.held + k.shape[2] > self.max_cached_tokens:
                raise ValueError("too long")
            self.place = range(self.held, self.held + k.shape[2])
        where = torch.tensor(self.place, dtype=torch.long)
        self.kv[0, layer].index_copy_(2, where, k.to(self.kv.dtype))
        self.kv[1, layer].index_copy_(2, where, v.to(self.kv.dtype))
        if layer == self.last:
            self.held = self.place.stop
        return self.kv[0, layer, :, :, : self.place.stop], self.kv[1, layer, :, :, : self.place.stop]

    @property
    def length(self):
        return self.held

    @property
    def nbytes(self):
        return self.kv.untyped_storage().nbytes()

    def truncate(self, n):
        if not 0 <= n <= self.held:
            raise ValueError("not held")
        self.held = n


alternative("level02.cache.kv_bytes_per_token", "in_loops", program=_bytes_in_loops)
alternative("level02.cache.kv_bytes_per_token", "of_a_tensor", program=_bytes_of_a_tensor)
alternative("level02.cache.concat_copy_bytes", "in_steps", program=_in_steps)
alternative("level02.cache.concat_copy_bytes", "mean_times_steps", program=_mean_times_steps)
alternative("level02.cache.KVCache", "a_buffer_for_each_layer", program=_PerLayer)
alternative("level02.cache.KVCache", "one_count", program=_OneCount)
alternative("level02.cache.KVCache", "the_first_layer_decides", program=_FirstLayerDecides)

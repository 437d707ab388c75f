"""Right programs, written another way, for level11.hybrid. `alternative` is given when this is read."""

from dataclasses import replace

import torch


def _slices(n_layers, period):
    if period < 1:
        raise ValueError("no period")
    found = [False] * n_layers
    for layer in range(period - 1, n_layers, period):
        found[layer] = True
    return found


def _from_one(n_layers, period):
    if period < 1:
        raise ValueError("no period")
    return [not number % period for number in range(1, n_layers + 1)]


def _step_by_step(n_layers, window):
    reach = 1
    for _ in range(n_layers):
        reach += window - 1
    return reach


def _kind_by_kind(config, is_global, window, context_len, bytes_per_element):
    n_global = list(is_global).count(True)
    tokens = n_global * context_len + (config.n_layers - n_global) * min(context_len, window)
    return tokens * config.n_kv_heads * config.head_dim * bytes_per_element * 2


class _OneCacheALayer:
    """A cache of level 02 for each layer, each its only one. Going back asks all rings before anything moves."""

    def __init__(self, config, is_global, batch, window, max_cached_tokens, dtype=torch.float32):
        from level02.cache import KVCache
        from level02.window import RingCache

        if len(is_global) != config.n_layers or all(is_global) or not any(is_global):
            raise ValueError("both kinds, and one entry a layer")
        flat, self.window = replace(config, n_layers=1), window
        self.layers = [
            KVCache(flat, batch, max_cached_tokens, dtype) if sees_all else RingCache(flat, batch, window, dtype)
            for sees_all in is_global
        ]

    def mask_for(self, layer, n):
        cache = self.layers[layer]
        queries = torch.arange(cache.length, cache.length + n)[:, None]
        if hasattr(cache, "positions_for"):
            keys = cache.positions_for(n)
            return (keys >= 0) & (keys <= queries) & (keys > queries - self.window)
        return torch.arange(cache.length + n) <= queries

    def update(self, layer, k, v):
        return self.layers[layer].update(0, k, v)

    @property
    def length(self):
        return self.layers[-1].length

    @property
    def nbytes(self):
        return sum(cache.nbytes for cache in self.layers)

    def truncate(self, n):
        if n < 0 or n > self.length:
            raise ValueError("never had")
        for cache in sorted(self.layers, key=lambda cache: not hasattr(cache, "positions_for")):
            cache.truncate(n)


class _ByHand:
    """Without level 02: one buffer a layer, written slot by slot, and a count of tokens for each layer."""

    def __init__(self, config, is_global, batch, window, max_cached_tokens, dtype=torch.float32):
        if len(is_global) != config.n_layers or len(set(is_global)) != 2:
            raise ValueError("both kinds, and one entry a layer")
        if min(batch, window, max_cached_tokens) < 1:
            raise ValueError("nothing to hold")
        self.batch, self.window, self.room, self.kinds = batch, window, max_cached_tokens, tuple(is_global)
        rooms = [max_cached_tokens if sees_all else window for sees_all in is_global]
        self.kv = [torch.zeros(2, batch, config.n_kv_heads, n, config.head_dim, dtype=dtype) for n in rooms]
        self.seen = [0] * config.n_layers

    def held(self, layer):
        """The position in each slot that update returns, -1 where there is none."""
        seen = self.seen[layer]
        if self.kinds[layer]:
            return torch.arange(seen)
        slots = torch.full((self.window,), -1)
        for p in range(max(0, seen - self.window), seen):
            slots[p % self.window] = p
        return slots

    def mask_for(self, layer, n):
        start = self.seen[layer]
        new = torch.arange(start, start + n)
        keys = torch.cat([self.held(layer), new])
        distance = new.unsqueeze(1) - keys
        near = distance < (start + n if self.kinds[layer] else self.window)
        return near.logical_and(distance >= 0).logical_and(keys >= 0)

    def update(self, layer, k, v):
        if k.shape != v.shape or len(k) != self.batch:
            raise ValueError("another shape")
        start, n, kept = self.seen[layer], k.shape[2], self.kv[layer]
        new = torch.stack([k, v]).to(kept.dtype)
        if self.kinds[layer]:
            if start + n > self.room:
                raise ValueError("full")
            kept[:, :, :, start : start + n] = new
            found = kept[:, :, :, : start + n]
        else:
            found = torch.cat([kept, new], 3)
            for i in range(max(0, n - self.window), n):
                kept[:, :, :, (start + i) % self.window] = new[:, :, :, i]
        self.seen[layer] += n
        return found[0], found[1]

    @property
    def length(self):
        return min(self.seen)

    @property
    def nbytes(self):
        return sum(x.nbytes for x in self.kv)

    def truncate(self, n):
        if not 0 <= n <= self.length or (0 < n < self.length and self.length > self.window):
            raise ValueError("not that far")
        self.seen = [n] * len(self.seen)


class _Numbered:
    """Two caches, and a table made once: of which kind a layer is, and which of them."""

    def __init__(self, config, is_global, batch, window, max_cached_tokens, dtype=torch.float32):
        from level02.cache import KVCache
        from level02.window import RingCache

        kinds = [bool(sees_all) for sees_all in is_global]
        if len(kinds) != config.n_layers or sum(kinds) in (0, config.n_layers):
            raise ValueError("both kinds, and one entry a layer")
        self.local = RingCache(replace(config, n_layers=kinds.count(False)), batch, window, dtype)
        self.whole = KVCache(replace(config, n_layers=kinds.count(True)), batch, max_cached_tokens, dtype)
        numbers = {True: iter(range(len(kinds))), False: iter(range(len(kinds)))}
        self.table = [(self.whole if kind else self.local, next(numbers[kind])) for kind in kinds]

    def mask_for(self, layer, n):
        cache, _ = self.table[layer]
        start = self.length
        queries = torch.arange(start, start + n)
        whole = cache is self.whole
        keys = torch.arange(start + n) if whole else cache.positions_for(n)
        span = keys.new_full((), start + n if whole else self.local.window)
        return torch.stack([(keys <= q) & (keys > q - span) & (keys != -1) for q in queries])

    def update(self, layer, k, v):
        cache, number = self.table[layer]
        return cache.update(number, k, v)

    @property
    def length(self):
        return min(self.local.length, self.whole.length)

    @property
    def nbytes(self):
        return sum(cache.nbytes for cache in {id(c): c for c, _ in self.table}.values())

    def truncate(self, n):
        before = self.whole.length
        if n > before or n < 0:
            raise ValueError("never had")
        self.local.truncate(n)
        self.whole.truncate(n)


alternative("level11.hybrid.HybridCache", "period_in_slices", program=_slices, part="layer_is_global")
alternative("level11.hybrid.HybridCache", "period_from_one", program=_from_one, part="layer_is_global")
alternative("level11.hybrid.HybridCache", "reach_step_by_step", program=_step_by_step, part="receptive_field")
alternative("level11.hybrid.HybridCache", "bytes_kind_by_kind", program=_kind_by_kind, part="hybrid_kv_bytes")
alternative("level11.hybrid.HybridCache", "one_cache_a_layer", program=_OneCacheALayer)
alternative("level11.hybrid.HybridCache", "by_hand", program=_ByHand)
alternative("level11.hybrid.HybridCache", "numbered", program=_Numbered)

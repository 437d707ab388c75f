"""Known-wrong programs of level11.hybrid. `ghost` is given when this is read."""

_PERIOD = "return [layer % period == period - 1 for layer in range(n_layers)]"
_REACH = "return n_layers * (window - 1) + 1"
_HELD = "held = sum(context_len if sees_all else min(window, context_len) for sees_all in is_global)"
_BYTES = "return held * kv_bytes_per_token(replace(config, n_layers=1), bytes_per_element)"
_RING = "self.ring = RingCache(replace(config, n_layers=config.n_layers - n_global), batch, window, dtype)"
_FULL = "self.full = KVCache(replace(config, n_layers=n_global), batch, max_cached_tokens, dtype)"
_CAUSAL = "return causal_mask(n, self.full.length + n)"
_POSITIONS = "positions = torch.arange(self.ring.length, self.ring.length + n)"
_WINDOW = "return window_mask(positions, self.ring.positions_for(n), self.ring.window)"
_NUMBER = "self.is_global[:layer].count(kind)"
_LENGTH = "return (self.full if self.is_global[-1] else self.ring).length"
_NBYTES = "return self.ring.nbytes + self.full.nbytes"
_RING_BACK = "self.ring.truncate(n)"
_FULL_BACK = "self.full.truncate(n)"
_SUBTLE = "  # subtle: first, since a ring that refuses must find the other layers as they were\n        "


def _hybrid(name, sentence, *pairs, **more):
    ghost("level11.hybrid.HybridCache", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


# ---- layer_is_global

_hybrid(
    "first_of_a_period",
    "The last layer of a period is global, numbers 5 and 11 of 12: yours takes the first.",
    _PERIOD,
    "return [layer % period == 0 for layer in range(n_layers)]",
)
_hybrid(
    "local_and_global_swapped",
    "One layer of a period is global and the others are local: yours is the other way round.",
    _PERIOD,
    "return [layer % period != period - 1 for layer in range(n_layers)]",
)
_hybrid(
    "period_of_the_local_ones",
    "The period counts the global layer, too: five local ones and a global one are a period of 6.",
    _PERIOD,
    "return [layer % (period + 1) == period for layer in range(n_layers)]",
)
_hybrid(
    "last_layer_always_global",
    "A period that is cut off has no global layer: the last layer of the stack is local then.",
    _PERIOD,
    "return [layer % period == period - 1 or layer == n_layers - 1 for layer in range(n_layers)]",
)

# ---- receptive_field

_hybrid(
    "layers_times_window",
    "The windows of two layers share a token: each layer adds window - 1.",
    _REACH,
    "return n_layers * window",
)
_hybrid(
    "itself_forgotten",
    "Count the token itself, beside what lies before it.",
    _REACH,
    "return n_layers * (window - 1)",
)
_hybrid(
    "one_window",
    "What a layer has gathered the next one hands on: the reach grows with every layer.",
    _REACH,
    "return window",
)
_hybrid(
    "window_beside_itself",
    "A window counts the query itself, so a layer looks window - 1 tokens back.",
    _REACH,
    "return n_layers * window + 1",
)

# ---- hybrid_kv_bytes

_hybrid(
    "all_layers_global",
    "A local layer needs the last `window` tokens, however long the context is.",
    _HELD,
    "held = context_len * len(is_global)",
)
_hybrid(
    "window_always_full",
    "A text shorter than the window fills only part of it: the smaller of the two.",
    _HELD,
    "held = sum(context_len if sees_all else window for sees_all in is_global)",
)
_hybrid(
    "global_layers_cut",
    "A global layer keeps all of the context, and the local ones the window: yours has them swapped.",
    _HELD,
    "held = sum(min(window, context_len) if sees_all else context_len for sees_all in is_global)",
)
_hybrid(
    "layers_counted_twice",
    "The sum runs over the layers already: what it is multiplied by is one layer's share of a token.",
    _BYTES,
    "return held * kv_bytes_per_token(config, bytes_per_element)",
)
_hybrid(
    "keys_only",
    "A layer keeps keys and values.",
    _BYTES,
    "return held * config.n_kv_heads * config.head_dim * bytes_per_element",
)
_hybrid(
    "query_heads",
    "What is kept are KV heads: query heads share them.",
    _BYTES,
    "return held * 2 * config.n_heads * config.head_dim * bytes_per_element",
)

_hybrid(
    "whole_bytes",
    "A number in 4 bits and its share of a scale are no whole bytes: round nothing before the end.",
    _BYTES,
    "return held * int(kv_bytes_per_token(replace(config, n_layers=1), bytes_per_element))",
)

# ---- HybridCache

_hybrid(
    "rings_as_long_as_the_text",
    "A local layer needs `window` slots: yours get max_cached_tokens, and nothing is saved.",
    _RING,
    _RING.replace("batch, window", "batch, max_cached_tokens"),
    _WINDOW,
    _WINDOW.replace("self.ring.window", "self.wide"),
    _FULL,
    _FULL + "\n        self.wide = window",
)
_hybrid(
    "counted_from_the_models_first",
    "In its cache a layer is counted among those of its kind: yours uses its number in the model.",
    _NUMBER,
    "min(layer, self.is_global.count(kind) - 1)",
)
_hybrid(
    "windows_everywhere",
    "A global layer sees all tokens before it: yours looks back a window there, too.",
    _CAUSAL,
    "everything = torch.arange(self.full.length + n)\n"
    "            return window_mask(everything[self.full.length :], everything, self.ring.window)",
)
_hybrid(
    "ring_masked_by_slot",
    "A ring's keys come slot by slot, some empty and some too old: which may be seen is a question of positions.",
    _WINDOW,
    "return causal_mask(n, self.ring.window + n)",
)
_hybrid(
    "ring_in_the_order_of_time",
    "Slots are not in the order of time: ask the ring for its positions.",
    _WINDOW,
    "start = self.ring.length\n"
    "        keys = torch.arange(start - self.ring.window, start + n)\n"
    "        return window_mask(positions, keys.clamp(min=-1), self.ring.window)",
)
_hybrid(
    "without_the_ring",
    "The first new tokens still see what the ring holds, and each update returns it in front of them.",
    _WINDOW,
    "return window_mask(positions, positions, self.ring.window)",
)
_hybrid(
    "without_what_is_cached",
    "A global layer's update returns all tokens so far, so the mask is that wide.",
    _CAUSAL,
    "return causal_mask(n, n)",
)
_hybrid(
    "window_one_too_wide",
    "A window counts the query itself: `window` keys, not one more.",
    _WINDOW,
    "return window_mask(positions, self.ring.positions_for(n), self.ring.window + 1)",
)
_hybrid(
    "length_of_the_ring_in_global_layers",
    "Within a pass the local layers are ahead or behind: a global layer's mask asks its own cache for the length.",
    _CAUSAL,
    "return causal_mask(n, self.ring.length + n)",
)
_hybrid(
    "length_of_the_full_in_local_layers",
    "Within a pass the global layers may have moved already: a local layer's positions start at the ring's length.",
    _POSITIONS,
    "positions = torch.arange(self.full.length, self.full.length + n)",
)
_hybrid(
    "length_of_the_global_layers",
    "The length moves with the last layer of the model, which may be a local one.",
    _LENGTH,
    "return self.full.length",
)
_hybrid(
    "length_of_the_rings",
    "The length moves with the last layer of the model, which may be a global one.",
    _LENGTH,
    "return self.ring.length",
)
_hybrid(
    "bytes_of_the_global_layers",
    "The rings are buffers, too.",
    _NBYTES,
    "return self.full.nbytes",
)
_hybrid(
    "global_layers_go_back_first",
    "Rings that refuse must find the other layers as they were: yours has cut the global ones already.",
    _RING_BACK + _SUBTLE + _FULL_BACK,
    _FULL_BACK + "\n        " + _RING_BACK,
)
_hybrid(
    "rings_stay",
    "Both kinds go back: your rings still hold what was rejected.",
    _RING_BACK + "  #",
    "pass  #",
)
_hybrid(
    "global_layers_stay",
    "Both kinds go back: your global layers still hold what was rejected.",
    _FULL_BACK,
    "pass",
)
_hybrid(
    "goes_back_as_far_as_it_can",
    "When the rings refuse, say so: yours cuts the global layers alone, and the next pass joins two texts.",
    _RING_BACK + "  #",
    "import contextlib\n        with contextlib.suppress(ValueError):\n            " + _RING_BACK + "  #",
)
_hybrid(
    "rings_in_float32",
    "All layers have the type of the cache: your rings are float32.",
    _RING,
    _RING.replace(", dtype)", ")"),
)

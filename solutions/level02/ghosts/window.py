"""Known-wrong programs of level02.window. `ghost` is given when this is read."""

# ---- ring_positions

NEWEST = "newest = length - 1\n"
POSITIONS = "positions = newest - (newest - torch.arange(window)) % window\n"
EMPTY = "return positions.clamp(min=-1)"

ghost(
    "level02.window.ring_positions",
    "sorted",
    "Slots are not in the order of time: position p lives in slot p % window, and the newest takes the oldest's place.",
    change=(POSITIONS, "positions = torch.arange(length - window, length)\n"),
)
ghost(
    "level02.window.ring_positions",
    "sorted_from_the_front",
    "A ring is never moved up: position p lives in slot p % window, and empty slots are behind the others.",
    change=[
        (POSITIONS, "positions = torch.arange(max(0, length - window), max(0, length - window) + window)\n"),
        (EMPTY, "return positions.masked_fill(positions >= length, -1)"),
    ],
)
ghost(
    "level02.window.ring_positions",
    "relative",
    "These are numbers of slots: keep the positions in the text, by which the keys were rotated.",
    change=[
        (POSITIONS, "positions = torch.arange(window)\n"),
        (EMPTY, "return positions.masked_fill(positions > newest, -1)"),
    ],
)
ghost(
    "level02.window.ring_positions",
    "no_empty",
    "A slot that has not been rewritten in this round still holds the position of the round before.",
    change=(POSITIONS, "positions = newest // window * window + torch.arange(window)\n"),
)
ghost(
    "level02.window.ring_positions",
    "drops_the_round_before",
    "A slot that has not been rewritten in this round is not empty: it holds the token of the round before.",
    change=[
        (POSITIONS, "positions = newest // window * window + torch.arange(window)\n"),
        (EMPTY, "return positions.masked_fill(positions > newest, -1)"),
    ],
)
ghost(
    "level02.window.ring_positions",
    "below_minus_1",
    "An empty slot is marked by -1; what comes out below that is no position at all.",
    change=(EMPTY, "return positions"),
)
ghost(
    "level02.window.ring_positions",
    "empty_is_0",
    "An empty slot is marked by -1: 0 is the position of a real token.",
    change=(EMPTY, "return positions.clamp(min=0)"),
)
ghost(
    "level02.window.ring_positions",
    "one_ahead",
    "After `length` tokens the newest stands at position length - 1: positions count from 0.",
    change=(NEWEST, "newest = length\n"),
)
ghost(
    "level02.window.ring_positions",
    "one_short",
    "The ring holds one token for each of its slots; in yours the newest is missing.",
    change=(NEWEST, "newest = length - 2\n"),
)
ghost(
    "level02.window.ring_positions",
    "newest_in_slot_0",
    "The newest token does not move the others on: position p stays in slot p % window.",
    change=(POSITIONS, "positions = newest - torch.arange(window)\n"),
)
ghost(
    "level02.window.ring_positions",
    "turned_the_other_way",
    "The token after position p goes to the next slot, not to the one before: p % window.",
    change=(POSITIONS, "positions = newest - (newest + torch.arange(window)) % window\n"),
)
ghost(
    "level02.window.ring_positions",
    "only_the_held",
    "One entry for each slot, (window,), empty ones included: yours is shorter before the ring is full.",
    change=(EMPTY, "return positions[positions >= 0]"),
)
ghost(
    "level02.window.ring_positions",
    "a_list",
    "The result is an int64 tensor.",
    change=(EMPTY, "return positions.clamp(min=-1).tolist()"),
)
ghost(
    "level02.window.ring_positions",
    "floats",
    "Positions are int64: float32 cannot tell position 16,777,217 from the one before.",
    change=(EMPTY, "return positions.clamp(min=-1).float()"),
)
ghost(
    "level02.window.ring_positions",
    "half_the_bytes",
    "Positions are int64, as torch's other indices: int32 will not be found equal to them.",
    change=(EMPTY, "return positions.clamp(min=-1).int()"),
)

# ---- window_mask

DISTANCE = "distance = q_positions.unsqueeze(1) - kv_positions.unsqueeze(0)\n"
SEEN = "return (distance >= 0) & (distance < window) & (kv_positions >= 0)"

ghost(
    "level02.window.window_mask",
    "window_plus_one",
    "A window of W holds W tokens, the query itself among them: distances 0 to W - 1.",
    change=("distance < window", "distance <= window"),
    convention=True,
)
ghost(
    "level02.window.window_mask",
    "window_minus_one",
    "A window of W holds W tokens: distance W - 1 is still inside.",
    change=("distance < window", "distance < max(1, window - 1)"),
)
ghost(
    "level02.window.window_mask",
    "no_empty_check",
    "Position -1 marks an empty slot: it is one step from token 0, and must be masked all the same.",
    change=(" & (kv_positions >= 0)", ""),
)
ghost(
    "level02.window.window_mask",
    "position_0_is_empty",
    "-1 marks an empty slot; position 0 is the first token of the text, and may be seen.",
    change=("kv_positions >= 0", "kv_positions > 0"),
)
ghost(
    "level02.window.window_mask",
    "no_causal",
    "A window looks back only: the distance is 0 to W - 1, never negative.",
    change=("(distance >= 0) & (distance < window)", "(distance.abs() < window)"),
)
ghost(
    "level02.window.window_mask",
    "the_whole_future",
    "A distance below 0 is a token of the future: no query may see it.",
    change=("(distance >= 0) & ", ""),
)
ghost(
    "level02.window.window_mask",
    "no_window",
    "A query sees window tokens and no more: yours sees the whole past.",
    change=("(distance >= 0) & (distance < window)", "(distance >= 0)"),
)
ghost(
    "level02.window.window_mask",
    "not_itself",
    "A query sees itself too: distance 0 is inside every window.",
    change=("distance >= 0", "distance > 0"),
)
ghost(
    "level02.window.window_mask",
    "backwards",
    "The distance is the query's position minus the key's: yours looks into the future.",
    change=(DISTANCE, "distance = kv_positions.unsqueeze(0) - q_positions.unsqueeze(1)\n"),
)
ghost(
    "level02.window.window_mask",
    "keys_by_queries",
    "The mask is (q, k), a row for each query: yours is turned.",
    change=(SEEN, "return ((distance >= 0) & (distance < window) & (kv_positions >= 0)).T"),
)
ghost(
    "level02.window.window_mask",
    "true_is_masked",
    "True means that the query may attend; yours is the other way round.",
    change=(SEEN, "return (distance < 0) | (distance >= window) | (kv_positions < 0)"),
    convention=True,
)
ghost(
    "level02.window.window_mask",
    "to_be_added",
    "The mask is boolean; zeros and -inf, to be added to the scores, are another convention.",
    change=(
        SEEN,
        "seen = (distance >= 0) & (distance < window) & (kv_positions >= 0)\n"
        "    return torch.zeros(seen.shape).masked_fill(~seen, -torch.inf)",
    ),
    convention=True,
)
ghost(
    "level02.window.window_mask",
    "by_order",
    "Positions decide, not the order: the keys of a ring are not in the order of time.",
    change=(
        DISTANCE,
        "q, k = len(q_positions), len(kv_positions)\n"
        "    distance = torch.arange(k - q, k).unsqueeze(1) - torch.arange(k).unsqueeze(0)\n",
    ),
)
ghost(
    "level02.window.window_mask",
    "window_of_the_last_query",
    "Each query has a window of its own: yours gives all of them the window of the newest.",
    change=("distance < window", "q_positions.max() - kv_positions < window"),
)
ghost(
    "level02.window.window_mask",
    "window_of_the_first_query",
    "Each query has a window of its own: yours leaves all of them what the first one still sees.",
    change=("distance < window", "q_positions.min() - kv_positions < window"),
)
ghost(
    "level02.window.window_mask",
    "causal_for_the_last_query",
    "Each query has a limit of its own: yours lets the earlier ones see up to the newest.",
    change=("(distance >= 0)", "(q_positions.max() - kv_positions >= 0)"),
)
ghost(
    "level02.window.window_mask",
    "blocks",
    "The window slides with the query: yours cuts the text into blocks of W tokens, and the first of a block sees itself alone.",
    change=("(distance < window)", "(q_positions.unsqueeze(1) // window == kv_positions.unsqueeze(0) // window)"),
)
ghost(
    "level02.window.window_mask",
    "in_float32",
    "Subtract whole numbers: from 16,777,216 on float32 cannot tell neighbouring positions apart.",
    change=(DISTANCE, "distance = q_positions.float().unsqueeze(1) - kv_positions.float().unsqueeze(0)\n"),
)

# ---- RingCache

BUFFERS = "self.keys, self.values = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=dtype)\n"
SHAPE = "shape = (config.n_layers, batch, config.n_kv_heads, window, config.head_dim)\n"
TOLD = "return torch.cat([ring_positions(self.length, self.window), torch.arange(self.length, self.length + n)])"
OURS = "keys, values = self.keys[layer], self.values[layer]\n"
CAST = "        k, v = k.to(keys.dtype), v.to(values.dtype)\n"
JOIN = "        seen = torch.cat([keys, k], 2), torch.cat([values, v], 2)\n"
KEPT = "        kept = min(n, self.window)\n"
SLOTS = "        slots = torch.arange(end - kept, end) % self.window\n"
STORE = "        keys[:, :, slots], values[:, :, slots] = k[:, :, n - kept :], v[:, :, n - kept :]\n"
COUNT = "        self.counts[layer] = end\n"
LENGTH = "return self.counts[-1]"
NBYTES = "return self.keys.nbytes + self.values.nbytes"
REFUSE = "if 0 < n < self.length and self.length > self.window:"
CUT = "self.counts = [n] * len(self.counts)"


ghost(
    "level02.window.RingCache",
    "overwrites_first",
    "The first queries of a chunk still need the keys that it is about to overwrite: join first, then write.",
    change=[(JOIN, ""), (COUNT, JOIN + COUNT)],
)
ghost(
    "level02.window.RingCache",
    "slot_zero_up",
    "Position p goes to slot p % window; yours begins at slot 0 with every update, and rewrites one slot for ever.",
    change=(SLOTS, "        slots = torch.arange(kept)\n"),
)
ghost(
    "level02.window.RingCache",
    "keeps_chunk_head",
    "Of a chunk longer than the window the last tokens stay, not the first.",
    change=(STORE, STORE.replace("n - kept :", ":kept")),
)
ghost(
    "level02.window.RingCache",
    "tail_in_the_wrong_slots",
    "The last tokens of a long chunk go to the slots of their own positions, not to those of the chunk's first tokens.",
    change=(SLOTS, "        slots = torch.arange(end - n, end - n + kept) % self.window\n"),
)
ghost(
    "level02.window.RingCache",
    "truncates_ring",
    "Going back needs tokens that have been overwritten: refuse. Rejected drafts and sliding windows do not go together.",
    change=(REFUSE, "if False:"),
)
ghost(
    "level02.window.RingCache",
    "fresh_memory",
    "Empty slots must hold finite numbers: a masked value is multiplied by 0, and 0 times the NaN of fresh memory is NaN.",
    change=(BUFFERS, BUFFERS.replace("zeros", "empty")),
)
ghost(
    "level02.window.RingCache",
    "new_tokens_first",
    "The ring comes first, then the new tokens, as positions_for says.",
    change=(JOIN, "        seen = torch.cat([k, keys], 2), torch.cat([v, values], 2)\n"),
)
ghost(
    "level02.window.RingCache",
    "values_first",
    "update returns (keys, values), in this order.",
    change=(JOIN, "        seen = torch.cat([values, v], 2), torch.cat([keys, k], 2)\n"),
)
ghost(
    "level02.window.RingCache",
    "values_are_keys",
    "Keys and values need a ring each: in yours the values overwrite the keys.",
    change=(BUFFERS, "self.keys = self.values = torch.zeros(shape, dtype=dtype)\n"),
)
ghost(
    "level02.window.RingCache",
    "ring_without_the_new",
    "The new tokens are returned too, behind the ring: a query sees itself.",
    change=(JOIN, "        seen = keys.clone(), values.clone()\n"),
)
ghost(
    "level02.window.RingCache",
    "ring_as_it_is",
    "Return the ring as it was and the new tokens behind it; yours is the ring as it is now, without the oldest.",
    change=[(JOIN, ""), (COUNT, COUNT + "        seen = keys.clone(), values.clone()\n")],
)
ghost(
    "level02.window.RingCache",
    "without_the_empty_slots",
    "The ring comes back slot by slot, empty slots included: window + n tokens, always.",
    change=(
        JOIN,
        "        held = min(self.counts[layer], self.window)\n"
        "        seen = torch.cat([keys[:, :, :held], k], 2), torch.cat([values[:, :, :held], v], 2)\n",
    ),
)
ghost(
    "level02.window.RingCache",
    "in_the_order_of_time",
    "The ring comes back slot by slot, as positions_for says; yours is turned into the order of time.",
    change=(
        JOIN,
        "        oldest = self.counts[layer] % self.window if self.counts[layer] > self.window else 0\n"
        "        seen = torch.cat([keys.roll(-oldest, 2), k], 2), torch.cat([values.roll(-oldest, 2), v], 2)\n",
    ),
)
ghost(
    "level02.window.RingCache",
    "cut_to_the_window",
    "Return window + n tokens: cut to the last `window` of them, the first queries of a chunk lose what they may see.",
    change=(JOIN, "        seen = tuple(torch.cat(x, 2)[:, :, -self.window :] for x in ((keys, k), (values, v)))\n"),
)
ghost(
    "level02.window.RingCache",
    "one_for_all_layers",
    "Each layer has a ring of its own; in yours all layers write into the same.",
    change=(OURS, "keys, values = self.keys[0], self.values[0]\n"),
)
ghost(
    "level02.window.RingCache",
    "counter_per_update",
    "One counter that every layer's update moves: all layers of a pass use the same slots.",
    change=[
        ("        self.counts = [0] * config.n_layers\n", "        self.count = 0\n"),
        ("self.counts[layer] + k.shape[2]", "self.count + k.shape[2]"),
        (COUNT, "        self.count = end\n"),
        (LENGTH, "return self.count"),
        (CUT, "self.count = n"),
    ],
)
ghost(
    "level02.window.RingCache",
    "first_layer_moves_it",
    "length moves with the last layer of a pass: yours moves while the pass is still running.",
    change=(LENGTH, "return self.counts[0]"),
)
ghost(
    "level02.window.RingCache",
    "counts_what_it_holds",
    "length counts all tokens seen, not those held: it is the position of the next one.",
    change=(LENGTH, "return min(self.counts[-1], self.window)"),
)
ghost(
    "level02.window.RingCache",
    "starts_over_when_full",
    "length counts on when the ring is full; yours begins again at 0, and every position with it.",
    change=(COUNT, "        self.counts[layer] = end % self.window if end > self.window else end\n"),
)
ghost(
    "level02.window.RingCache",
    "positions_after_the_update",
    "positions_for tells what the next update returns, so of the ring as it is before: yours has the new tokens in it already.",
    change=(TOLD, TOLD.replace("ring_positions(self.length,", "ring_positions(self.length + n,")),
)
ghost(
    "level02.window.RingCache",
    "positions_of_the_ring",
    "positions_for(n) has window + n entries: the n new tokens stand behind the ring.",
    change=(TOLD, "return ring_positions(self.length, self.window)"),
)
ghost(
    "level02.window.RingCache",
    "new_positions_from_0",
    "The new tokens stand at length, length + 1, and so on: positions count from the start of the text.",
    change=(TOLD, TOLD.replace("torch.arange(self.length, self.length + n)", "torch.arange(n)")),
)
ghost(
    "level02.window.RingCache",
    "new_positions_from_1",
    "The next token's position is length: positions count from 0.",
    change=(
        TOLD,
        TOLD.replace(
            "torch.arange(self.length, self.length + n)", "torch.arange(self.length + 1, self.length + n + 1)"
        ),
    ),
)
ghost(
    "level02.window.RingCache",
    "positions_in_time",
    "positions_for names the slots in their order, slot by slot, as update returns them; yours is in the order of time.",
    change=(
        TOLD,
        TOLD.replace(
            "ring_positions(self.length, self.window)", "ring_positions(self.length, self.window).sort().values"
        ),
    ),
)
ghost(
    "level02.window.RingCache",
    "new_tokens_unrounded",
    "What is returned has the dtype of the cache, old and new: yours rounds a token only after its own pass.",
    change=[(CAST, ""), (JOIN, JOIN + CAST)],
)
ghost(
    "level02.window.RingCache",
    "always_float32",
    "The ring has the dtype that it was made with: bfloat16 held as float32 takes twice the bytes.",
    change=(BUFFERS, "self.keys, self.values = torch.zeros(shape), torch.zeros(shape)\n"),
)
ghost(
    "level02.window.RingCache",
    "one_slot_more",
    "The query's own token is among the window, but what is kept is `window` tokens all the same: no further slot.",
    change=(SHAPE, SHAPE.replace("window", "window + 1")),
)
ghost(
    "level02.window.RingCache",
    "room_of_query_heads",
    "Keep n_kv_heads; the query heads share them, and have nothing of their own to keep.",
    change=(SHAPE, SHAPE.replace("n_kv_heads", "n_heads")),
)
ghost(
    "level02.window.RingCache",
    "nbytes_of_the_keys",
    "nbytes counts keys and values: both rings.",
    change=(NBYTES, "return self.keys.nbytes"),
)
ghost(
    "level02.window.RingCache",
    "nbytes_of_what_is_held",
    "nbytes is what is reserved, full or empty; yours counts the tokens held.",
    change=(NBYTES, "return (self.keys.nbytes + self.values.nbytes) // self.window * min(self.length, self.window)"),
)
ghost(
    "level02.window.RingCache",
    "elements",
    "These are elements, not bytes: multiply by the element's size, 4 in float32, 2 in bfloat16.",
    change=(NBYTES, "return self.keys.numel() + self.values.numel()"),
)
ghost(
    "level02.window.RingCache",
    "never_goes_back",
    "Until the ring is full nothing has been overwritten, so every earlier length is possible.",
    change=(REFUSE, "if 0 < n < self.length:"),
)
ghost(
    "level02.window.RingCache",
    "full_is_not_overwritten",
    "A ring that is just full has overwritten nothing: with length == window every earlier length is possible.",
    change=(REFUSE, "if 0 < n < self.length and self.length >= self.window:"),
)
ghost(
    "level02.window.RingCache",
    "stays_full",
    "A ring that has overwritten something can still go back to 0: with no tokens, none is missing.",
    change=(REFUSE, "if n < self.length and self.length > self.window:"),
)
ghost(
    "level02.window.RingCache",
    "not_even_in_place",
    "Going back to where it is changes nothing, and is always possible.",
    change=(REFUSE, "if n > 0 and self.length > self.window:"),
)
ghost(
    "level02.window.RingCache",
    "never_forgets",
    "After truncate(0) the ring is empty: what was overwritten before it no longer counts.",
    change=[
        (
            "        self.counts = [0] * config.n_layers\n",
            "        self.counts, self.most = [0] * config.n_layers, 0\n",
        ),
        (COUNT, COUNT + "        self.most = max(self.most, end)\n"),
        (REFUSE, "if 0 < n < self.length and self.most > self.window:"),
    ],
)
ghost(
    "level02.window.RingCache",
    "goes_back_a_window",
    "After n tokens the ring held `window` of them, and the oldest of those is overwritten: n tokens at the end are not enough.",
    change=(REFUSE, "if 0 < n <= self.length - self.window:"),
)
ghost(
    "level02.window.RingCache",
    "goes_back_by_one",
    "The token that is gone would be just outside the next query's window, but positions_for would still name it: refuse.",
    change=(REFUSE, "if 0 < n < self.length - 1 and self.length > self.window:"),
    convention=True,
)
ghost(
    "level02.window.RingCache",
    "goes_back_near_the_start",
    "What matters is whether something has been overwritten since, not whether n lies in the first window.",
    change=(REFUSE, "if self.window <= n < self.length:"),
)
ghost(
    "level02.window.RingCache",
    "truncates_the_last_layer",
    "Go back in every layer: yours does it in the one that length is read from.",
    change=(CUT, "self.counts[-1] = n"),
)
ghost(
    "level02.window.RingCache",
    "drops_n",
    "truncate(n) goes back to n tokens; yours drops the last n.",
    change=(CUT, "self.counts = [count - n for count in self.counts]"),
)
ghost(
    "level02.window.RingCache",
    "drops_as_many_everywhere",
    "Go back to n in every layer; yours drops equally many, but after a broken-off pass some layers have seen more.",
    change=(CUT, "self.counts = [count - (self.length - n) for count in self.counts]"),
)
ghost(
    "level02.window.RingCache",
    "keeps_everything",
    "A ring holds `window` tokens: yours keeps all of the text besides.",
    change=[
        (BUFFERS, BUFFERS + "        self.all = [(x[:, :, :0], x[:, :, :0]) for x in self.keys]\n"),
        (COUNT, COUNT + "        self.all[layer] = tuple(torch.cat(x, 2) for x in zip(self.all[layer], (k, v)))\n"),
    ],
)
ghost(
    "level02.window.RingCache",
    "a_view_of_the_chunk",
    "Write the last tokens of a chunk into the ring: a view keeps the whole chunk alive, and its memory is the caller's.",
    change=[
        (BUFFERS, BUFFERS.replace("torch.zeros(shape, dtype=dtype)", "list(torch.zeros(shape, dtype=dtype))")),
        (
            STORE,
            "        if n >= self.window and end % self.window == 0:\n"
            "            self.keys[layer], self.values[layer] = k[:, :, n - kept :], v[:, :, n - kept :]\n"
            "        else:\n    " + STORE,
        ),
        (NBYTES, "return sum(x.nbytes for x in self.keys + self.values)"),
    ],
)

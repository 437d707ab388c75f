"""Known-wrong programs of level02.cache. `ghost` is given when this is read."""

# ---- kv_bytes_per_token

ghost(
    "level02.cache.kv_bytes_per_token",
    "query_heads",
    "Only the KV heads are cached; the query heads of a group share them.",
    change=("config.n_kv_heads", "config.n_heads"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "keys_only",
    "A token leaves a key and a value: the factor 2 is missing.",
    change=("2 * config.n_layers", "config.n_layers"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "d_model",
    "d_model is the width of the residual stream; what is cached is n_kv_heads · head_dim wide.",
    change=("config.n_kv_heads * config.head_dim", "config.d_model"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "one_layer",
    "Each layer has keys and values of its own: multiply by n_layers.",
    change=("2 * config.n_layers *", "2 *"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "one_head",
    "Every KV head has a key and a value of its own: multiply by n_kv_heads.",
    change=("config.n_kv_heads * config.head_dim", "config.head_dim"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "split_d_model",
    "A head is head_dim wide, which need not be d_model / n_heads.",
    change=("config.head_dim *", "config.d_model / config.n_heads *"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "elements",
    "These are elements, not bytes: multiply by bytes_per_element.",
    change=("config.head_dim * bytes_per_element", "config.head_dim"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "always_bfloat16",
    "Not every cache is in bfloat16: multiply by bytes_per_element, not by 2.",
    change=("config.head_dim * bytes_per_element", "config.head_dim * 2"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "bits",
    "bytes_per_element counts bytes already; do not multiply or divide by 8.",
    change=("config.head_dim * bytes_per_element", "config.head_dim * bytes_per_element * 8"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "whole_bytes",
    "bytes_per_element can be 0.5: do not round it.",
    change=("config.head_dim * bytes_per_element", "config.head_dim * int(bytes_per_element)"),
)
ghost(
    "level02.cache.kv_bytes_per_token",
    "rounded_up",
    "Packed entries share a byte, so half a byte each is meant as it stands: rounding up says twice as much.",
    change=("config.head_dim * bytes_per_element", "config.head_dim * max(1, bytes_per_element)"),
)

# ---- concat_copy_bytes

ALL = "(steps * start + steps * (steps + 1) // 2)"

ghost(
    "level02.cache.concat_copy_bytes",
    "only_new",
    "Joining makes a new tensor: at each step every old token is written again, not the new one alone.",
    change=(ALL, "steps"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "old_only",
    "The new token is written too: step i writes start + i tokens, not start + i - 1.",
    change=("(steps + 1) // 2", "(steps - 1) // 2"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "constant_start",
    "The cache grows step by step: only the last step writes start + steps tokens.",
    change=(ALL, "(steps * (start + steps))"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "last_join_only",
    "This is what the last step writes; the steps before it wrote as well.",
    change=(ALL, "((start + steps) * bool(steps))"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "start_once",
    "The tokens that were there at the start are copied at every step, not once.",
    change=("steps * start +", "start * bool(steps) +"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "never_grows",
    "What was added is copied again by the steps after it: step i writes start + i tokens, not start + 1.",
    change=(ALL, "(steps * (start + 1))"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "from_nothing",
    "The cache holds `start` tokens already, and each step copies them.",
    change=("steps * start + ", ""),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "reads_too",
    "Only what is written is asked for: reading the old tensor is as much again, but not counted.",
    change=(ALL, "(2 * steps * start + steps * steps)"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "sum_of_squares",
    "1 + 2 + … + n is n (n + 1) / 2: half of n (n + 1).",
    change=("steps * (steps + 1) // 2", "steps * (steps + 1)"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "halves_a_factor",
    "Halve the product n (n + 1), which is even; of one factor alone, // drops a half.",
    change=("steps * (steps + 1) // 2", "steps * ((steps + 1) // 2)"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "one_step_more",
    "`steps` tokens are added, so there are that many joins, not one more: making the cache of `start` is not a step.",
    change=(ALL, "((steps + 1) * start + steps * (steps + 1) // 2)"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "in_tokens",
    "These are tokens: multiply by bytes_per_token.",
    change=("bytes_per_token * (", "("),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "keys_and_values_twice",
    "bytes_per_token has keys and values in it already: no further factor 2.",
    change=("return bytes_per_token *", "return 2 * bytes_per_token *"),
)
ghost(
    "level02.cache.concat_copy_bytes",
    "whole_bytes",
    "bytes_per_token need not be a whole number: do not round it.",
    change=("return bytes_per_token *", "return int(bytes_per_token) *"),
)

# ---- KVCache

SHAPE = "        shape = (config.n_layers, batch, config.n_kv_heads, max_cached_tokens, config.head_dim)\n"
BUFFERS = "self.keys, self.values = torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)\n"
COUNTS = "        self.counts = [0] * config.n_layers\n"
PLACE = "start, end = self.counts[layer], self.counts[layer] + k.shape[2]\n"
CHECK = "        if end > self.max_cached_tokens:\n            raise ValueError("
WRITE_K = "        self.keys[layer, :, :, start:end] = k\n"
WRITE_V = "        self.values[layer, :, :, start:end] = v\n"
COUNT = "        self.counts[layer] = end\n"
RETURN = "return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]\n"
LENGTH = "return self.counts[-1]"
NBYTES = "return self.keys.nbytes + self.values.nbytes"
CUT = "self.counts = [n] * len(self.counts)"


def _clips(self, layer, k, v):
    """Keeps what fits and drops the rest in silence."""
    if k.shape != v.shape or k.shape[0] != self.batch:
        raise ValueError("another shape")
    start, end = self.counts[layer], min(self.counts[layer] + k.shape[2], self.max_cached_tokens)
    self.keys[layer, :, :, start:end] = k[:, :, : end - start]
    self.values[layer, :, :, start:end] = v[:, :, : end - start]
    self.counts[layer] = end
    return self.keys[layer, :, :, :end], self.values[layer, :, :, :end]


ghost(
    "level02.cache.KVCache",
    "writes_at_front",
    "Write behind what the layer holds, at [start, end), not at the beginning.",
    change=[
        (WRITE_K, WRITE_K.replace("start:end", ": end - start")),
        (WRITE_V, WRITE_V.replace("start:end", ": end - start")),
    ],
)
ghost(
    "level02.cache.KVCache",
    "returns_buffer",
    "Return only what has been written: the empty rest of the buffer gets attention as well, exp(0) if it is zero.",
    change=(RETURN, "return self.keys[layer], self.values[layer]\n"),
)
ghost(
    "level02.cache.KVCache",
    "returns_new_only",
    "update gives back all tokens that the layer holds, old and new: the query attends to the whole past.",
    change=(RETURN, RETURN.replace(":end]", "start:end]")),
)
ghost(
    "level02.cache.KVCache",
    "one_token_behind",
    "The new tokens are part of what is returned: up to end, not up to start. A token attends to itself.",
    change=(RETURN, RETURN.replace(":end]", ":start]")),
)
ghost(
    "level02.cache.KVCache",
    "values_first",
    "update returns (keys, values), in this order.",
    change=(RETURN, "return self.values[layer, :, :, :end], self.keys[layer, :, :, :end]\n"),
)
ghost(
    "level02.cache.KVCache",
    "values_are_keys",
    "Keys and values need a buffer each: in yours the values overwrite the keys.",
    change=(BUFFERS, "self.keys = self.values = torch.empty(shape, dtype=dtype)\n"),
)
ghost(
    "level02.cache.KVCache",
    "one_for_all_layers",
    "Each layer has keys and values of its own; in yours all layers write into the same.",
    change=[
        (WRITE_K, WRITE_K.replace("[layer", "[0")),
        (WRITE_V, WRITE_V.replace("[layer", "[0")),
        (RETURN, RETURN.replace("[layer", "[0")),
    ],
)
ghost(
    "level02.cache.KVCache",
    "length_per_update",
    "One counter that every layer's update moves: all layers of a pass write at the same place.",
    change=[
        (COUNTS, "        self.count = 0\n"),
        (PLACE, "start, end = self.count, self.count + k.shape[2]\n"),
        (COUNT, "        self.count = end\n"),
        (LENGTH, "return self.count"),
        (CUT, "self.count = n"),
    ],
)
ghost(
    "level02.cache.KVCache",
    "first_layer_moves_it",
    "length is what every layer holds, so it moves with the last layer: yours moves while the pass is still running.",
    change=(LENGTH, "return self.counts[0]"),
)
ghost(
    "level02.cache.KVCache",
    "length_of_all_layers",
    "length counts tokens, not updates: summed over 30 layers it is 30 times too long.",
    change=(LENGTH, "return sum(self.counts)"),
)
ghost(
    "level02.cache.KVCache",
    "length_is_the_room",
    "length is what the cache holds, not what it has room for: yours puts the next token at the end of the buffer.",
    change=(LENGTH, "return self.max_cached_tokens"),
)
ghost(
    "level02.cache.KVCache",
    "drops_overflow",
    "A full cache must refuse: tokens that are dropped in silence come back as nonsense text.",
    program=_clips,
    part="KVCache.update",
)
ghost(
    "level02.cache.KVCache",
    "leaves_it_to_torch",
    "Ask whether the tokens fit: a slice beyond the end is empty, and one token is written into it without an error.",
    change=("if end > self.max_cached_tokens:", "if False:"),
)
ghost(
    "level02.cache.KVCache",
    "wraps_around",
    "What does not fit is refused; yours starts again at the front and overwrites the first tokens.",
    change=(
        CHECK,
        "        if end > self.max_cached_tokens and k.shape[2] <= self.max_cached_tokens:\n"
        "            start, end = 0, k.shape[2]\n"
        "        if end > self.max_cached_tokens:\n            raise ValueError(",
    ),
)
ghost(
    "level02.cache.KVCache",
    "refuses_the_last_slot",
    "Room for n tokens holds n: only end > room is too much, end == room is full.",
    change=("if end > self.max_cached_tokens:", "if end >= self.max_cached_tokens:"),
)
ghost(
    "level02.cache.KVCache",
    "asks_once_full",
    "Ask whether the new tokens fit, not whether the cache is full already: several tokens can come at once.",
    change=("if end > self.max_cached_tokens:", "if start >= self.max_cached_tokens:"),
)
ghost(
    "level02.cache.KVCache",
    "counts_before_it_asks",
    "Check before you count: the refused tokens are in your length, and the next token leaves a hole.",
    change=[(CHECK, COUNT + CHECK), (WRITE_V + COUNT, WRITE_V)],
)
ghost(
    "level02.cache.KVCache",
    "returns_copies",
    "Return views: a copy for each layer and step brings back the quadratic traffic that the reserved room saves.",
    change=(RETURN, RETURN.replace(":end]", ":end].clone()")),
)
ghost(
    "level02.cache.KVCache",
    "grows_by_joining",
    "Write the new tokens alone, into room that was reserved once: torch.cat makes a new tensor and writes the whole past again.",
    change=[
        (
            SHAPE,
            SHAPE.replace("max_cached_tokens", "0").replace(
                "shape =",
                "self.room = 2 * config.n_layers * batch * config.n_kv_heads * max_cached_tokens * config.head_dim * dtype.itemsize\n        shape =",
            ),
        ),
        (
            BUFFERS,
            "self.keys, self.values = list(torch.empty(shape, dtype=dtype)), list(torch.empty(shape, dtype=dtype))\n",
        ),
        (
            WRITE_K,
            "        k, v = k.to(self.keys[layer].dtype), v.to(self.values[layer].dtype)\n        self.keys[layer] = torch.cat([self.keys[layer][:, :, :start], k], 2)\n",
        ),
        (WRITE_V, "        self.values[layer] = torch.cat([self.values[layer][:, :, :start], v], 2)\n"),
        (RETURN, "return self.keys[layer], self.values[layer]\n"),
        (NBYTES, "return self.room"),
    ],
)
ghost(
    "level02.cache.KVCache",
    "doubles_when_full",
    "The room is reserved once, at the start: a buffer that doubles is copied each time, and its views lose their memory.",
    change=[
        (
            BUFFERS,
            "self.room = 2 * config.n_layers * batch * config.n_kv_heads * max_cached_tokens * config.head_dim * dtype.itemsize\n"
            "        shape = (config.n_layers, batch, config.n_kv_heads, 1, config.head_dim)\n"
            "        self.keys, self.values = list(torch.empty(shape, dtype=dtype)), list(torch.empty(shape, dtype=dtype))\n",
        ),
        (
            WRITE_K,
            "        for buffers in (self.keys, self.values):\n"
            "            while buffers[layer].shape[2] < end:\n"
            "                buffers[layer] = torch.cat([buffers[layer], torch.empty_like(buffers[layer])], 2)\n"
            "        self.keys[layer][:, :, start:end] = k\n",
        ),
        (WRITE_V, "        self.values[layer][:, :, start:end] = v\n"),
        (RETURN, "return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]\n"),
        (NBYTES, "return self.room"),
    ],
)
ghost(
    "level02.cache.KVCache",
    "room_of_the_model",
    "Reserve max_cached_tokens; the model's max_seq_len is far more than most requests need.",
    change=(SHAPE, SHAPE.replace("max_cached_tokens", "max(config.max_seq_len, max_cached_tokens)")),
)
ghost(
    "level02.cache.KVCache",
    "room_of_query_heads",
    "Reserve n_kv_heads; the query heads share them, and keep nothing of their own.",
    change=(SHAPE, SHAPE.replace("n_kv_heads", "n_heads")),
)
ghost(
    "level02.cache.KVCache",
    "always_float32",
    "The cache has the dtype that it was made with: bfloat16 held as float32 takes twice the bytes.",
    change=(BUFFERS, "self.keys, self.values = torch.empty(shape), torch.empty(shape)\n"),
)
ghost(
    "level02.cache.KVCache",
    "nbytes_of_the_keys",
    "nbytes counts keys and values: both buffers.",
    change=(NBYTES, "return self.keys.nbytes"),
)
ghost(
    "level02.cache.KVCache",
    "nbytes_of_what_is_held",
    "nbytes is what is reserved, full or empty; yours counts the tokens held.",
    change=(NBYTES, "return (self.keys.nbytes + self.values.nbytes) // self.max_cached_tokens * self.length"),
)
ghost(
    "level02.cache.KVCache",
    "elements",
    "These are elements, not bytes: multiply by the element's size, 4 in float32, 2 in bfloat16.",
    change=(NBYTES, "return self.keys.numel() + self.values.numel()"),
)
ghost(
    "level02.cache.KVCache",
    "nbytes_in_float32",
    "Not every element has 4 bytes: ask the dtype for its size.",
    change=(NBYTES, "return 4 * (self.keys.numel() + self.values.numel())"),
)
ghost(
    "level02.cache.KVCache",
    "truncates_the_last_layer",
    "Truncate every layer: yours cuts the one that length is read from, and the others still hold everything.",
    change=(CUT, "self.counts[-1] = n"),
)
ghost(
    "level02.cache.KVCache",
    "drops_n",
    "truncate(n) keeps n tokens; yours drops the last n.",
    change=(CUT, "self.counts = [count - n for count in self.counts]"),
)
ghost(
    "level02.cache.KVCache",
    "drops_as_many_everywhere",
    "Keep the first n in every layer; yours drops equally many, but after a broken-off pass some layers hold more.",
    change=(CUT, "self.counts = [count - (self.length - n) for count in self.counts]"),
)
ghost(
    "level02.cache.KVCache",
    "keeps_the_newest",
    "truncate(n) keeps the first n tokens: it forgets the newest, not the oldest.",
    change=(
        CUT,
        "for layer, count in enumerate(self.counts):\n"
        "            self.keys[layer, :, :, :n] = self.keys[layer, :, :, count - n : count].clone()\n"
        "            self.values[layer, :, :, :n] = self.values[layer, :, :, count - n : count].clone()\n"
        "        self.counts = [n] * len(self.counts)",
    ),
)
ghost(
    "level02.cache.KVCache",
    "shrinks_the_buffer",
    "truncate keeps the room: cut the count, not the buffer, or the next tokens have no place.",
    change=(CUT, CUT + "\n        self.keys, self.values = self.keys[:, :, :, :n], self.values[:, :, :, :n]"),
)
ghost(
    "level02.cache.KVCache",
    "copies_on_truncate",
    "Nothing is moved by truncate: the count says what is held. Yours copies the buffers.",
    change=(CUT, CUT + "\n        self.keys, self.values = self.keys.clone(), self.values.clone()"),
)
ghost(
    "level02.cache.KVCache",
    "room_is_used_up",
    "What was truncated makes room again; yours counts all tokens that were ever written.",
    change=[
        (COUNTS, COUNTS + "        self.written = [0] * config.n_layers\n"),
        (
            "        if end > self.max_cached_tokens:\n",
            "        if self.written[layer] + k.shape[2] > self.max_cached_tokens:\n",
        ),
        (COUNT, COUNT + "        self.written[layer] += k.shape[2]\n"),
    ],
)
ghost(
    "level02.cache.KVCache",
    "keeps_the_caller_s_tensor",
    "Write a prompt into the buffer as well: yours keeps the caller's own tensor, whose memory is the caller's.",
    change=[
        (
            BUFFERS,
            "self.keys, self.values = list(torch.empty(shape, dtype=dtype)), list(torch.empty(shape, dtype=dtype))\n",
        ),
        (
            WRITE_K,
            "        if k.shape == self.keys[layer].shape and k.dtype == self.keys[layer].dtype:\n"
            "            self.keys[layer], self.values[layer] = k, v\n"
            "        self.keys[layer][:, :, start:end] = k\n",
        ),
        (WRITE_V, "        self.values[layer][:, :, start:end] = v\n"),
        (RETURN, "return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]\n"),
        (NBYTES, "return 2 * sum(k.nbytes for k in self.keys)"),
    ],
)
ghost(
    "level02.cache.KVCache",
    "newest_first",
    "Write the new tokens behind the old ones: the causal mask takes the last keys for the newest.",
    change=[
        (
            WRITE_K,
            "        self.keys[layer, :, :, :end] = torch.cat([k.to(self.keys.dtype), self.keys[layer, :, :, :start]], 2)\n",
        ),
        (
            WRITE_V,
            "        self.values[layer, :, :, :end] = torch.cat([v.to(self.values.dtype), self.values[layer, :, :, :start]], 2)\n",
        ),
    ],
)

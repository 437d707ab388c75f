"""Known-wrong programs of level01.simple_cache. `ghost` is given when this is read."""

STORED = "        self.keys[layer], self.values[layer] = k, v\n"
JOINED = "            k, v = torch.cat([self.keys[layer], k], 2), torch.cat([self.values[layer], v], 2)\n"
LENGTH = "return 0 if last is None else last.shape[2]"


ghost(
    "level01.simple_cache.SimpleCache",
    "returns_new_only",
    "update gives back all keys and values, old and new: the query attends to the whole past.",
    change=(
        JOINED + STORED,
        JOINED.replace("k, v =", "joined =") + "        else:\n            joined = k, v\n"
        "        self.keys[layer], self.values[layer] = joined\n",
    ),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "forgets_the_past",
    "Append to what the layer holds; yours replaces it by the new tokens.",
    change=("if self.keys[layer] is not None:", "if False:"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "one_list",
    "Keys and values need a place each; yours appends the new values to the old keys.",
    change=("torch.cat([self.values[layer], v], 2)", "torch.cat([self.keys[layer], v], 2)"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "values_first",
    "update returns (keys, values), in this order.",
    change=("        return k, v\n", "        return v, k\n"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "along_the_heads",
    "Tokens are axis 2 of (B, n_kv_heads, n, head_dim); you append along the heads.",
    change=(JOINED, JOINED.replace("2)", "1)")),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "newest_first",
    "Append the new tokens after the old ones: the causal mask takes the last keys for the newest.",
    change=(
        JOINED,
        "            k, v = torch.cat([k, self.keys[layer]], 2), torch.cat([v, self.values[layer]], 2)\n",
    ),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "one_for_all_layers",
    "Each layer has keys and values of its own; in yours all layers append to the same.",
    change=("if self.keys[layer] is not None:", "layer = -1\n        if self.keys[layer] is not None:"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "widens_to_float32",
    "Keep the dtype of the keys and values: bfloat16 widened to float32 is twice the bytes at every step.",
    change=(STORED, "        k, v = k.float(), v.float()\n" + STORED),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_per_layer",
    "length counts tokens, not updates: summed over 30 layers it is 30 times too long, and every position is wrong.",
    change=(LENGTH, "return sum(0 if k is None else k.shape[2] for k in self.keys)"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "counts_every_update",
    "Every layer's update adds to your count; length moves once a pass, when the last layer has been updated.",
    change=[
        (
            "        self.values: list[Tensor | None] = [None] * n_layers\n",
            "        self.values: list[Tensor | None] = [None] * n_layers\n        self.count = 0\n",
        ),
        (
            "        if self.keys[layer] is not None:\n",
            "        self.count += k.shape[2]\n        if self.keys[layer] is not None:\n",
        ),
        (LENGTH, "return self.count"),
        (
            "        self.values = [v if v is None else v[:, :, :n] for v in self.values]\n",
            "        self.values = [v if v is None else v[:, :, :n] for v in self.values]\n        self.count = n\n",
        ),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_of_the_first_layer",
    "length is what every layer holds, so the last one decides: yours moves while the pass is still running.",
    change=("last = self.keys[-1]", "last = self.keys[0]"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "length_along_the_heads",
    "length is the size of axis 2, the tokens; yours counts the heads.",
    change=(LENGTH, LENGTH.replace("shape[2]", "shape[1]")),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "truncates_keys_only",
    "Truncate the values as well: a key without its own value makes every later look-up wrong.",
    change=("v[:, :, :n]", "v"),
)
ghost(
    "level01.simple_cache.SimpleCache",
    "keeps_the_newest",
    "truncate(n) keeps the first n tokens: it forgets the newest, not the oldest.",
    change=[("k[:, :, :n]", "k[:, :, -n:]"), ("v[:, :, :n]", "v[:, :, -n:]")],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "drops_n",
    "truncate(n) keeps n tokens; yours drops the last n.",
    change=[
        ("k[:, :, :n]", "k[:, :, : k.shape[2] - n]"),
        ("v[:, :, :n]", "v[:, :, : v.shape[2] - n]"),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "truncates_the_last_layer",
    "Truncate every layer: yours shortens the one that length is read from, and the others still hold everything.",
    change=[
        ("self.keys = [k if k is None else k[:, :, :n] for k in self.keys]", "k, v = self.keys[-1], self.values[-1]"),
        (
            "self.values = [v if v is None else v[:, :, :n] for v in self.values]",
            "self.keys[-1], self.values[-1] = (x if x is None else x[:, :, :n] for x in (k, v))",
        ),
    ],
)
ghost(
    "level01.simple_cache.SimpleCache",
    "drops_as_many_everywhere",
    "Keep the first n in every layer; yours drops equally many, but after a broken-off pass some layers hold more.",
    change=[
        (
            "self.keys = [k if k is None else k[:, :, :n] for k in self.keys]",
            "drop = self.length - n\n"
            "        self.keys = [k if k is None else k[:, :, : k.shape[2] - drop] for k in self.keys]",
        ),
        ("v[:, :, :n]", "v[:, :, : v.shape[2] - drop]"),
    ],
)

"""Right programs, written another way, for level15.handoff. `alternative` is given when this is read."""

import hashlib
import json

ID = "level15.handoff.load_cache"


def _repeated(n_kv_heads, n_ranks):
    """Heads in steps, or each of them several times."""
    if n_ranks <= n_kv_heads:
        if n_kv_heads % n_ranks:
            raise ValueError("uneven")
        return list(range(0, n_kv_heads, n_kv_heads // n_ranks))
    if n_ranks % n_kv_heads:
        raise ValueError("uneven")
    return [head for head in range(n_kv_heads) for _ in range(n_ranks // n_kv_heads)]


def _one_by_one(token_ids, num_received):
    if num_received < 0 or num_received >= len(token_ids):
        raise ValueError("nothing left")
    ids, positions = [], []
    for position, token in enumerate(token_ids):
        if position >= num_received:
            ids.append(token)
            positions.append(position)
    return ids, positions


def _with_lengths(model, revision, dtype, source=""):
    parts = (text.encode() for text in (model, revision, dtype, source))
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _as_json(model, revision, dtype, source=""):
    return json.dumps([model, revision, dtype, source]).encode()


def _digest_of_digests(model, revision, dtype, source=""):
    parts = (hashlib.sha256(text.encode()).digest() for text in (model, revision, dtype, source))
    return hashlib.sha256(b"".join(parts)).digest()


def _sorted_pairs(cache, config, layers):
    """By the numbers that came, sorted; checked one by one."""
    if cache.length > 0:
        raise ValueError("in use")
    if set(layers) != set(range(config.n_layers)):
        raise ValueError("layers")
    rows, _, tokens, _ = layers[0][0].shape
    for k, v in layers.values():
        if not k.shape == v.shape == (rows, config.n_kv_heads, tokens, config.head_dim):
            raise ValueError("shape")
    for layer, (k, v) in sorted(layers.items(), key=lambda item: item[0]):
        cache.update(layer, k, v)


def _recursive(cache, config, layers):
    def load(layer):
        if layer >= 0:
            load(layer - 1)
            keys, values = layers[layer]
            cache.update(layer=layer, k=keys.clone(), v=values.clone())

    if cache.length or sorted(layers) != [*range(config.n_layers)]:
        raise ValueError("in use, or other layers")
    shapes = {tuple(part.shape) for pair in layers.values() for part in pair}
    if len(shapes) > 1 or {shape[1::2] for shape in shapes} != {(config.n_kv_heads, config.head_dim)}:
        raise ValueError("shape")
    load(config.n_layers - 1)


alternative(ID, "steps_or_repeats", program=_repeated, part="head_offsets")
alternative(ID, "one_by_one", program=_one_by_one, part="remaining")
alternative(ID, "with_lengths", program=_with_lengths, part="cache_salt")
alternative(ID, "as_json", program=_as_json, part="cache_salt")
alternative(ID, "digest_of_digests", program=_digest_of_digests, part="cache_salt")
alternative(ID, "sorted_pairs", program=_sorted_pairs)
alternative(ID, "recursive", program=_recursive)

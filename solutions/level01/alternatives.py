"""Right programs of level 01, written another way: the tests must accept them. `alternative` is given when this is read."""

import torch

# ---- simple_cache


class _InPieces:
    """Keeps what came as it came, and joins it when it is asked for; another dict for each layer."""

    def __init__(self, n_layers):
        self.n_layers, self.pieces = n_layers, {}

    def update(self, layer, k, v):
        if layer not in range(self.n_layers):
            raise ValueError(f"there is no layer {layer}")
        self.pieces.setdefault(layer, []).append((k.clone(), v.clone()))
        return tuple(torch.cat(side, dim=-2) for side in zip(*self.pieces[layer]))

    @property
    def length(self):
        return min(sum(k.shape[-2] for k, _ in self.pieces.get(i, [])) for i in range(self.n_layers))

    def truncate(self, n):
        if n < 0 or n > self.length:
            raise ValueError(f"cannot keep {n} of {self.length}")
        for layer, pieces in self.pieces.items():
            k, v = (torch.cat(side, dim=-2).narrow(-2, 0, n) for side in zip(*pieces))
            self.pieces[layer] = [(k, v)]


class _WithRoom:
    """A buffer that doubles when it is full, keys and values in one tensor, and a count for each layer.

    What it returns are views, so tokens that were truncated and written over change in them.
    """

    def __init__(self, n_layers):
        self.n_layers, self.rooms, self.counts = n_layers, [None] * n_layers, [0] * n_layers

    def update(self, layer, k, v):
        if layer < 0 or layer >= self.n_layers:
            raise ValueError(f"there is no layer {layer}")
        new, start = torch.stack([k, v]), self.counts[layer]
        end = self.counts[layer] = start + new.shape[3]
        room = self.rooms[layer]
        if room is None or room.shape[3] < end:
            B, G, D = new.shape[1], new.shape[2], new.shape[4]
            grown = new.new_full((2, B, G, 2 * end, D), torch.nan)
            if start:
                grown[:, :, :, :start] = room[:, :, :, :start]
            room = self.rooms[layer] = grown
        room[:, :, :, start:end] = new
        return room[0, :, :, :end], room[1, :, :, :end]

    @property
    def length(self):
        return self.counts[-1]

    def truncate(self, n):
        if not 0 <= n <= self.length:
            raise ValueError(f"cannot keep {n} of {self.length}")
        self.counts = [min(n, count) for count in self.counts]


class _Counting:
    """Empty tensors at the start, and a number that is moved by the last layer."""

    def __init__(self, n_layers):
        self.n_layers, self.length = n_layers, 0
        self.layers = {layer: (torch.empty(0), torch.empty(0)) for layer in range(n_layers)}

    def update(self, layer, k, v):
        if layer not in self.layers:
            raise ValueError(f"there is no layer {layer}")
        old_k, old_v = self.layers[layer]
        if old_k.dim() == 4:
            k, v = torch.concat((old_k, k), 2), torch.concat((old_v, v), 2)
        self.layers[layer] = k, v
        if layer == self.n_layers - 1:
            self.length = k.size(2)
        return self.layers[layer]

    def truncate(self, n):
        if n not in range(self.length + 1):
            raise ValueError(f"cannot keep {n} of {self.length}")
        self.length = n
        self.layers = {i: (k[..., :n, :], v[..., :n, :]) for i, (k, v) in self.layers.items() if k.dim() == 4} | {
            i: pair for i, pair in self.layers.items() if pair[0].dim() != 4
        }


alternative("level01.simple_cache.SimpleCache", "in_pieces", program=_InPieces)
alternative("level01.simple_cache.SimpleCache", "with_room_to_grow", program=_WithRoom)
alternative("level01.simple_cache.SimpleCache", "counting", program=_Counting)


# ---- generate


def _level00(forward):
    """The caller's forward, or level 00's."""
    if forward is None:
        from level00.transformer import forward
    return forward


def _choose(choose):
    return choose or (lambda logits, prompts, outputs: logits.max(-1).indices)


def _allowed(*args):
    from level01.generate import allowed_tokens

    return allowed_tokens(*args)


@torch.inference_mode()
def _one_growing_tensor(params, config, prompt, max_tokens, stop_ids=(), *, choose=None, forward=None):
    """Tensors all the way: the sequence grows by torch.cat, and what is new is cut off at the end."""
    ids = torch.tensor(prompt).reshape(1, -1)
    for _ in range(_allowed(config, prompt, max_tokens)):
        logits = _level00(forward)(params=params, config=config, token_ids=ids)[:, -1, :]
        new = _choose(choose)(logits, [ids[0, : len(prompt)].tolist()], ids[:, len(prompt) :].tolist())
        ids = torch.cat([ids, new.view(1, 1)], 1)
        if new.item() in set(stop_ids):
            break
    return ids[0, len(prompt) :].tolist()


def _live_lists(params, config, prompt, max_tokens, stop_ids=(), *, choose=None, forward=None):
    """The histories are handed on as they are, not copied; the whole is kept beside the output."""
    left, whole, output = _allowed(config, prompt, max_tokens), list(prompt), []
    if left == 0:
        return output
    while True:
        last = _level00(forward)(params, config, torch.tensor(whole)[None])[0, -1].unsqueeze(0)
        [token] = _choose(choose)(last, [prompt], [output]).tolist()
        whole.append(token)
        output.append(token)
        if len(output) == left or token in stop_ids:
            return output


def _by_index(params, config, prompt, cache, chunk_size=None, *, forward=None):
    """Slices of the list, with positions and masks of its own."""
    if len(prompt) == 0 or (chunk_size is not None and chunk_size <= 0):
        raise ValueError("nothing to prefill")
    size = len(prompt) if chunk_size is None else chunk_size
    for i in range(0, len(prompt), size):
        ids, held = torch.tensor([list(prompt[i : i + size])], dtype=torch.int64), cache.length
        n = ids.shape[1]
        mask = torch.ones(n, held + n, dtype=torch.bool).tril(held)
        out = _level00(forward)(params, config, ids, cache=cache, positions=torch.arange(held, held + n), mask=mask)
    return out[:, -1]


def _recursive(params, config, prompt, cache, chunk_size=None, *, forward=None):
    """The first chunk, then the rest."""
    if not prompt or (chunk_size or 1) < 1 or chunk_size == 0:
        raise ValueError("nothing to prefill")
    first, rest = (prompt, ()) if chunk_size is None else (prompt[:chunk_size], prompt[chunk_size:])
    logits = _level00(forward)(params, config, torch.as_tensor(first).view(1, -1), cache)
    return _recursive(params, config, rest, cache, chunk_size, forward=forward) if rest else logits.select(1, -1)


def _step_with_everything_said(params, config, token, cache, *, forward=None):
    n = cache.length
    ids, mask = torch.full((1, 1), token), torch.ones(1, n + 1, dtype=torch.bool)
    return _level00(forward)(params, config, ids, cache, positions=torch.tensor([n]), mask=mask).squeeze(1)


def _step_as_a_prefill(params, config, token, cache, *, forward=None):
    from level01.generate import prefill

    return prefill(params, config, [token], cache, forward=_level00(forward))


def _prefill_before_the_loop(
    params, config, prompt, max_tokens, stop_ids=(), cache=None, chunk_size=None, *, choose=None, forward=None
):
    """Checks at the call, computes at the first token: an inner generator. The histories are live lists."""
    from level01 import generate
    from level01.simple_cache import SimpleCache

    left = _allowed(config, prompt, max_tokens, 0 if cache is None else cache.length)
    cache = SimpleCache(config.n_layers) if cache is None else cache

    def tokens():
        if not left:
            return
        made = []
        logits = generate.prefill(params, config, prompt, cache, chunk_size, forward=_level00(forward))
        for i in range(left):
            if i:
                logits = generate.decode_step(params, config, made[-1], cache, forward=_level00(forward))
            [token] = _choose(choose)(logits, [prompt], [made]).tolist()
            made.append(token)
            yield token
            if token in stop_ids:
                break

    return tokens()


def _feeds_what_is_not_fed_yet(
    params, config, prompt, max_tokens, stop_ids=(), cache=None, chunk_size=None, *, choose=None, forward=None
):
    """One loop without a first step of its own: what is pending is fed, first the prompt, then a token."""
    from level01 import generate
    from level01.simple_cache import SimpleCache

    left = _allowed(config, prompt, max_tokens, 0 if cache is None else cache.length)
    pending, made = tuple(prompt), ()
    cache = SimpleCache(config.n_layers) if cache is None else cache
    while left > 0:
        logits = generate.prefill(params, config, pending, cache, chunk_size, forward=_level00(forward))
        pending = (_choose(choose)(logits, [list(prompt)], [list(made)])[0].item(),)
        made += pending
        left = 0 if pending[0] in stop_ids else left - 1
        yield pending[0]


alternative("level01.generate.generate_naive", "one_growing_tensor", program=_one_growing_tensor)
alternative("level01.generate.generate_naive", "live_lists", program=_live_lists)
alternative("level01.generate.prefill", "by_index", program=_by_index)
alternative("level01.generate.prefill", "recursive", program=_recursive)
alternative("level01.generate.decode_step", "everything_said", program=_step_with_everything_said)
alternative("level01.generate.decode_step", "as_a_prefill", program=_step_as_a_prefill)
alternative("level01.generate.stream", "prefill_before_the_loop", program=_prefill_before_the_loop)
alternative("level01.generate.stream", "feeds_what_is_pending", program=_feeds_what_is_not_fed_yet)
# ---- streaming


def _searches_the_whole_text(self, piece):
    """Keeps all text and searches it anew for every piece, backwards from the end for what to hold."""
    if self.stopped:
        return ""
    self.text, before = getattr(self, "text", "") + piece, getattr(self, "shown", 0)
    places = sorted((at + len(stop), at) for stop in self.stops if (at := self.text.find(stop)) >= 0)
    self.stopped, end = bool(places), len(self.text)
    hold = max((n for stop in self.stops for n in range(1, len(stop)) if self.text.endswith(stop[:n])), default=0)
    self.shown = places[0][1] if places else end - hold
    self.held = "" if places else self.text[self.shown :]
    return self.text[before : self.shown]


class _Automaton:
    """Letter by letter: how much of each stop string has been matched, from each place where it may have begun."""

    __module__, __qualname__ = "level01.streaming", "StopStrings"  # pickled as what it stands for

    def __init__(self, stops):
        self._stops = (stops,) if isinstance(stops, str) else tuple(stops)
        if not all(self._stops):
            raise ValueError("a stop string has at least one letter")
        self._tail, self._live, self._ended = [], [], False

    @property
    def stopped(self):
        return self._ended

    def feed(self, piece):
        shown = []
        for letter in piece:
            if self._ended:
                break
            self._tail.append(letter)
            grown = [(stop, n + 1) for stop, n in (*self._live, *((s, 0) for s in self._stops)) if stop[n] == letter]
            longest = max((n for stop, n in grown if n == len(stop)), default=0)
            self._live = [(stop, n) for stop, n in grown if n < len(stop)]
            keep = longest or max((n for _, n in self._live), default=0)
            shown += self._tail[: len(self._tail) - keep]
            self._tail = [] if longest else self._tail[len(self._tail) - keep :]
            self._ended = longest > 0
        return "".join(shown)

    def flush(self):
        rest = "".join(self._tail)
        self._tail.clear()
        return rest


def _by_regular_expressions(self, piece):
    """Patterns find whole stop strings, another one what begins at the end: the leftmost match is the longest."""
    import re

    if self.stopped or not self.stops:
        return "" if self.stopped else piece
    text, self.held = self.held + piece, ""
    matches = [found for stop in self.stops if (found := re.search(re.escape(stop), text))]
    if first := min(matches, key=lambda found: (found.end(), found.start()), default=None):
        self.stopped = True
        return text[: first.start()]
    nested = ["".join(f"(?:{re.escape(c)}" for c in stop[:-1]) + ")?" * (len(stop) - 1) for stop in self.stops]
    tail = re.search("|".join(rf"(?:{pattern})\Z" for pattern in nested), text)
    self.held = text[tail.start() :]
    return text[: tail.start()]


alternative("level01.streaming.StopStrings", "whole_text", part="StopStrings.feed", program=_searches_the_whole_text)
alternative("level01.streaming.StopStrings", "automaton", program=_Automaton)
alternative("level01.streaming.StopStrings", "patterns", part="StopStrings.feed", program=_by_regular_expressions)


def _by_iterdecode(chunks):
    from codecs import iterdecode

    return iterdecode(chunks, "utf-8", errors="replace")


def _by_the_table(chunks):
    """Table 3-7 of the Unicode standard, byte by byte: a surrogate's bytes are replaced with the second of them."""
    second = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
    code, missing, low, high = 0, 0, 0x80, 0xBF
    for chunk in chunks:
        text = ""
        for byte in chunk:
            if missing:
                if low <= byte <= high:
                    code, missing, low, high = code << 6 | byte & 0x3F, missing - 1, 0x80, 0xBF
                    text += "" if missing else chr(code)
                    continue
                text, missing = text + "\ufffd", 0
            if byte < 0x80:
                text += chr(byte)
            elif 0xC2 <= byte <= 0xF4:
                missing = 1 + (byte >= 0xE0) + (byte >= 0xF0)
                code = byte & (0x3F >> missing)
                low, high = second.get(byte, (0x80, 0xBF))
            else:
                text += "\ufffd"
        if text:
            yield text
    if missing:
        yield "\ufffd"


def _by_the_error(chunks):
    """The exception of a strict decoder says whether the end was unexpected."""
    rest = b""
    for chunk in chunks:
        rest, text = rest + chunk, ""
        while rest:
            try:
                text, rest = text + rest.decode(), b""
            except UnicodeDecodeError as error:
                text, rest = text + rest[: error.start].decode(), rest[error.start :]
                if error.reason == "unexpected end of data":
                    break
                text, rest = text + "\ufffd", rest[error.end - error.start :]
        if text:
            yield text
    if rest:
        yield rest.decode(errors="replace")


alternative("level01.streaming.utf8_pieces", "iterdecode", program=_by_iterdecode)
alternative("level01.streaming.utf8_pieces", "by_the_table", program=_by_the_table)
alternative("level01.streaming.utf8_pieces", "by_the_error", program=_by_the_error)

# ---- phases


def _cost_by_loops(config, q_len, cached_len, bytes_per_element=2, last_only=True):
    """Level 00's price of one token, for one query after the other; the head's is taken out where it is not wanted."""
    from level00.accounting import count_params, flops_per_token

    if q_len < 1 or cached_len < 0:
        raise ValueError("at least one token, behind none or more")
    steps = [flops_per_token(config, cached_len + i) for i in range(1, q_len + 1)]
    flops = sum(step["total"] for step in steps) - (q_len - 1) * steps[0]["lm_head"] * last_only
    counts = dict(count_params(config))
    del counts["total"]
    if not config.tie_embeddings:
        counts["embedding"] = q_len * config.d_model
    counts["cache"] = (cached_len + q_len) * config.n_layers * 2 * config.n_kv_heads * config.head_dim
    moved = sum(n * bytes_per_element for n in counts.values())
    return {"intensity": flops / moved, "bytes": moved, "flops": flops}


def _cost_by_shapes(config, q_len, cached_len, bytes_per_element=2, last_only=True):
    """From the list of shapes, in floats, as in a spreadsheet."""
    from dojo.models import shapes

    if q_len < 1 or cached_len < 0:
        raise ValueError("at least one token, behind none or more")
    flops = reads = 0.0
    for name, shape in shapes(config).items():
        rows, columns = shape if len(shape) == 2 else (1, shape[0])
        if "embed_tokens" in name or name == "lm_head.weight":
            logits = config.tie_embeddings or name == "lm_head.weight"
            flops += logits * 2.0 * rows * columns * (1 if last_only else q_len)
            rows = rows if logits else q_len
        elif len(shape) == 2:
            flops += 2.0 * rows * columns * q_len
        reads += rows * columns
    keys = (cached_len + 1 + cached_len + q_len) / 2 * q_len
    flops += config.n_layers * config.n_heads * config.head_dim * 4 * keys
    cache = (cached_len + q_len) * config.n_layers * config.n_kv_heads * config.head_dim * 2
    moved = (reads + cache) * bytes_per_element
    return {"flops": flops, "bytes": moved, "intensity": flops / moved}


alternative(
    "level01.phases.cached_token_count",
    "sum_of_a_range",
    part="naive_token_count",
    program=lambda prompt_len, new_tokens: sum(range(prompt_len, prompt_len + new_tokens)),
)
alternative(
    "level01.phases.cached_token_count",
    "gauss",
    part="naive_token_count",
    program=lambda prompt_len, new_tokens: new_tokens * (2 * prompt_len + new_tokens - 1) // 2,
)
alternative(
    "level01.phases.cached_token_count",
    "by_passes",
    program=lambda prompt_len, new_tokens: sum(prompt_len if step == 0 else 1 for step in range(new_tokens)),
)
alternative("level01.phases.phase_cost", "token_by_token", program=_cost_by_loops)
alternative("level01.phases.phase_cost", "shapes", program=_cost_by_shapes)

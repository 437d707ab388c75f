"""Right programs, written another way, for level08.draft. `alternative` is given when this is read."""

import torch

# ---- ngram_draft


def _checked(k, max_ngram, min_ngram):
    if not 1 <= min_ngram <= max_ngram or k < 1:
        raise ValueError("at least 1 token, and n from 1 up, small to large")


def _table(tokens, k, max_ngram=3, min_ngram=1):
    """Where each n-gram stood last, in a dict; the text's own end is not in it."""
    _checked(k, max_ngram, min_ngram)
    for n in range(max_ngram, min_ngram - 1, -1):
        if n >= len(tokens):
            continue
        last = {tuple(tokens[i : i + n]): i + n for i in range(len(tokens) - n)}
        if (at := last.get(tuple(tokens[-n:]))) is not None:
            return list(tokens[at : at + k])
    return []


def _windows(tokens, k, max_ngram=3, min_ngram=1):
    """torch's windows over the text, all compared at once."""
    _checked(k, max_ngram, min_ngram)
    text = torch.tensor(list(tokens), dtype=torch.int64)
    for n in reversed(range(min_ngram, max_ngram + 1)):
        if n < len(text):
            windows = text[:-1].unfold(0, n, 1)
            places = (windows == text[-n:]).all(1).nonzero().flatten()
            if len(places):
                start = int(places[-1]) + n
                return text[start : start + k].tolist()
    return []


def _one_walk(tokens, k, max_ngram=3, min_ngram=1):
    """Once through all ends: how many tokens before each are the last ones? The most wins, then the latest."""
    _checked(k, max_ngram, min_ngram)
    tokens, best = list(tokens), (min_ngram - 1, 0)
    for end in range(1, len(tokens)):
        n = 0
        while n < min(max_ngram, end) and tokens[end - 1 - n] == tokens[-1 - n]:
            n += 1
        if n >= min_ngram:
            best = max(best, (n, end))
    return tokens[best[1] : best[1] + k] if best[1] else []


def _recursive(tokens, k, max_ngram=3, min_ngram=1):
    """The longest, or else what a shorter one finds."""
    _checked(k, max_ngram, min_ngram)
    text, n = tuple(tokens), max_ngram
    starts = [i for i in range(len(text) - n) if text[i : i + n] == text[len(text) - n :]]
    if starts:
        return [*text[starts[-1] + n :][:k]]
    return _recursive(text, k, n - 1, min_ngram) if n > min_ngram else []


for program in (_table, _windows, _one_walk, _recursive):
    alternative("level08.draft.ngram_draft", program.__name__[1:], program=program)

# ---- ModelDrafter


def _guarded(tokens, config, k):
    if not tokens:
        raise ValueError("a draft follows at least one token")
    return min(k, config.max_seq_len - len(tokens) + 1)


class _Rows:
    """It asks the cache how much there is, and keeps the tokens in a tuple. The first pass before the loop."""

    def __init__(self, params, config, *, forward=None):
        from level00 import transformer
        from level01.simple_cache import SimpleCache

        self._model = forward or transformer.forward
        self._args, self._known, self._kv = (params, config), (), SimpleCache(config.n_layers)

    def _after(self, tokens):
        ids = torch.tensor(tokens).unsqueeze(0)
        self._known += tuple(tokens)
        try:
            return int(self._model(*self._args, ids, self._kv)[:, -1].argmax(-1))
        except ValueError:
            self._known = self._known[: self._kv.length]
            raise

    def propose(self, tokens, k):
        if (k := _guarded(tokens, self._args[1], k)) < 1:
            return []
        n = 0
        while n < min(len(self._known), len(tokens) - 1) and self._known[n] == tokens[n]:
            n += 1
        self._known = self._known[:n]
        self._kv.truncate(n)
        draft = [self._after(list(tokens[n:]))]
        for _ in range(1, k):
            draft.append(self._after([draft[-1]]))
        return draft


class _FixedRoom:
    """Level 02's cache, with its room taken at once, and level 01's loop for the proposals."""

    def __init__(self, params, config, *, forward=None):
        from level00 import transformer

        self.params, self.config, self.forward = params, config, forward or transformer.forward
        self.cache, self.held = None, []

    def propose(self, tokens, k):
        from level01.generate import stream
        from level02.cache import KVCache

        if (k := _guarded(tokens, self.config, k)) < 1:
            return []
        if self.cache is None:
            dtype = self.params["model.norm.weight"].dtype
            self.cache = KVCache(self.config, 1, self.config.max_seq_len, dtype=dtype)
        same = 0
        for mine, theirs in zip(self.held, tokens[:-1]):
            if mine != theirs:
                break
            same += 1
        self.cache.truncate(same)
        self.held = self.held[:same]
        config = self.config.__class__(**{**vars(self.config), "max_seq_len": self.config.max_seq_len + 1})
        draft = list(stream(self.params, config, tokens[same:], k, (), self.cache, forward=self.as_it_is))
        self.held = [*tokens, *draft[:-1]]
        return draft

    def as_it_is(self, params, config, *args, **more):
        return self.forward(params, self.config, *args, **more)


class _Patient:
    """A new cache after every cut: the rows that stay are put into it."""

    def __init__(self, params, config, *, forward=None):
        from level00 import transformer

        self.run = lambda ids, cache: (forward or transformer.forward)(params, config, torch.tensor([ids]), cache)
        self.config, self.texts, self.rows = config, [], None

    def propose(self, tokens, k):
        from level01.simple_cache import SimpleCache

        if (k := _guarded(tokens, self.config, k)) < 1:
            return []
        limit = len(tokens) - 1
        same = max((n for n in range(limit + 1) if self.texts[:n] == [*tokens[:n]]), default=0)
        cache = SimpleCache(self.config.n_layers)
        if same:
            for layer, (keys, values) in enumerate(self.rows):
                cache.update(layer, keys[:, :, :same], values[:, :, :same])
        feed, draft = list(tokens[same:]), []
        while True:
            draft.append(self.run(feed, cache)[0, -1].max(-1).indices.item())
            if len(draft) == k:
                break
            feed = [draft[-1]]
        self.texts = [*tokens, *draft][:-1]
        empty = self.run_nothing(cache)
        self.rows = empty
        return draft

    def run_nothing(self, cache):
        """What each layer holds: an update with no tokens gives all of them."""
        first = cache.keys[0][:, :, :0]
        return [cache.update(layer, first, first) for layer in range(self.config.n_layers)]


for program in (_Rows, _FixedRoom, _Patient):
    alternative("level08.draft.ModelDrafter", program.__name__[1:].lower(), program=program)

alternative(
    "level08.draft.ModelDrafter",
    "cuts_what_it_remembers_by_the_cache",
    change=[
        ("        same = common(self.cached, tokens[:-1])\n", "        del self.cached[self.cache.length :]\n"
         "        same = common(self.cached, tokens[:-1])\n"),
        ("        del self.cached[same:]  # now: forward may refuse the rest\n", ""),
    ],
)  # fmt: skip
alternative(
    "level08.draft.ModelDrafter",
    "cuts_only_what_is_there",
    change=("        self.cache.truncate(same)\n", "        if same < self.cache.length:\n            self.cache.truncate(same)\n"),
)  # fmt: skip

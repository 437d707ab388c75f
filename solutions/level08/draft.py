"""Where drafts come from. A drafter is a function propose(tokens, k): up to k tokens that may follow these.

It may be wrong at no cost but time: what it proposes changes how many passes the target needs, never what comes out.
"""

from collections.abc import Callable, Sequence

import torch

from dojo.models import Config
from level00.transformer import Params, forward
from level01.simple_cache import SimpleCache
from level06.radix import common


def ngram_draft(tokens: Sequence[int], k: int, max_ngram: int = 3, min_ngram: int = 1) -> list[int]:
    """Return up to k tokens that followed an earlier occurrence of the last n tokens; [] when there is none.

    k                     at least 1
    max_ngram, min_ngram  n is tried from max_ngram down to min_ngram; the first n with an occurrence decides

    Of several occurrences the latest counts. It must end before the last token, but may overlap the last n tokens;
    the draft is cut where the tokens end.
    Example: tokens 1 2 3 4 1 2: the last two stood at the beginning, so k = 3 gives [3, 4, 1].
    ValueError: k below 1, not 1 <= min_ngram <= max_ngram. Prompt lookup decoding; LLMA, arXiv 2304.04487.

    ●● · about 6 lines
    """
    if not 1 <= min_ngram <= max_ngram or k < 1:
        raise ValueError(f"k = {k} and n = {min_ngram}..{max_ngram}: at least 1 token, and n from 1 up, small to large")
    # solution:begin the longest first, and of each the latest first
    tokens = list(tokens)
    for n in range(min(max_ngram, len(tokens) - 1), min_ngram - 1, -1):
        for start in range(len(tokens) - n - 1, -1, -1):
            if tokens[start : start + n] == tokens[-n:]:
                return tokens[start + n : start + n + k]
    return []
    # solution:end


class ModelDrafter:
    """Drafts with a model of its own, smaller than the target, one greedy token after the other.

    propose(tokens, k)  up to k tokens: each is the most likely one after `tokens` and those proposed before it. Fewer
                        where the model's max_seq_len comes first; [] for k below 1

    Its cache is kept from call to call. Of what earlier calls have run, tokens and proposals alike, the longest common
    beginning with `tokens` is not run again; the rest is cut off. `tokens` may be any text, also a shorter one or
    another. The last token always runs: its logits are needed. The last proposal of a call is not run in it. So k
    proposals take k passes, the first over all tokens that have to run.
    Example: propose([5, 9], 2) runs 5 and 9, then its first proposal a, and returns [a, b]. Then propose([5, 9, a, c],
    2) runs c and its own next token: 5, 9 and a are there.
    ValueError: no tokens, or an id outside the model's vocabulary (as forward); later calls are none the worse for it.

    ●●● · about 10 lines
    """

    def __init__(self, params: Params, config: Config, *, forward: Callable = forward):
        self.params, self.config, self.forward = params, config, forward
        self.cache = SimpleCache(config.n_layers)
        # solution:begin what has to be remembered beside the cache?
        self.cached: list[int] = []  # the tokens whose keys and values are there
        # solution:end

    def propose(self, tokens: Sequence[int], k: int) -> list[int]:
        if not tokens:
            raise ValueError("there is nothing to go on from: a draft follows at least one token")
        k = min(k, self.config.max_seq_len - len(tokens) + 1)
        if k < 1:
            return []
        # solution:begin what of the cache still belongs to these tokens? then the small model's own greedy loop
        same = common(self.cached, tokens[:-1])
        self.cache.truncate(same)
        del self.cached[same:]  # now: forward may refuse the rest
        draft, feed = [], list(tokens[same:])
        while len(draft) < k:
            logits = self.forward(self.params, self.config, torch.tensor([feed]), self.cache)
            draft.append(int(logits[0, -1].argmax()))
            feed = draft[-1:]
        self.cached = [*tokens, *draft[:-1]]
        return draft
        # solution:end

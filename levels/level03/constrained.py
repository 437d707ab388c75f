"""Text that must match a pattern: which tokens may come next, so that it still can?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from level00.tokenizer import SmolTokenizer
from level01.generate import Choose

from .automaton import DFA


def walk(dfa: DFA, state: int, text: str) -> int | None:
    """Return the state after reading all of `text` from `state`, or None where an edge is missing.

    Example: over a*b, from the start: "aab" -> the accepting state, "ba" -> None, "" -> the start.

    ● · about 4 lines · part of allowed_tokens
    """
    # TODO: one character after the other, until it is over or fails
    raise NotImplementedError("level03.constrained.allowed_tokens")


def live_states(dfa: DFA) -> set[int]:
    """Return the states from which an accepting state can be reached; an accepting one is live itself.

    Example: edges 0 -a-> 1, 1 -b-> 2, 0 -x-> 3, accepting 2 -> {0, 1, 2}: from 3 there is no way out.

    ●● · about 6 lines · part of allowed_tokens
    """
    # TODO: from the accepting states backwards, until nothing new is found
    raise NotImplementedError("level03.constrained.allowed_tokens")


def allowed_tokens(dfa: DFA, state: int, vocab: Sequence[str], eos_id: int) -> Tensor:
    """Return which tokens may come next, (V,) bool: those after which the text can still be completed.

    vocab   the text of each token, V entries; "" for what has none of its own (control tokens, half characters)
    eos_id  the token that ends the text, allowed exactly where the text is complete; its vocab entry is not read

    A token is read as a whole, whatever its length. One without text is refused: it would make no progress. Where
    there is a way out is found once, not for each of 50,000 tokens.
    Example: over -?(0|[1-9][0-9]*), at the start: "-", "12" and "-1" may come, "01", "1a" and eos may not.

    ●●● · about 4 lines
    """
    # TODO: walk through each token: does it arrive, and is that a place with a way out?
    raise NotImplementedError("level03.constrained.allowed_tokens")


def token_texts(tokenizer: SmolTokenizer) -> list[str]:
    """The text of each token; "" for control tokens, and for those that hold part of a character only."""
    texts = [tokenizer.token_bytes(token).decode("utf-8", errors="replace") for token in range(tokenizer.vocab_size)]
    control = set(tokenizer.special.values())
    return ["" if token in control or "\ufffd" in text else text for token, text in enumerate(texts)]


def constrain(logits: Tensor, mask: Tensor) -> Tensor:
    """The logits (..., V) with -inf where the mask (V,) is False. ValueError: the mask allows nothing."""
    if not mask.any():
        raise ValueError("the pattern allows no token here: nothing in this vocabulary can go on")
    return logits.masked_fill(~mask, -torch.inf)


class Constrained:
    """A `choose` whose outputs match a pattern, for level 01's loops: it masks the logits, then asks another `choose`.

    The mask of a state is computed once: 49,152 tokens are walked through, and most texts visit few states.
    """

    def __init__(self, choose: Choose, dfa: DFA, vocab: Sequence[str], eos_id: int):
        self.choose, self.dfa, self.vocab, self.eos_id = choose, dfa, vocab, eos_id
        self.masks: dict[int, Tensor] = {}

    def mask(self, output: Sequence[int]) -> Tensor:
        """What may follow these tokens; after the end, only the end."""
        text = "".join(self.vocab[token] for token in output if token != self.eos_id)
        state = walk(self.dfa, self.dfa.start, text)
        if state not in self.masks:
            self.masks[state] = allowed_tokens(self.dfa, state, self.vocab, self.eos_id)
        return self.masks[state]

    def __call__(self, logits: Tensor, prompt_ids: list[list[int]], output_ids: list[list[int]]) -> Tensor:
        rows = [constrain(row, self.mask(output)) for row, output in zip(logits, output_ids)]
        return self.choose(torch.stack(rows), prompt_ids, output_ids)

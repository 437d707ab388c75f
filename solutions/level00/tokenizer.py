"""Text to token ids and back with the vocabulary of a real model. This module is given: it runs on your `apply_merges`.

What BPE alone does not say, and a model's file does: where text is cut before any merge, which id each byte has, and
which ids are control tokens. The rules here are SmolLM2's, those of GPT-2 with every digit on its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import regex  # the standard library's re has no \p{L}

from .bpe import apply_merges

SYSTEM_PROMPT = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"

# No merge crosses the border of a piece. Numerals are cut out first and GPT-2's pattern sees what lies between them,
# so a numeral ends a run of spaces as the end of the text does: "a  1" gives "a", "  ", "1".
PIECE = regex.compile(
    r"""\p{N}                             # one numeral, alone
      | '(?:s|t|re|ve|m|ll|d)             # English contractions
      | [ ]?\p{L}+                        # a word, with the space before it
      | [ ]?[^\s\p{L}\p{N}]+              # punctuation and symbols, likewise
      | \s+(?![^\s\p{N}])                 # spaces, without the last one when a word or a symbol follows
      | \s+""",
    regex.VERBOSE,
)


def byte_symbols() -> list[str]:
    """The character that stands for each byte in the vocabulary file (GPT-2's table): 256 strings of length 1.

    Printable bytes stand for themselves; the others get the characters from U+0100 on, so a space is "Ġ" (U+0120).
    """
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


class SmolTokenizer:
    """A byte-level BPE tokenizer: text <-> token ids.

    tokens   text of every id, written in `byte_symbols`; control tokens in plain text
    merges   "left right" in the order learnt; the ids of the results increase with that order
    special  control tokens, text -> id; <|im_start|>, <|im_end|> and <|endoftext|> must be among them

    vocab_size  number of ids;  eos_id  the id that ends a turn, <|im_end|>
    """

    def __init__(self, tokens: Sequence[str], merges: Iterable[str], special: Mapping[str, int]):
        self.special = dict(special)
        self.vocab_size = len(tokens)
        self.eos_id = self.special["<|im_end|>"]
        ids = {token: i for i, token in enumerate(tokens)}
        symbols = byte_symbols()
        # 21 bytes have no token of their own, most of them never part of UTF-8: they become <|endoftext|>, id 0
        self._byte_ids = [ids.get(symbol, self.special["<|endoftext|>"]) for symbol in symbols]
        parts = (merge.split(" ") for merge in merges)
        self._merges = {(ids[left], ids[right]): ids[left + right] for left, right in parts}
        byte_of = {symbol: byte for byte, symbol in enumerate(symbols)}
        control = set(self.special.values())
        self._bytes = [
            token.encode("utf-8") if i in control else bytes(byte_of[symbol] for symbol in token)
            for i, token in enumerate(tokens)
        ]
        # words repeat: most pieces of a text are found here. Bounded, since a server never stops reading new ones
        self._ids_of_piece = lru_cache(maxsize=1 << 14)(self._merge_piece)

    @classmethod
    def from_model(cls, tokenizer_data: Mapping) -> "SmolTokenizer":
        """The tokenizer of a model: the third value that `dojo.models.load()` returns."""
        return cls(tokenizer_data["tokens"], tokenizer_data["merges"], tokenizer_data["special"])

    def _merge_piece(self, piece: str) -> tuple[int, ...]:
        return tuple(apply_merges([self._byte_ids[byte] for byte in piece.encode("utf-8")], self._merges))

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`. Nothing in it is special: "<|im_end|>" typed by a user is ten plain characters.

        ValueError: a lone surrogate, which no UTF-8 text holds.
        """
        return [i for piece in PIECE.findall(text) for i in self._ids_of_piece(piece)]

    def token_bytes(self, id: int) -> bytes:
        """The bytes that one token spells: a character may be spread over several, so a stream joins these first."""
        if not 0 <= id < self.vocab_size:
            raise ValueError(f"id {id} is not in the vocabulary: ids lie in 0..{self.vocab_size - 1}")
        return self._bytes[id]

    def decode(self, ids: Iterable[int]) -> str:
        """The text that `ids` spell; control tokens appear as their text, bytes that are not UTF-8 as U+FFFD.

        ValueError: an id outside the vocabulary.
        """
        # subtle: join first, decode once; a character may be spread over several tokens
        return b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of a conversation in ChatML, the model's template, up to the point where the assistant speaks.

        messages  [{"role": "system" | "user" | "assistant", "content": text}, ...], the oldest first

        A conversation that does not start with a system message gets SYSTEM_PROMPT as its first one.
        ValueError: no message, or one without a role or content.
        """
        if not messages or not all({"role", "content"} <= set(message) for message in messages):
            raise ValueError('a conversation is a list of at least one {"role": ..., "content": ...}')
        if messages[0]["role"] != "system":
            messages = [{"role": "system", "content": SYSTEM_PROMPT}, *messages]
        start, end, newline = self.special["<|im_start|>"], self.special["<|im_end|>"], self.encode("\n")
        ids = []
        for message in messages:
            # subtle: only the frame is made of control tokens; a message cannot close itself and speak as another role
            ids += [start, *self.encode(f"{message['role']}\n{message['content']}"), end, *newline]
        return [*ids, start, *self.encode("assistant\n")]

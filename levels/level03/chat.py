"""A conversation with SmolLM2: what the levels so far have made, put together. Given; `nox -s chat` runs it.

forward and tokenizer come from level 00, the loop, UTF-8 and stop strings from level 01, the cache from level 02, and
the sampler from this one.
"""

from collections.abc import Iterator
from time import perf_counter

from dojo.cost import count
from level00.tokenizer import SmolTokenizer
from level00.transformer import forward
from level01.generate import decode_step, stream
from level01.phases import phase_cost
from level01.streaming import StopStrings, utf8_pieces
from level02.cache import KVCache

from .sampler import SamplingParams, chooser

PARTS = {"forward": "level00", "loop": "level01", "cache": "level02", "sampler": "level03"}


class Conversation:
    """Messages, and the keys and values of all their tokens, so that a new message costs its own tokens only.

    model     (config, params, tokenizer data), as dojo.models.load gives it
    room      tokens of the whole conversation, answers included
    sampling  fields of SamplingParams
    """

    forward = staticmethod(forward)  # later levels put other parts in here, and in new_cache

    def __init__(self, model, room: int = 2048, **sampling):
        self.config, self.params, data = model
        self.tokenizer = SmolTokenizer.from_model(data)
        self.sampling, self.room = SamplingParams(**sampling), min(room, self.config.max_seq_len)
        self.cache = self.new_cache()
        self.clear()

    def new_cache(self):
        return KVCache(self.config, 1, self.room)

    def clear(self) -> None:
        """Start a new conversation."""
        self.messages: list[dict[str, str]] = []
        self.ids: list[int] = []  # of the conversation; the cache holds the first cache.length of them
        self.times: list[float] = []  # when each token of the last answer was known
        self.cache.truncate(0)

    def answer(self, text: str) -> Iterator[str]:
        """Yield the answer to `text` in pieces, as they become known. ValueError: it does not fit into the room."""
        messages = [*self.messages, {"role": "user", "content": text}]
        prompt = self.tokenizer.encode_chat(messages)
        left = self.room - len(prompt)
        if left < 1:
            raise ValueError(f"{len(prompt)} tokens do not fit into a conversation of {self.room}: start a new one")
        # what is cached stays, as far as the conversation still begins with it; one token must run to get logits
        same = next((i for i, (a, b) in enumerate(zip(self.ids, prompt)) if a != b), len(self.ids))
        held = min(same, self.cache.length, len(prompt) - 1)
        self.cache.truncate(held)
        self.ids, self.times, said = list(prompt), [], ""
        stops = StopStrings(self.sampling.stop)
        for piece in utf8_pieces(self._chunks(prompt[held:], min(left, self.sampling.max_tokens))):
            shown = stops.feed(piece)
            said += shown
            self.messages = [*messages, {"role": "assistant", "content": said}]  # now: a reader may break off
            yield shown
            if stops.stopped:
                return
        self.messages = [*messages, {"role": "assistant", "content": said + (rest := stops.flush())}]
        yield rest

    def _chunks(self, prompt: list[int], max_tokens: int) -> Iterator[bytes]:
        """The bytes of each new token but the one that ends the answer."""
        eos, seams = self.tokenizer.eos_id, {"choose": chooser(self.sampling), "forward": self.forward}
        for token in stream(self.params, self.config, prompt, max_tokens, {eos}, self.cache, **seams):
            self.times.append(perf_counter())
            self.ids.append(token)
            if token != eos:
                yield self.tokenizer.token_bytes(token)

    def bytes_per_token(self) -> tuple[float, float]:
        """(predicted, counted) bytes that move for one token behind those that are cached, in float32."""
        held = self.cache.length
        predicted = phase_cost(self.config, 1, held - 1, 4)["bytes"]
        self.cache.truncate(held - 1)
        token = self.ids[held - 1]
        counted = count(decode_step, self.params, self.config, token, self.cache, forward=self.forward).bytes
        return predicted, counted

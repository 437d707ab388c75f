"""From tokens to what a user may see: whole characters, and no part of a stop string."""

from collections.abc import Iterable, Iterator, Sequence


class StopStrings:
    """Cuts a stream of text before the first stop string in it, however the text is cut into pieces.

    feed(piece)  returns the text that may be shown now; "" once stopped
    stopped      True as soon as a stop string is complete
    flush()      at the end of the stream: what was held back and turned out to be innocent; "" once stopped

    Shown is all text before the stop string that is complete first; of two that end together, the one that begins
    earlier. Held back is the longest tail that is a beginning of some stop string, and no more.
    Example: stops ["END"]: feed("aE") -> "a", feed("Nx") -> "ENx"; feed("EN") -> "", feed("D!") -> "", stopped.
    ValueError: an empty stop string.

    ●●● · about 14 lines
    """

    def __init__(self, stops: Sequence[str]):
        self.stops = [stops] if isinstance(stops, str) else list(stops)
        if "" in self.stops:
            raise ValueError("a stop string is not empty: an empty one would end every answer before it begins")
        self.stopped = False
        self.held = ""  # text that may be the beginning of a stop string

    def feed(self, piece: str) -> str:
        # TODO: look for a whole stop string first, then for the beginning of one
        raise NotImplementedError("level01.streaming.StopStrings")

    def _begins_a_stop(self, tail: str) -> bool:
        return any(stop.startswith(tail) for stop in self.stops)

    def flush(self) -> str:
        # TODO: nothing more will come: was the tail a stop string?
        raise NotImplementedError("level01.streaming.StopStrings")


def utf8_pieces(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of a stream of bytes, as early as possible, without ever splitting a character.

    A character that is incomplete at the end of a chunk is held until its last byte has come. A byte that can't
    become UTF-8 any more gives U+FFFD at once (behind ED, a byte A0..BF may wait for one more); an incomplete
    character at the end of the stream gives one too. How many U+FFFD: as bytes.decode("utf-8", "replace").
    Never yields "". One yield for a chunk, and at most one after the last.
    Example: [b"a\\xe2", b"\\x82", b"\\xacb"] -> "a", "€b".

    ●● · about 8 lines
    """
    # TODO: what does an incremental decoder keep, and when does it give up?
    raise NotImplementedError("level01.streaming.utf8_pieces")

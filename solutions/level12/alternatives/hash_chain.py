"""Right programs, written another way, for level12.hash_chain. `alternative` is given when this is read."""

import hashlib
import struct
from itertools import pairwise


def _check(tokens):
    if any(token < 0 or token >= 2**32 for token in tokens):
        raise ValueError("no id")


def _packed(parent, tokens, extra=b""):
    _check(tokens)
    head = b"first" if parent is None else b"other" + parent
    return hashlib.sha256(struct.pack(f">Q{len(tokens)}I", len(tokens), *tokens) + head + extra).digest()


def _as_text(parent, tokens, extra=b""):
    _check(tokens)
    return hashlib.new("sha256", repr((parent, list(tokens), extra)).encode()).digest()


def _in_parts(parent, tokens, extra=b""):
    _check(tokens)
    digest = hashlib.sha256()
    digest.update(b"\0" * 32 if parent is None else parent)
    digest.update(len(extra).to_bytes(8, "big") + extra)
    for token in tokens:
        digest.update(b"%d," % token)
    return digest.digest()


def _recursive(tokens, block_size, salt=b"", known=()):
    from level12.hash_chain import hash_block

    if block_size < 1:
        raise ValueError("block size")
    done = len(known)
    if (done + 1) * block_size > len(tokens):
        return list(known)
    own = list(tokens[done * block_size : (done + 1) * block_size])
    key = hash_block(known[-1], own) if known else hash_block(None, own, salt)
    return _recursive(tokens, block_size, salt, [*known, key])


def _counted(tokens, block_size, salt=b"", known=()):
    from level12.hash_chain import hash_block

    if block_size < 1:
        raise ValueError("block size")
    found = [*known]
    parent, extra = (found[-1], b"") if found else (None, salt)
    while len(tokens) - len(found) * block_size >= block_size:
        at = len(found) * block_size
        parent = hash_block(parent, tuple(tokens[at : at + block_size]), extra)
        found += [parent]
        extra = b""
    return found


def _by_edges(tokens, block_size, salt=b"", known=()):
    from level12.hash_chain import hash_block

    if block_size < 1:
        raise ValueError("block size")
    keys = {-1: None} | dict(enumerate(known))
    edges = list(pairwise(range(0, len(tokens) + 1, block_size)))
    for i, (a, b) in list(enumerate(edges))[len(known) :]:
        keys[i] = hash_block(keys[i - 1], tokens[a:b], b"" if i else salt)
    del keys[-1]
    return list(keys.values())


for _name, _program in {"packed": _packed, "as_text": _as_text, "in_parts": _in_parts}.items():
    alternative("level12.hash_chain.hash_full_blocks", _name, program=_program, part="hash_block")
for _name, _program in {"recursive": _recursive, "counted": _counted, "by_edges": _by_edges}.items():
    alternative("level12.hash_chain.hash_full_blocks", _name, program=_program)

"""Right programs, written another way, for level03.constrained. `alternative` is given when this is read."""

from functools import reduce

import torch


def _reduced(dfa, state, text):
    """One expression; None goes through."""
    return reduce(lambda at, char: at if at is None else dfa.step(at, char), text, state)


def _by_the_edges(dfa, state, text):
    """Looks the edges up itself, and stops at a KeyError."""
    try:
        for i in range(len(text)):
            state = dfa.edges[state, text[i] if text[i] in dfa.alphabet else "other"]
    except KeyError:
        return None
    return state


def _backwards_with_a_stack(dfa):
    """The edges turned around, then every state once."""
    before = {}
    for (source, _), target in dfa.edges.items():
        before.setdefault(target, set()).add(source)
    live, stack = set(), list(dfa.accepting)
    while stack:
        state = stack.pop()
        if state not in live:
            live.add(state)
            stack.extend(before.get(state, ()))
    return live


def _until_the_size_stays(dfa):
    """In place, over a list of the edges."""
    edges, live, size = [(source, dfa.edges[source, symbol]) for source, symbol in dfa.edges], {*dfa.accepting}, -1
    while size != len(live):
        size = len(live)
        for source, target in reversed(edges):
            if target in live:
                live.add(source)
    return live


def _distances(dfa):
    """The steps to the nearest accepting state, improved until they stand still."""
    far = dict.fromkeys(dfa.accepting, 0)
    while True:
        news = {
            s: far[t] + 1 for (s, _), t in dfa.edges.items() if t in far and far[t] + 1 < far.get(s, len(dfa.edges) + 1)
        }
        if not news:
            return set(far)
        far |= news


def _filled_in(dfa, state, vocab, eos_id):
    """A mask of zeros, set one by one; walks of its own."""
    from level03.constrained import live_states

    out, mask = live_states(dfa), torch.zeros(len(vocab), dtype=torch.bool)
    for i, text in enumerate(vocab):
        at = state
        for char in text:
            at = None if at is None else dfa.step(at, char)
        mask[i] = bool(text) and at is not None and at in out
    mask[eos_id] = state in dfa.accepting
    return mask


def _by_beginnings(dfa, state, vocab, eos_id):
    """Texts with a common beginning share its walk: where each beginning leads is kept."""
    from level03.constrained import live_states

    live, seen = live_states(dfa), {"": state}

    def where(text):
        for size in range(1, len(text) + 1):
            if text[:size] not in seen:
                before = seen[text[: size - 1]]
                seen[text[:size]] = None if before is None else dfa.step(before, text[size - 1])
        return seen[text]

    ids = [i for i, text in enumerate(vocab) if len(text) > 0 and i != eos_id and where(text) in live]
    ids += [eos_id] if state in dfa.accepting else []
    return torch.isin(torch.arange(len(vocab)), torch.tensor(ids, dtype=torch.long))


def _forwards_from_where_it_arrives(dfa, state, vocab, eos_id):
    """Without live_states: a search forwards, remembered for each state."""
    from level03.constrained import walk

    known = {None: False}

    def hopeful(start):
        if start not in known:
            reached, new = {start}, {start}
            while new:
                new = {target for (source, _), target in dfa.edges.items() if source in new} - reached
                reached |= new
            known[start] = not reached.isdisjoint(dfa.accepting)
        return known[start]

    may = (bool(text) and hopeful(walk(dfa, state, text)) for text in vocab)
    mask = [(state in dfa.accepting) if i == eos_id else yes for i, yes in enumerate(may)]
    return torch.tensor(mask, dtype=torch.bool)


ID = "level03.constrained.allowed_tokens"
alternative(ID, "reduced", program=_reduced, part="walk")
alternative(ID, "by_the_edges", program=_by_the_edges, part="walk")
alternative(ID, "backwards_with_a_stack", program=_backwards_with_a_stack, part="live_states")
alternative(ID, "until_the_size_stays", program=_until_the_size_stays, part="live_states")
alternative(ID, "distances", program=_distances, part="live_states")
alternative(ID, "filled_in", program=_filled_in)
alternative(ID, "by_beginnings", program=_by_beginnings)
alternative(ID, "forwards_from_where_it_arrives", program=_forwards_from_where_it_arrives)

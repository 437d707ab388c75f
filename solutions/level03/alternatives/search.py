"""Right programs, written another way, for level03.search. `alternative` is given when this is read."""

import heapq
import math

import torch


def _check(width, max_tokens, length_penalty):
    if width < 1 or max_tokens < 1 or length_penalty < 0:
        raise ValueError("no such search")


def _step_in_python(beams, logprobs, width, eos_id):
    """One list of all extensions; sorted is stable, so ties stay in the order of beams and ids."""
    extensions = [
        ((*tokens, token), score + x)
        for (tokens, score), row in zip(beams, logprobs.tolist())
        for token, x in enumerate(row)
        if x != -math.inf
    ]
    extensions = sorted(extensions, key=lambda text: text[1], reverse=True)
    ended = [text for text in extensions[:width] if text[0][-1] == eos_id]
    return [text for text in extensions if text[0][-1] != eos_id][:width], ended


def _step_without_the_end(beams, logprobs, width, eos_id):
    """The rest is searched in tensors of its own; an end is finished if fewer than `width` extensions beat it."""
    scores = logprobs.double().clone() + torch.tensor([score for _, score in beams], dtype=torch.float64).unsqueeze(1)
    order = scores.reshape(-1).argsort(stable=True, descending=True).tolist()
    vocab, flat = scores.shape[1], scores.reshape(-1).tolist()
    going_on, finished = [], []
    for rank, i in enumerate(order):
        beam, token = divmod(i, vocab)
        if flat[i] == -math.inf or len(going_on) == width and rank >= width:
            break
        text = (beams[beam][0] + (token,), flat[i])
        if token != eos_id and len(going_on) < width:
            going_on.append(text)
        elif token == eos_id and rank < width:
            finished.append(text)
    return going_on, finished


def _all_in_one(next_logprobs, width, max_tokens, eos_id, length_penalty=1.0, early_stopping=False):
    """Without beam_step: a heap of all extensions, and the complete ones as (−score, place, tokens)."""
    _check(width, max_tokens, length_penalty)
    beams, done, length = [(0.0, ())], [], 0
    while beams and length < max_tokens:
        rows = next_logprobs([tokens for _, tokens in beams]).tolist()
        length += 1
        candidates = [
            (-(score + x), place, token)
            for place, ((score, _), row) in enumerate(zip(beams, rows))
            for token, x in enumerate(row)
            if x > -math.inf
        ]
        parents, beams = beams, []
        for rank, (cost, place, token) in enumerate(heapq.nsmallest(2 * width, candidates)):
            tokens = (*parents[place][1], token)
            if token == eos_id and rank < width or length == max_tokens and token != eos_id:
                done.append((cost / length**length_penalty, len(done), tokens))
            elif token != eos_id and len(beams) < width:
                beams.append((-cost, tokens))
        done.sort()
        if len(done) >= width:
            hope = max((score for score, _ in beams), default=-math.inf) / max_tokens**length_penalty
            if early_stopping or hope <= -done[width - 1][0]:
                break
    return [(tokens, -cost) for cost, _, tokens in done[:width]]


def _keeps_the_best_only(next_logprobs, width, max_tokens, eos_id, length_penalty=1.0, early_stopping=False):
    """The complete ones are never more than `width`; a newer one is put behind those of the same score."""
    from level03.search import beam_step

    _check(width, max_tokens, length_penalty)
    kept, beams, length = [], [((), 0.0)], 0

    def keep(texts):
        for tokens, score in texts:
            value = score / math.pow(len(tokens), length_penalty)
            place = sum(other >= value for _, other in kept)
            kept.insert(place, (tokens, value))
        del kept[width:]

    while beams:
        asked = next_logprobs([*dict(beams)])
        beams, ended = beam_step(beams, asked, width, eos_id)
        length += 1
        keep(ended)
        if length == max_tokens:
            keep(beams)
            break
        if len(kept) == width and (
            early_stopping or not any(score / max_tokens**length_penalty > kept[-1][1] for _, score in beams)
        ):
            break
    return kept


alternative("level03.search.beam_search", "step_in_python", program=_step_in_python, part="beam_step")
alternative("level03.search.beam_search", "step_without_the_end", program=_step_without_the_end, part="beam_step")
alternative("level03.search.beam_search", "all_in_one", program=_all_in_one)
alternative("level03.search.beam_search", "keeps_the_best_only", program=_keeps_the_best_only)

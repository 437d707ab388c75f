"""Make, or check, the stored values of level 03's checkpoint: SmolLM2-135M under transformers' samplers and beams.

    python tools/oracles/level03.py [--check] [--gguf PATH]

Needs what level00.py needs. Logits, log-probabilities, warpers and beam searches are transformers'. It has no presence
and no frequency penalty: those are subtracted here. What a rounding of the logits could decide otherwise is refused:
a cut that comes within MARGIN of a token, a beam search that finds something else when every log-probability is moved
by up to MARGIN.
"""

import argparse
import json
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from level00 import ROOT, build_tokenizer, find_gguf, how, rounded

FOLDER = ROOT / "levels" / "level03" / "checkpoint"
MARGIN = 1e-3  # 20 times what another order of additions changes in a logit; for the mass of a nucleus a tenth of it
CUTS = {"capital": "The capital of France is", "the": "The"}
TEMPERATURES, TOP_PS = [1.0, 1.5], [0.5, 0.9, 0.99]  # the large nuclei are counted only, within 2%
TOP_KS, MIN_PS = {"capital": [10, 20], "the": [5, 50]}, [0.1, 0.02]
TEXT = "Row, row, row your boat, gently down the stream. Merrily, merrily, merrily, merrily, life is but a dream."
# a chain's rows are places in this text: the first half of what stands before is the prompt, the rest the output
PLACES = [7, 18, 24, 33]
CHAINS = {
    "repetition": {"repetition_penalty": 1.3, "temperature": 0.7, "top_k": 20},
    "truncated": {"temperature": 1.3, "top_k": 40, "top_p": 0.8, "min_p": 0.02},
    "all": {
        "repetition_penalty": 1.2,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.3,
        "temperature": 0.8,
        "top_k": 50,
        "top_p": 0.9,
        "min_p": 0.03,
    },
}
PENALTIES = {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.25}
BEAMS = {"prompt": "She opened the door and", "end": ".", "width": 4, "max_tokens": 8}
WORDS = ['{"ok": true}', '{"ok": false}', '{"ok": null}']
SEARCHES = [(1.0, True), (1.0, "never"), (2.0, True), (2.0, "never"), (0.0, True)]  # length_penalty, early_stopping


def compute(gguf_path: Path) -> dict:
    """What goes into the JSON."""
    import torch
    import transformers
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    tokenizer = build_tokenizer(gguf_path)
    eos = GGUFReader(gguf_path).fields["tokenizer.ggml.eos_token_id"].contents()
    model = AutoModelForCausalLM.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32).eval()

    def logits_of(ids: list[int]):
        with torch.no_grad():
            return model(torch.tensor([ids])).logits[0].float()  # (seq, vocab)

    cuts = {name: cuts_of(name, text, tokenizer, logits_of) for name, text in CUTS.items()}
    ids = tokenizer.encode(TEXT).ids
    logits = logits_of(ids)
    logprobs = logits[:-1].log_softmax(-1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    loss = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]))
    scored = {"text": TEXT, "ids": ids, "logprobs": rounded(logprobs), "mean_loss": round(loss.item(), 6)}
    return {
        "made": how(gguf_path) | {"by": "tools/oracles/level03.py"},
        "cuts": cuts,
        "text": scored,
        "places": PLACES,
        "penalties": penalized(PENALTIES, ids, logits),
        "chains": {name: chain(settings, ids, logits) for name, settings in CHAINS.items()},
        "beams": BEAMS | beams_of(model, tokenizer),
        "words": WORDS,
        "word": word_of(model, tokenizer, cuts["capital"]["ids"], int(eos)),
    }


def kept_in(scores) -> list[int]:
    return [i for i, z in enumerate(scores.tolist()) if z > float("-inf")]


def refuse_if(close: bool, what: str) -> None:
    if close:
        raise SystemExit(f"{what} is too close to call: take another one")


def cuts_of(name: str, text: str, tokenizer, logits_of) -> dict:
    """How many tokens each nucleus keeps, and which tokens the other two keep."""
    from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    ids = tokenizer.encode(text).ids
    logits = logits_of(ids)[-1:]
    best = logits[0].sort(descending=True).values
    sizes = []
    for temperature in TEMPERATURES:
        warmed = TemperatureLogitsWarper(temperature)(None, logits)
        sizes += [[temperature, p, len(kept_in(TopPLogitsWarper(p)(None, warmed)[0]))] for p in TOP_PS]
    top_k, min_p = [], []
    for k in TOP_KS[name]:
        refuse_if(best[k - 1] - best[k] < MARGIN, f"{name}: top-k {k}")
        top_k.append([k, kept_in(TopKLogitsWarper(k)(None, logits)[0])])
    for m in MIN_PS:
        refuse_if(((best - best[0]).exp() / m - 1).abs().min() < MARGIN, f"{name}: min-p {m}")
        min_p.append([m, kept_in(MinPLogitsWarper(m)(None, logits)[0])])
    return {"text": text, "ids": ids, "nucleus": sizes, "top_k": top_k, "min_p": min_p}


def histories(ids: list[int]):
    """(place, tokens seen, how often each has been made) for the row of each place."""
    for place in PLACES:
        yield place, ids[: place + 1], Counter(ids[(place + 1) // 2 : place + 1])


def penalized(settings: dict, ids: list[int], logits) -> dict:
    """The logits of the tokens that each row has seen, after its penalties; some of them are negative."""
    rows = []
    for place, seen, made in histories(ids):
        scores = logits[place : place + 1]
        for _, step in steps(settings, seen, made):
            scores = step(scores)
        rows.append({"seen": sorted(set(seen)), "logits": rounded(scores[0, sorted(set(seen))])})
    if not any(z < 0 for row in rows for z in row["logits"]):
        raise SystemExit("no token with a negative logit has been seen: take other places")
    return {"settings": settings, "rows": rows}


def chain(settings: dict, ids: list[int], logits) -> dict:
    """The tokens that are left at each place, and their logits, after the processors in this level's order."""
    rows = []
    for place, seen, made in histories(ids):
        scores = logits[place : place + 1]
        for name, step in steps(settings, seen, made):
            before, scores = scores, step(scores)
            refuse_if(close(name, settings.get(name), before[0], scores[0]), f"{name} of {settings} at place {place}")
        kept = kept_in(scores[0])
        rows.append({"kept": kept, "logits": rounded(scores[0, kept])})
    return {"settings": settings, "rows": rows}


def steps(settings: dict, seen: list[int], made: Counter):
    """(name, scores -> scores) of each processor."""
    import torch
    from transformers import (
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    def lowered(scores):
        scores = scores.clone()
        for token, count in made.items():
            scores[0, token] -= settings.get("presence_penalty", 0) + settings.get("frequency_penalty", 0) * count
        return scores

    if r := settings.get("repetition_penalty"):
        penalty = RepetitionPenaltyLogitsProcessor(r)
        yield "repetition_penalty", lambda scores: penalty(torch.tensor([seen]), scores.clone())
    yield "presence_penalty", lowered
    warpers = {
        "temperature": TemperatureLogitsWarper,
        "top_k": TopKLogitsWarper,
        "top_p": TopPLogitsWarper,
        "min_p": MinPLogitsWarper,
    }
    for name, warper in warpers.items():
        if name in settings:
            yield name, partial(warper(settings[name]), None)


def close(name: str, setting: float | None, before, after) -> bool:
    """Could a rounding of the logits let this step keep another set of tokens?"""
    probs = before.double().softmax(-1)
    if name == "top_p":
        return bool((probs.sort(descending=True).values.cumsum(-1) - setting).abs().min() < MARGIN / 10)
    if name == "min_p":
        return bool((probs / probs.max() / setting - 1).abs().min() < MARGIN)
    dropped = before[(after == float("-inf")) & (before > float("-inf"))]
    return len(dropped) > 0 and bool(after[after > float("-inf")].min() - dropped.max() < MARGIN)


def beams_of(model, tokenizer) -> dict:
    ids, [end] = tokenizer.encode(BEAMS["prompt"]).ids, tokenizer.encode(BEAMS["end"]).ids
    searches = []
    for length_penalty, early_stopping in SEARCHES:
        how_to = (model, ids, end, length_penalty, early_stopping)
        found = search(*how_to)
        for seed in range(5):
            moved = [tokens for tokens, _ in search(*how_to, seed)]
            refuse_if(moved != [tokens for tokens, _ in found], f"the search with {length_penalty}, {early_stopping}")
        scores = [score for _, score in found]
        margin = min(one - two for one, two in zip(scores, scores[1:]))
        searches.append(
            {
                "length_penalty": length_penalty,
                "early_stopping": early_stopping is True,
                "found": [[tokens, round(score, 5)] for tokens, score in found],
                "texts": [tokenizer.decode(tokens) for tokens, _ in found],
                "margin": round(margin, 4),
            }
        )
    return {"ids": ids, "eos_id": end, "searches": searches}


def search(model, ids: list[int], end: int, length_penalty: float, early_stopping, seed: int | None = None) -> list:
    """The hypotheses, best first; with a seed all log-probabilities are moved by up to MARGIN."""
    import torch
    from transformers import LogitsProcessorList

    generator = torch.Generator().manual_seed(seed or 0)

    def moved(input_ids, scores):
        return scores + MARGIN * (2 * torch.rand(scores.shape, generator=generator) - 1)

    made = model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        num_beams=BEAMS["width"],
        num_return_sequences=BEAMS["width"],
        max_new_tokens=BEAMS["max_tokens"],
        do_sample=False,
        eos_token_id=end,
        pad_token_id=0,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        return_dict_in_generate=True,
        output_scores=True,
        logits_processor=LogitsProcessorList([] if seed is None else [moved]),
    )
    rows = made.sequences[:, len(ids) :].tolist()
    rows = [row[: row.index(end) + 1] if end in row else row for row in rows]  # the rest is padding
    return list(zip(rows, made.sequences_scores.tolist()))


def word_of(model, tokenizer, ids: list[int], eos: int) -> dict:
    """The one of WORDS that greedy decoding spells after `ids`, when at each step only its possible tokens may come."""
    import torch

    texts = [tokenizer.decode([i], skip_special_tokens=False) for i in range(tokenizer.get_vocab_size())]

    def possible(_, tokens) -> list[int]:
        said = "".join(texts[i] for i in tokens[len(ids) :].tolist())
        if said in WORDS:
            return [eos]
        return [i for i, text in enumerate(texts) if text and any(word.startswith(said + text) for word in WORDS)]

    made = model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        do_sample=False,
        max_new_tokens=20,
        eos_token_id=eos,
        pad_token_id=eos,
        prefix_allowed_tokens_fn=possible,
        return_dict_in_generate=True,
        output_scores=True,
    )
    best, second = torch.cat(made.scores).topk(2).values.T  # -inf where only one token was possible
    margin = (best - second).min().item()
    refuse_if(margin < 100 * MARGIN, "the word")
    tokens = made.sequences[0, len(ids) :].tolist()
    return {"tokens": tokens, "text": tokenizer.decode(tokens, skip_special_tokens=False), "margin": round(margin, 3)}


def differences(new, old, where: str = "") -> list[str]:
    """Where the stored values say otherwise; floats may differ by 1e-3 and large nuclei by 1%, as on two machines."""
    if isinstance(new, dict) and isinstance(old, dict) and new.keys() == old.keys():
        return [line for key in new if key != "made" for line in differences(new[key], old[key], f"{where} {key}")]
    if isinstance(new, list | tuple) and isinstance(old, list) and len(new) == len(old):
        return [line for i, pair in enumerate(zip(new, old)) for line in differences(*pair, f"{where} {i}")]
    if isinstance(new, float) and isinstance(old, float | int):
        same = abs(new - old) <= 1e-3
    elif "nucleus" in where:
        same = abs(new - old) <= 0.01 * old
    else:
        same = new == old
    return [] if same else [f"{where.strip()}: {new} differs from {old}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    parser.add_argument("--gguf", type=Path, help="the model file; by default KATA_MODEL or the one in .venv")
    options = parser.parse_args()
    new = compute(options.gguf or find_gguf())
    if options.check:
        found = differences(new, json.loads((FOLDER / "smollm2.json").read_text(encoding="utf-8")))
        print("\n".join(found) or "the stored values of level 03 still hold")
        return 1 if found else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(new, ensure_ascii=True, indent=1)
    text = re.sub(r"\[[-\d.,\s]+\]", lambda numbers: re.sub(r"\s+", " ", numbers[0]), text)  # a list in one line
    (FOLDER / "smollm2.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    print(f"wrote smollm2.json to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

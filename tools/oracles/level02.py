"""Make, or check, the stored values of level 02's checkpoint: what transformers makes of SmolLM2-135M.

    python tools/oracles/level02.py [--check] [--gguf PATH]

Needs what level01.py needs. Every row of the batch is answered alone, by generate; its own left-padded batch must give
the same tokens, or the prompts are refused. The window is another model of the library: the same weights in Mistral's
class, whose layers look back `sliding_window` tokens. Nothing here shares code with the levels.
"""

import argparse
import json
import sys
from pathlib import Path

from level00 import ROOT, build_tokenizer, find_gguf, how, rounded

FOLDER = ROOT / "levels" / "level02" / "checkpoint"
MAX_TOKENS = 10
MARGIN = 0.1  # 2000 times what another order of additions changes in a logit
# the longest row ends first, with <|im_end|>; the shortest is one token behind 39 of padding
ROWS = {
    "letters": "A, B, C,",
    "question": [{"role": "user", "content": "What is the capital of France? One word."}],
    "the": "The",
}
WINDOW = 16
TEXT = (
    "A cache of sixteen tokens keeps what was said last. The beginning of this sentence is out of sight before its end "
    "is reached, and still the model goes on as if nothing had been lost."
)


def load(gguf_path: Path):
    """(the model, its tokenizer, the one that knows the chat template, the id that ends an answer)."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    fields = {name: field.contents() for name, field in GGUFReader(gguf_path).fields.items() if "tokenizer" in name}
    plain, chat = build_tokenizer(gguf_path), build_tokenizer(gguf_path)
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    chat.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == 3])  # 3 = control token
    chat = PreTrainedTokenizerFast(tokenizer_object=chat, chat_template=fields["tokenizer.chat_template"])
    model = AutoModelForCausalLM.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32)
    return model.eval(), plain, chat, int(fields["tokenizer.ggml.eos_token_id"])


def rows(model, plain, chat, eos: int) -> dict:
    """Each row's prompt, ids, answer and the least distance between its two best logits."""
    import torch

    def answer(ids, valid, **how):
        how |= {"do_sample": False, "max_new_tokens": MAX_TOKENS, "eos_token_id": eos, "pad_token_id": eos}
        return model.generate(torch.tensor(ids), attention_mask=torch.tensor(valid), **how)

    found = {}
    for name, text in ROWS.items():
        ids = plain.encode(text).ids if isinstance(text, str) else None
        ids = ids or chat.apply_chat_template(text, add_generation_prompt=True, return_dict=False)
        made = answer([ids], [[1] * len(ids)], return_dict_in_generate=True, output_logits=True)
        best, second = torch.cat(made.logits).topk(2).values.T  # (steps,) each
        margin = (best - second).min().item()
        if margin <= MARGIN:
            raise SystemExit(f"{name}: the two best logits come as close as {margin:.3f}; take another prompt")
        new = made.sequences[0, len(ids) :].tolist()
        text_of = plain.decode(new, skip_special_tokens=False)
        found[name] = {"prompt": text, "ids": ids, "answer": new, "text": text_of, "margin": round(margin, 3)}

    longest = max(len(row["ids"]) for row in found.values())
    missing = [longest - len(row["ids"]) for row in found.values()]
    padded = [[eos] * n + row["ids"] for n, row in zip(missing, found.values())]
    valid = [[0] * n + [1] * (longest - n) for n in missing]
    for (name, row), new in zip(found.items(), answer(padded, valid)[:, longest:].tolist()):
        if new[: len(row["answer"])] != row["answer"]:
            raise SystemExit(f"{name}: transformers' own batch gives {new}; take another prompt")
    return found


def windowed(model, plain) -> dict:
    """The text, and of each position's logits the largest and the log of the sum of their exponentials."""
    import torch
    from transformers import MistralConfig, MistralForCausalLM

    shared = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim")
    shared += ("num_key_value_heads", "rms_norm_eps", "max_position_embeddings", "tie_word_embeddings")
    about = {name: getattr(model.config, name) for name in shared} | {"rope_parameters": model.config.rope_parameters}
    mistral = MistralForCausalLM(MistralConfig(**about, sliding_window=WINDOW)).eval()
    mistral.load_state_dict(model.state_dict())
    ids = plain.encode(TEXT).ids
    with torch.no_grad():
        logits, all_seen = (m(torch.tensor([ids])).logits[0].float() for m in (mistral, model))  # (seq, vocab) each
    apart = (logits - all_seen).abs().amax(-1)
    if apart[:WINDOW].max() > 1e-3 or apart[WINDOW:].min() < 1e-2:
        raise SystemExit(f"the window is not the only difference between the two models: {apart.tolist()}")
    return {
        "window": WINDOW,
        "text": TEXT,
        "ids": ids,
        "top_logit": rounded(logits.amax(-1)),
        "logsumexp": rounded(logits.double().logsumexp(-1)),
    }


def compute(gguf_path: Path) -> dict:
    """What goes into the JSON."""
    import torch

    torch.set_num_threads(1)
    model, plain, chat, eos = load(gguf_path)
    made = how(gguf_path) | {"by": "tools/oracles/level02.py"}
    found = {"rows": rows(model, plain, chat, eos), "windowed": windowed(model, plain)}
    return {"made": made, "max_tokens": MAX_TOKENS} | found


def differences(new: dict) -> list[str]:
    """Sentences about what the stored file says otherwise; logits may differ by 1e-3 and margins by 0.01, as between
    two machines."""
    old = json.loads((FOLDER / "smollm2.json").read_text(encoding="utf-8"))
    found = [] if old["max_tokens"] == new["max_tokens"] else ["max_tokens differs"]
    if list(old["rows"]) != list(new["rows"]):
        return [*found, "there are other rows"]
    parts = {name: (old["rows"][name], new["rows"][name]) for name in new["rows"]}
    parts["windowed"] = old["windowed"], new["windowed"]
    loose = {"margin": 0.01, "top_logit": 1e-3, "logsumexp": 1e-3}
    for name, (stored, made) in parts.items():
        found += [f"{name}: {key} differs" for key in made if key not in loose and stored[key] != made[key]]
        for key in loose.keys() & made.keys():
            pairs = zip(*(part[key] if isinstance(part[key], list) else [part[key]] for part in (stored, made)))
            if max(abs(one - other) for one, other in pairs) > loose[key]:
                found.append(f"{name}: {key} differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    parser.add_argument("--gguf", type=Path, help="the model file; by default KATA_MODEL or the one in .venv")
    options = parser.parse_args()
    new = compute(options.gguf or find_gguf())
    if options.check:
        found = differences(new)
        print("\n".join(found) or "the stored values of level 02 still hold")
        return 1 if found else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(new, ensure_ascii=True, indent=1)
    (FOLDER / "smollm2.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    print(f"wrote smollm2.json to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

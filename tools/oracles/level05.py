"""Make, or check, the stored values of level 05's checkpoint: what transformers makes of SmolLM2-135M.

    python tools/oracles/level05.py [--check] [--gguf PATH]

Needs what level01.py needs. Every request is answered alone, by generate: an engine must give the same tokens whoever
else is served. Nothing here shares code with the levels.
"""

import argparse
import json
import sys
from pathlib import Path

from level00 import ROOT, find_gguf, how
from level02 import load

FOLDER = ROOT / "levels" / "level05" / "checkpoint"
MARGIN = 0.15  # 2000 times what another order of additions changes in a logit
# (prompt, max_tokens): lengths from one token to more than any budget of the checkpoint; one ends with <|im_end|>
REQUESTS = {
    "the": ("The", 6),
    "letters": ("A, B, C,", 10),
    "question": ([{"role": "user", "content": "What is the capital of France? One word."}], 12),
    "count": ("1, 2, 3, 4, 5, 6,", 12),
    "list": ("Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday, Monday, Tuesday,", 8),
}


def answers(model, plain, chat, eos: int) -> dict:
    """Each request's ids, answer, and the least distance between its two best logits."""
    import torch

    found = {}
    for name, (text, most) in REQUESTS.items():
        ids = plain.encode(text).ids if isinstance(text, str) else None
        ids = ids or chat.apply_chat_template(text, add_generation_prompt=True, return_dict=False)
        options = {"do_sample": False, "max_new_tokens": most, "eos_token_id": eos, "pad_token_id": eos}
        options |= {"return_dict_in_generate": True, "output_logits": True}
        made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), **options)
        best, second = torch.cat(made.logits).topk(2).values.T  # (steps,) each
        margin = (best - second).min().item()
        if margin <= MARGIN:
            raise SystemExit(f"{name}: the two best logits come as close as {margin:.3f}; take another prompt")
        new = made.sequences[0, len(ids) :].tolist()
        said = plain.decode(new, skip_special_tokens=False)
        found[name] = {"prompt": text, "ids": ids, "max_tokens": most, "answer": new, "text": said}
        found[name]["margin"] = round(margin, 3)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the stored file; exit 1 if it differs")
    parser.add_argument("--gguf", type=Path, help="the GGUF file, if it is not in this Python's packages")
    args = parser.parse_args()
    gguf_path = args.gguf or find_gguf()
    made = {"made": how(gguf_path) | {"by": "tools/oracles/level05.py"}, "requests": answers(*load(gguf_path))}
    path = FOLDER / "smollm2.json"
    if args.check:
        stored = json.loads(path.read_text(encoding="utf-8"))
        exact = ("ids", "max_tokens", "answer")
        same = all(stored["requests"][name][key] == one[key] for name, one in made["requests"].items() for key in exact)
        print("the stored values are what transformers makes" if same else "the stored values differ")
        sys.exit(0 if same else 1)
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()

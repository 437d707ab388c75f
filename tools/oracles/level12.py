"""Make, or check, the stored values of level 12's checkpoint: what transformers makes of SmolLM2-135M.

    python tools/oracles/level12.py [--check] [--gguf PATH]

Needs what level01.py needs. Four prompts have their first 96 tokens in common; each is answered alone, by generate.
"""

import argparse
import json
import sys
from pathlib import Path

from level00 import ROOT, find_gguf, how
from level02 import load

PATH = ROOT / "levels" / "level12" / "checkpoint" / "smollm2.json"
MARGIN = 0.02  # 250 times what another order of additions changes in a logit
SHARED, OWN, MAX_TOKENS = 96, 10, 24
SYSTEM = (
    "You are a guide in a small museum of clocks. The oldest clock in it was made in 1656 for a ship, and it stopped "
    "in a storm. The largest one stands in the hall and strikes every hour, except on Sundays, when the neighbours "
    "sleep. Answer every question of the visitors in one short sentence. Never speak of prices. If you do not know "
    "something, say that you will ask the clockmaker, who comes on Tuesdays and on Fridays after lunch, and sometimes "
    "on other days as well."
)
QUESTIONS = (
    "\nQuestion: Which clock is the oldest?\nAnswer:",
    "\nQuestion: When does the large clock strike?\nAnswer:",
    "\nQuestion: How much does a clock cost here?\nAnswer:",
    "\nQuestion: Who repairs all of the clocks?\nAnswer:",
)


def answers(model, plain) -> list[dict]:
    """Of each prompt: ids, answer, and the least distance between its two best logits."""
    import torch

    shared, found = plain.encode(SYSTEM).ids[:SHARED], []
    for question in QUESTIONS:
        ids = shared + plain.encode(question).ids[-OWN:]
        options = {"do_sample": False, "max_new_tokens": MAX_TOKENS, "eos_token_id": None, "pad_token_id": 0}
        options |= {"return_dict_in_generate": True, "output_logits": True}
        made = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), **options)
        best, second = torch.cat(made.logits).topk(2).values.T  # (steps,) each
        margin = (best - second).min().item()
        if margin <= MARGIN or len(ids) != SHARED + OWN:
            raise SystemExit(f"{question!r}: {len(ids)} tokens, margin {margin:.3f}; take another question")
        new = made.sequences[0, len(ids) :].tolist()
        found.append({"question": question, "ids": ids, "answer": new, "text": plain.decode(new), "margin": margin})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare with the stored file; exit 1 if it differs")
    parser.add_argument("--gguf", type=Path, help="the GGUF file, if it is not in this Python's packages")
    args = parser.parse_args()
    gguf_path = args.gguf or find_gguf()
    model, plain, *_ = load(gguf_path)
    made = {"made": how(gguf_path) | {"by": "tools/oracles/level12.py"}, "requests": answers(model, plain)}
    if args.check:
        stored = json.loads(PATH.read_text(encoding="utf-8"))["requests"]
        same = all(old[key] == new[key] for old, new in zip(stored, made["requests"]) for key in ("ids", "answer"))
        print("the stored values are what transformers makes" if same else "the stored values differ")
        sys.exit(0 if same else 1)
    PATH.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"wrote {PATH}")


if __name__ == "__main__":
    main()

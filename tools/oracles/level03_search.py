"""Make, or check, the stored beam searches of level 03: what transformers' generate finds with num_beams.

    python tools/oracles/level03_search.py [--check]

Needs transformers and torch (the contributors' extra). The model is a stand-in whose logits are random numbers, seeded
by the tokens so far: the level's tests make the same ones, and so need neither transformers nor a model.
"""

import argparse
import json
import platform
import random
import sys
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "levels" / "level03" / "tests" / "transformers_beams.json"
EOS = 2
MODELS = {(4, 2, 5): [2, 7], (5, 3, 4): [4, 7], (3, 4, 6): [1, 7], (6, 3, 3): [9]}  # (vocab, beams, tokens): seeds
PENALTIES = [0.0, 1.0, 2.0]


def logits_after(seed: int, tokens: tuple[int, ...], vocab: int) -> list[float]:
    """The stand-in's logits after these new tokens, 0 to 6."""
    rng = random.Random(f"{seed} {tokens}")
    return [6 * rng.random() for _ in range(vocab)]


def stand_in(seed: int, vocab: int):
    """A model with nothing but `generate` and these logits. Its prompt is one token, which it does not look at."""
    import torch
    from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
    from transformers.modeling_outputs import CausalLMOutput

    class StandIn(PreTrainedModel, GenerationMixin):
        config_class, main_input_name = PretrainedConfig, "input_ids"

        def __init__(self, config):
            super().__init__(config)
            self.weight, self.steps = torch.nn.Parameter(torch.zeros(1)), 0

        def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **kwargs):
            return {"input_ids": input_ids}

        def forward(self, input_ids, attention_mask=None, **kwargs):
            self.steps += 1
            rows = [logits_after(seed, tuple(row[1:]), vocab) for row in input_ids.tolist()]
            return CausalLMOutput(logits=torch.tensor(rows).unsqueeze(1))

    return StandIn(PretrainedConfig(vocab_size=vocab, num_hidden_layers=1, hidden_size=1, num_attention_heads=1))


def search(seed: int, vocab: int, width: int, max_tokens: int, length_penalty: float, early_stopping) -> dict:
    """One case: what went in, the hypotheses best first, and how often the model was asked."""
    import torch

    model = stand_in(seed, vocab)
    made = model.generate(
        torch.tensor([[0]]),
        attention_mask=torch.ones(1, 1, dtype=torch.long),
        num_beams=width,
        num_return_sequences=width,
        max_new_tokens=max_tokens,
        do_sample=False,
        use_cache=False,
        eos_token_id=EOS,
        pad_token_id=EOS,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        return_dict_in_generate=True,
        output_scores=True,
    )
    found = []
    for row, score in zip(made.sequences[:, 1:].tolist(), made.sequences_scores.tolist()):
        tokens = row[: row.index(EOS) + 1] if EOS in row else row  # the rest is padding
        found.append([tokens, round(score, 5)])
    case = {"seed": seed, "vocab": vocab, "width": width, "max_tokens": max_tokens, "length_penalty": length_penalty}
    return case | {"early_stopping": early_stopping, "found": found, "steps": model.steps}


def compute() -> dict:
    """What goes into the JSON."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    cases = [
        search(seed, *shape, penalty, early)
        for early in (True, "never")
        for penalty in PENALTIES
        for shape, seeds in MODELS.items()
        for seed in seeds
    ]
    made = {name: metadata.version(name) for name in ("transformers", "torch")}
    made |= {"by": "tools/oracles/level03_search.py", "python": platform.python_version()}
    return {"made": made, "eos_id": EOS, "cases": cases}


def differences(new: dict) -> list[str]:
    """Sentences about what the stored file says otherwise; scores may differ by 1e-4."""
    old = json.loads(FILE.read_text(encoding="utf-8"))
    if old["eos_id"] != new["eos_id"] or len(old["cases"]) != len(new["cases"]):
        return ["there are other cases"]
    found = []
    for stored, case in zip(old["cases"], new["cases"]):
        same = stored | {"found": 0} == case | {"found": 0}
        texts = [[tokens for tokens, _ in each["found"]] for each in (stored, case)]
        near = all(abs(a[1] - b[1]) < 1e-4 for a, b in zip(stored["found"], case["found"]))
        if not (same and texts[0] == texts[1] and near):
            found.append(f"{ {key: case[key] for key in case if key != 'found'} }: differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    options = parser.parse_args()
    new = compute()
    if options.check:
        found = differences(new)
        print("\n".join(found) or "the stored beam searches of level 03 still hold")
        return 1 if found else 0
    lines = ",\n  ".join(json.dumps(case) for case in new["cases"])
    head = json.dumps({key: new[key] for key in ("made", "eos_id")}, indent=1).rstrip("}\n")
    FILE.write_text(f'{head},\n "cases": [\n  {lines}\n ]\n}}\n', encoding="utf-8", newline="\n")
    print(f"wrote {FILE.name} to {FILE.parent}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

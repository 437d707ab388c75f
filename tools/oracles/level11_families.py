"""Make, or check, the stored values of level 11: logits of tiny random models of five families, by transformers.

    python tools/oracles/level11_families.py [--check]

Needs transformers and torch (the contributors' extra), no model file. The weights are drawn here, by a generator of
numpy whose numbers never change, in the order and the shapes that go into the JSON with ids and logits; the level
draws them again. A router that comes within MARGIN of another choice is refused, since float32 could decide it either
way. Nothing here shares code with the levels.
"""

import argparse
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "levels" / "level11" / "tests" / "transformers_families.json"
MARGIN = 1e-4
SEED = 11
SHAPE = (2, 11)  # rows and tokens: longer than Gemma's window, no multiple of Mamba's chunk
VOCAB = 37


def rope(theta: float) -> dict:
    return {"rope_type": "default", "rope_theta": theta}


# every size differs from its neighbours, head_dim is not hidden_size / heads, k is below the number of experts; small
# RoPE bases, so that 11 tokens tell them apart
FAMILIES = {
    "Mixtral": {
        "hidden_size": 24,
        "intermediate_size": 20,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 5,
        "num_experts_per_tok": 2,
        "rms_norm_eps": 1e-5,
        "rope_parameters": rope(500.0),
    },
    "Qwen3Moe": {
        "hidden_size": 20,
        "moe_intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "norm_topk_prob": False,
        "rope_parameters": rope(300.0),
    },
    "DeepseekV3": {
        "hidden_size": 28,
        "intermediate_size": 18,
        "moe_intermediate_size": 11,
        "num_hidden_layers": 3,
        "first_k_dense_replace": 1,
        "num_attention_heads": 3,
        "num_key_value_heads": 3,
        "q_lora_rank": 14,
        "kv_lora_rank": 10,
        "qk_rope_head_dim": 6,
        "qk_nope_head_dim": 8,
        "v_head_dim": 5,
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 2.5,
        "rope_interleave": False,
        "rope_parameters": rope(200.0),
    },
    "Gemma3": {
        "hidden_size": 24,
        "intermediate_size": 20,
        "num_hidden_layers": 6,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "sliding_window": 4,
        "layer_types": ["sliding_attention", "sliding_attention", "full_attention"] * 2,
        "rope_parameters": {"sliding_attention": rope(30.0), "full_attention": rope(900.0)},
    },
    "Mamba2": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_heads": 8,
        "head_dim": 4,
        "n_groups": 2,
        "state_size": 6,
        "chunk_size": 4,
    },
}


def drawn(shapes: dict) -> dict:
    """Norm weights near 1 and not equal to it; everything of a size that keeps activations near 1."""
    import numpy as np
    import torch

    generator = np.random.RandomState(SEED)
    weights = {}
    for name, shape in shapes.items():
        values = torch.from_numpy(generator.standard_normal(shape)).float()
        if len(shape) == 1:
            weights[name] = 1 + 0.1 * values if name.endswith(("norm.weight", "norm_f.weight", ".D")) else 0.5 * values
        else:
            weights[name] = values if "embed" in name else values * shape[-1] ** -0.5
    return weights


def watch_routers(model, margins: list[float]) -> None:
    """Note how far the last chosen expert is from the first one that is not."""

    def note(router, inputs, _):
        logits = inputs[0].reshape(-1, inputs[0].shape[-1]).double() @ router.weight.T.double()
        bias = getattr(router, "e_score_correction_bias", None)
        scores = logits.softmax(-1) if bias is None else logits.sigmoid() + bias
        best = scores.sort(-1, descending=True).values
        margins.append((best[:, router.top_k - 1] - best[:, router.top_k]).min().item())

    for module in model.modules():
        if type(module).__name__.lower().endswith("topkrouter"):
            module.register_forward_hook(note)


def compute() -> dict:
    """What goes into the JSON."""
    import numpy as np
    import torch
    import transformers

    torch.set_num_threads(1)
    versions = {name: metadata.version(name) for name in ("transformers", "torch", "numpy")}
    made = versions | {"by": "tools/oracles/level11_families.py", "python": platform.python_version()}
    ids = np.random.RandomState(SEED).randint(VOCAB, size=SHAPE).tolist()
    found = {}
    for family, about in FAMILIES.items():
        text = "Text" if family == "Gemma3" else ""
        # the special ids lie in the vocabulary, and pad_token_id must not blank a row of the embedding
        special = {"pad_token_id": None, "bos_token_id": 0, "eos_token_id": 1}
        about = about | {"vocab_size": VOCAB, "tie_word_embeddings": False}
        eager = {"attn_implementation": "eager", "experts_implementation": "eager"}
        config = getattr(transformers, f"{family}{text}Config")(**about, **special, **eager)
        model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        shapes = {name: list(weight.shape) for name, weight in model.state_dict().items()}
        model.load_state_dict(drawn(shapes))
        margins = [1.0]
        watch_routers(model, margins)
        with torch.no_grad():
            logits = model(torch.tensor(ids), use_cache=False).logits
        if min(margins) <= MARGIN:
            raise SystemExit(f"{family}: a router's choice is as close as {min(margins):.1e}; take another seed")
        rounded = [[[round(z, 5) for z in row] for row in rows] for rows in logits.tolist()]
        found[family] = {"config": about, "shapes": shapes, "margin": round(min(margins), 5), "logits": rounded}
    return {"made": made, "seed": SEED, "ids": ids, "families": found}


def differences(new: dict) -> list[str]:
    """Sentences about what the stored file says otherwise; logits may differ by 1e-4, as between two machines."""
    import numpy as np

    old = json.loads(FILE.read_text(encoding="utf-8"))
    found = [f"{key} differs" for key in ("seed", "ids") if old[key] != new[key]]
    if list(old["families"]) != list(new["families"]):
        return [*found, "there are other families"]
    for name, made in new["families"].items():
        stored = old["families"][name]
        found += [f"{name}: {key} differs" for key in ("config", "shapes") if stored[key] != made[key]]
        if not np.allclose(stored["logits"], made["logits"], rtol=0, atol=1e-4):
            found.append(f"{name}: logits differ")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    new = compute()
    if parser.parse_args().check:
        found = differences(new)
        print("\n".join(found) or "the stored values of level 11's families still hold")
        return 1 if found else 0
    text = json.dumps(new, separators=(",", ":")).replace('],"', '],\n"').replace("]],[[", "]],\n[[") + "\n"
    FILE.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {FILE.name}, margins {[family['margin'] for family in new['families'].values()]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

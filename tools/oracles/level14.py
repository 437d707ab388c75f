"""Make, or check, the stored values of level 14: LoRA layers by peft, NF4 and double quantization by bitsandbytes.

    python tools/oracles/level14.py [--check]

Needs peft, bitsandbytes (0.50 and later quantize on a CPU) and torch, no model file. All inputs are drawn here by a
generator of numpy whose numbers never change; the level draws them again. bitsandbytes keeps two codes in a byte, the
first of them in the high four bits, and so does the hex of "nf4"; level 06 has the first in the low ones. Nothing here
shares code with the levels.
"""

import argparse
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "levels" / "level14" / "tests" / "peft_bitsandbytes.json"
SEED = 15
IN, OUT, RANK, ALPHA = 12, 10, 4, 10  # alpha differs from the rank, and every size from its neighbours
BLOCKS = 300  # of 64 weights: a second level with a full block of 256 scales, and a shorter one
NEAR = 1e-6  # of a border between two codes: such a draw is refused, since rounding could decide it (its kernel for
# CPUs looks scales up in a table, and misses the nearest of 256 values now and then: such a draw is refused as well)


def lora_inputs():
    """x (2, 3, IN), weight (OUT, IN), a (RANK, IN), b (OUT, RANK), float32, in this order from one generator."""
    import numpy as np

    generator = np.random.RandomState(SEED)
    shapes = (2, 3, IN), (OUT, IN), (RANK, IN), (OUT, RANK)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def nf4_weights():
    """(BLOCKS * 64,) float32 of standard deviation 0.02, some blocks up to 4 times as large."""
    import numpy as np

    generator = np.random.RandomState(SEED + 1)
    spread = 0.02 * (1 + 3 * generator.random_sample((BLOCKS, 1)))
    return (generator.standard_normal((BLOCKS, 64)) * spread).astype(np.float32).ravel()


def lora_layers() -> dict:
    """Outputs and merged weights of peft's layer, plain and rank-stabilized."""
    import torch
    from peft import LoraConfig, inject_adapter_in_model

    x, weight, a, b = map(torch.from_numpy, lora_inputs())
    found = {}
    for name, stabilized in (("plain", False), ("rank_stabilized", True)):
        model = torch.nn.Sequential(torch.nn.Linear(IN, OUT, bias=False))
        model[0].weight.data.copy_(weight)
        config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["0"], use_rslora=stabilized)
        layer = inject_adapter_in_model(config, model).eval()[0]
        layer.lora_A["default"].weight.data.copy_(a)
        layer.lora_B["default"].weight.data.copy_(b)
        with torch.no_grad():
            output = layer(x)
            layer.merge()
            merged = layer.weight.detach().clone()
            layer.unmerge()
        if not torch.allclose(layer.weight, weight, atol=1e-5):
            raise SystemExit("peft does not get back the weight that it has merged into")
        found[name] = {"output": output.tolist(), "merged": merged.tolist(), "scale": layer.scaling["default"]}
    return found


def nf4() -> dict:
    """Codes, scales, and the scales' codes, as `quantize_4bit` makes them on a CPU."""
    import bitsandbytes.functional as bnb
    import torch

    w = torch.from_numpy(nf4_weights())
    codes, plain = bnb.quantize_4bit(w, blocksize=64, quant_type="nf4")
    same, nested = bnb.quantize_4bit(w, blocksize=64, quant_type="nf4", compress_statistics=True)
    second, values = nested.state2, nested.state2.code
    refuse_borders((w.view(-1, 64) / plain.absmax[:, None]).flatten(), plain.code, "weight")
    centred = (plain.absmax - nested.offset).split(second.blocksize)
    unit = torch.cat([part / part.abs().max() for part in centred])
    refuse_borders(unit, values, "scale")
    if not torch.equal(torch.bucketize(unit, (values[:-1] + values[1:]) / 2), nested.absmax.long()):
        raise SystemExit("a scale did not get the nearest of 256 values; take another seed")
    if not torch.equal(codes, same):
        raise SystemExit("bitsandbytes' codes depend on whether the scales are quantized")
    return {
        "levels": plain.code.tolist(),
        "codes": codes.numpy().tobytes().hex(),
        "absmax": plain.absmax.tolist(),
        "dynamic_map": values.tolist(),
        "absmax_codes": nested.absmax.numpy().tobytes().hex(),
        "absmax_scale": second.absmax.tolist(),
        "absmax_mean": nested.offset.item(),
        "double_dequantized": bnb.dequantize_blockwise(nested.absmax, second).add(nested.offset).tolist(),
    }


def refuse_borders(unit, values, what: str) -> None:
    borders = (values[:-1] + values[1:]) / 2
    nearest = (unit[:, None] - borders).abs().min().item()
    if nearest < NEAR:
        raise SystemExit(f"a {what} is {nearest:.1e} from the border between two codes; take another seed")


def compute() -> dict:
    """What goes into the JSON."""
    import torch

    torch.set_num_threads(1)
    versions = {name: metadata.version(name) for name in ("peft", "bitsandbytes", "torch", "numpy")}
    made = versions | {"by": "tools/oracles/level14.py", "python": platform.python_version()}
    return {"made": made, "seed": SEED, "rank": RANK, "alpha": ALPHA, "lora": lora_layers(), "nf4": nf4()}


def differences(new: dict) -> list[str]:
    """Sentences about what the stored file says otherwise; codes have to be equal, floats to 1e-5."""
    import numpy as np

    old = json.loads(FILE.read_text(encoding="utf-8"))
    found = [f"{key} differs" for key in ("seed", "rank", "alpha") if old[key] != new[key]]
    pairs = [(f"lora.{name}", old["lora"][name], made) for name, made in new["lora"].items()]
    for where, stored, made in [*pairs, ("nf4", old["nf4"], new["nf4"])]:
        for key, value in made.items():
            exact = isinstance(value, str)
            if stored[key] != value if exact else not np.allclose(stored[key], value, rtol=1e-5, atol=1e-6):
                found.append(f"{where}: {key} differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored file instead of writing it")
    new = compute()
    if parser.parse_args().check:
        found = differences(new)
        print("\n".join(found) or "the stored values of level 14 still hold")
        return 1 if found else 0
    text = json.dumps(new, separators=(",", ":")).replace(',"', ',\n"') + "\n"
    FILE.write_text(text, encoding="utf-8", newline="\n")
    print(f"wrote {FILE.name}, {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

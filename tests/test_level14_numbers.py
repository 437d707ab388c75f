"""Every number in the lesson of level 14, computed again: a claim is built here and must stand there verbatim.

Nothing here comes from the solutions but where pictures, words or wrong programs themselves are run.
"""

import ast
import contextlib
import importlib
import io
import json
import re
import sys
from functools import cache
from math import exp, log, prod
from pathlib import Path
from statistics import stdev
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dojo import catalog, ghosts, hardware, models, report
from dojo.models import Config
from tests.controls import solutions_of

ROOT = Path(__file__).resolve().parent.parent
LESSON = (ROOT / "levels/level14/README.md").read_text(encoding="utf-8")
ANSWERS = (ROOT / "solutions/level14/answers.md").read_text(encoding="utf-8")
PARTS = {section.partition(" ")[0]: section for section in LESSON.split("\n## ")[1:]}
LEVELS = tuple(level for level in catalog.level_names() if level <= "level14")
STORED = json.loads((ROOT / "levels/level14/tests/peft_bitsandbytes.json").read_text(encoding="utf-8"))

SMOL = models.SMOLLM2
LLAMA = Config(32, 4096, 32, 8, 128, 14336, 128256, tie_embeddings=False)  # Llama-3.1-8B
[H100] = [machine for machine in hardware.load() if machine.name == "H100 SXM5"]
PEAK, BANDWIDTH = 1e12 * H100.dense["bf16"].value, 1e9 * H100.bandwidth.value


@cache
def parameters(config, of=""):
    """How many there are in the matrices whose names end so."""
    return sum(prod(shape) for name, shape in models.shapes(config).items() if name.endswith(of))


def adapters(config, r, letters="qv"):
    """An A and a B for each of these matrices."""
    shapes = models.shapes(config)
    names = [f"model.layers.{n}.self_attn.{c}_proj.weight" for n in range(config.n_layers) for c in letters]
    return sum(r * side for name in names for side in shapes[name])


ALL, LINEAR, LORA = parameters(LLAMA), parameters(LLAMA, "proj.weight"), adapters(LLAMA, 16)
BITS = (64 * 256 * 4 + 256 * 8 + 32) / (64 * 256)  # of 256 blocks
NF4 = LINEAR * BITS / 8


def row(name, weights, learning):
    """A row of the bill: bfloat16 weights and gradients, two float32 moments and a float32 copy."""
    parts = [weights, 2 * learning, (4 + 4 + 4) * learning]
    cells = " | ".join(f"{part / 1e9:.2f}" for part in parts)
    return f"| {name} | {cells} | {sum(parts) / 1e9:.2f} |"


def share(group):
    """Percent of a step: 1,024 tokens behind 256, learned from at 40% of the rate."""
    read = 2 * (ALL - parameters(LLAMA, "embed_tokens.weight"))  # of a pass; FLOPs of a token are as many
    entry = 2 * 2 * LLAMA.n_layers * LLAMA.n_kv_heads * LLAMA.head_dim
    decoding = sum(read + group * (256 + new) * entry for new in range(1024)) / BANDWIDTH
    return 100 * decoding / (decoding + 3 * group * 1280 * read / (0.4 * PEAK))


def dpo(margin):
    return log(1 + exp(-margin))


MEAN, OF_MEANS = -log(0.5 * 0.8 * 0.4) / 3, (-log(0.5 * 0.8) / 2 - log(0.4)) / 2
EDGE = 0.5 / stdev([1, 0, 0, 1])

CLAIMS = [
    # the big idea
    row("everything learns", 2 * ALL, ALL),
    row("adapters learn, LoRA", 2 * (ALL + LORA), LORA),
    row("the same, linear layers in 4 bits, QLoRA", NF4 + 2 * (ALL - LINEAR + LORA), LORA),
    # the concepts
    f"the only one of another 0.4: the loss is {MEAN:.3f}. A mean for each row, and then of these, gives "
    f"{OF_MEANS:.3f}",
    f"Lengths of 3, 5, 2, 6 and 4 fill two rows of 10; padded they are {5 * 6} places, of which {30 - 20} are wasted",
    f"Rank 16 on q and v of Llama-3.1-8B are {LORA:,} numbers, {100 * LORA / ALL:.4f}% of the model",
    f"{BITS:.3f} bits then, instead of {4 + 32 / 64} with scales in float32",
    f"The {LINEAR / 1e9:.2f} billion weights of Llama-3.1-8B's linear layers take {NF4 / 1e9:.2f} GB, not "
    f"{2 * LINEAR / 1e9:.2f}",
    f"With beta 0.1 and log-ratios of 1 and -1 the loss is {dpo(0.2):.4f}; at the start, where model and reference are "
    f"the same, ln 2 = {dpo(0):.4f}",
    f"Rewards 1, 0, 0, 1 give ±{EDGE:.3f}; a ratio of {exp(0.5):.3f} counts as 1.2",
    f"a group of 64 decodes {share(64):.1f}% of the time, one answer after the other {share(1):.1f}%",
    # the code lab
    f"peft {STORED['made']['peft']} gave",
    f"bitsandbytes {STORED['made']['bitsandbytes']} gave",
    f"Adapters of rank 4 on q and v of two layers have {adapters(SMOL, 4) * 2 // SMOL.n_layers:,} numbers. Why does "
    f"the optimizer keep {2 * 4 * adapters(SMOL, 4) * 2 // SMOL.n_layers + 4 * 8:,} bytes",
    # the checkpoint: 8 of 30 layers, two moments of each number, a counter for each of 32 matrices
    f"{adapters(SMOL, 4) * 8 // SMOL.n_layers:,} numbers, and AdamW keeps "
    f"{2 * 4 * adapters(SMOL, 4) * 8 // SMOL.n_layers + 4 * 32:,} bytes",
    f"in NF4 takes {4 + 32 / 64} bits a weight, or {BITS:.2f} with scales in 8 bits",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_the_lesson_states_the_computed_number(claim):
    assert claim in LESSON


@pytest.mark.parametrize(
    "claim",
    [
        f"A group of 64 answers decodes {share(64):.1f}% of the step in concept 7's example, a group of 8 decodes "
        f"{share(8):.1f}%, and one answer after the other {share(1):.1f}%",
        f"two tokens of 0.5 and 0.8 and one of 0.4 have a loss of {MEAN:.3f} or {OF_MEANS:.3f}",
        f"go from {2 * LINEAR / 1e9:.2f} GB to {NF4 / 1e9:.2f}",
        f"a margin of 2 gives sigmoid(-2) = {1 / (1 + exp(2)):.3f}",
    ],
)
def test_the_answers_state_the_computed_number(claim):
    assert claim in ANSWERS


@pytest.fixture(scope="module")
def solved():
    """The modules of level 14 and what they stand on, all solutions."""
    with solutions_of(*LEVELS):
        names = "sft", "packing", "lora", "nf4", "memory", "dpo", "grpo", "rollout", "adapters", "train"
        yield SimpleNamespace(**{name: importlib.import_module(f"level14.{name}") for name in names})


def test_the_picture_of_the_shift(solved):
    ids, mask = solved.sft.loss_mask([("user", [5, 6]), ("assistant", [8, 2]), ("user", [4]), ("assistant", [9, 8, 2])])
    lines = {
        "column": range(len(ids)),
        "ids": ids.tolist(),
        "learned": ["#" if learned else "·" for learned in mask],
        "logits of": ["·", *range(len(ids) - 1)],
    }
    picture = "\n".join(f"{name:<15}" + "   ".join(map(str, cells)) for name, cells in lines.items())
    assert f"```\n{picture}\n```" in PARTS["Pinky"]
    first = mask.tolist().index(True)
    assert f"The first learned number is in column {first}, and comes from logits {first - 1}." in PARTS["Pinky"]
    logits = torch.zeros(1, len(ids), 12)
    logits[0, first - 1, 8] = 5.0
    scored = solved.sft.shifted_logprobs(logits, ids.unsqueeze(0))[0]
    assert scored.argmax() == 0 and scored[1:].argmax() == first - 1  # column 0 is 0


def test_the_picture_of_a_packed_row(solved):
    positions, segments = solved.packing.packed_layout([2, 3])
    lines = ["position   segment   sees"]
    for position, segment, sees in zip(positions, segments, solved.packing.packed_mask(segments)):
        lines.append(f"{position:<11}{segment:<10}" + " ".join("#" if one else "·" for one in sees))
    assert "```\n" + "\n".join(lines) + "\n```" in PARTS["Pinky"]
    assert len(solved.packing.pack([3, 5, 2, 6, 4], 10)) == 2


def test_the_tensors_of_a_step_of_grpo(solved):
    """Every cell from the rules; the rollout's own calls are the same."""
    prompts, group, new = (5, 3), 4, 6
    wide, rows = max(prompts) + new, group * len(prompts)
    for cell in (
        f"| ids of the first prompt | `(1, {prompts[0]})` |",
        f"| ids of each further pass of its group | `({group}, 1)` |",
        f"| keys of a layer that the group's cache has room for | `({group}, {SMOL.n_kv_heads}, {prompts[0] + new}, "
        f"{SMOL.head_dim})` |",
        f"| rewards, of both prompts | `({len(prompts)}, {group})` |",
        f"| ids, mask, noted log-probabilities, those of now | `({rows}, {wide})` |",
        f"| logits of the one pass that learns | `({rows}, {wide}, {SMOL.vocab_size})` |",
        f"| advantages | `({rows},)` |",
    ):
        assert cell in LESSON
    from level00.transformer import forward
    from level03.sampler import SamplingParams

    calls, params = [], models.random_params(models.TINY)

    def counting(params, config, ids, cache, **seams):
        calls.append(tuple(ids.shape))
        return forward(params, config, ids, cache, **seams)

    sampling = SamplingParams(seed=0, max_tokens=new)
    found = [
        solved.rollout.rollout(params, models.TINY, [*range(n)], group, sampling, forward=counting) for n in prompts
    ]
    assert calls == [(1, 5), *[(4, 1)] * 5, (1, 3), *[(4, 1)] * 5]
    assert f"takes six passes, one over the prompt and five over four tokens each, not {group * new}." in LESSON
    answers = [answer for each in found for answer in each]
    batch = solved.train.answer_batch([[*range(n)] for n in prompts for _ in range(group)], answers)
    assert {tuple(part.shape) for part in batch} == {(rows, wide)}


def test_gradients_are_as_the_table_says(solved):
    """By a token's log-probability: -1 / tokens, ∓ beta · sigmoid(-margin) / pairs, -ratio · advantage / tokens."""
    old = torch.tensor([[-1.0, -2.0, -0.5], [-1.0, -3.0, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    now = (old + 0.1).requires_grad_()
    solved.grpo.grpo_loss(now, old, torch.tensor([1.5, -0.5]), mask).backward()
    ratio = exp(0.1)
    right = [[-ratio * 1.5 / 5] * 3, [ratio * 0.5 / 5] * 2 + [0.0]]
    assert torch.allclose(now.grad, torch.tensor(right), atol=1e-6)
    chosen, rejected = (torch.tensor([x, x + 1], requires_grad=True) for x in (-5.0, -7.0))
    reference = torch.tensor([-6.0, -6.0])
    loss, *rewards = solved.dpo.dpo_loss(chosen, rejected, reference, reference, 0.1)
    loss.backward()
    pull = 0.1 * torch.sigmoid(rewards[1] - rewards[0]) / 2
    assert torch.allclose(chosen.grad, -pull) and torch.allclose(rejected.grad, pull)


def test_the_checkpoint_is_what_the_lesson_says():
    """Constants of the checkpoint's own file."""
    source = (ROOT / "levels/level14/checkpoint/test_14_checkpoint.py").read_text(encoding="utf-8")
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            names = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else node.targets
            values = node.value.elts if isinstance(node.targets[0], ast.Tuple) else [node.value]
            found |= {name.id: ast.literal_eval(value) for name, value in zip(names, values)}
    assert (len(found["LESSONS"]), len(found["UNSEEN"]), found["STEPS"]) == (8, 3, 7)
    said = f"Adapters of rank {found['RANK']} on q and v of the last {SMOL.n_layers - found['FIRST']} layers, alpha "
    assert f"{said}{found['ALPHA']}, seven steps of AdamW." in PARTS["Power"]
    assert f"it has to reach {100 * found['NEED']:.0f}% of its speed" in PARTS["Power"]


def test_the_table_of_katas_repeats_their_metadata():
    rows = re.findall(r"^\| `(level14\.\S+)` \|.*\| (●+) \| (\d+) \|$", LESSON, re.M)
    assert rows == [(k.id, "●" * k.dots, str(k.lines)) for k in catalog.katas("level14")]
    assert f"7 concepts · {len(rows)} katas" in LESSON
    parts = {name.rpartition(".")[2] for kata in catalog.katas("level14") for name in kata.names[1:]}
    assert all(f"`{name}`" in PARTS["Clyde"] for name in parts)


def test_links_into_earlier_levels_lead_to_their_headings():
    linked = re.findall(r"\.\./(level\d\d)/README\.md#([^)]*)\)", LESSON)
    assert {level for level, _ in linked} == {"level00", "level04", "level05", "level06"}
    for level, anchor in linked:
        headings = re.findall(r"^#+ (.*)$", (ROOT / f"levels/{level}/README.md").read_text(encoding="utf-8"), re.M)
        assert anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_lesson_asks_what_is_answered():
    asked = re.findall(r"^\d\. (.*[?.])$", PARTS["Power"], re.M)
    assert asked == [question for question, _ in report.questions("level14")] and len(asked) == 7
    assert "Then seven questions" in LESSON


def test_the_worksheet_is_announced():
    announced = re.findall(r"^\d\. ", PARTS["Inky"], re.M)
    assert len(announced) == len(catalog.answers("level14")) == 8 and "Eight numbers" in PARTS["Inky"]


def haunted(id, name):
    """A module of the solutions with one of its ghosts in it."""
    source = (ROOT / f"solutions/level14/{id.split('.')[1]}.py").read_text(encoding="utf-8")
    [wrong] = [g for g in ghosts.haunts("level14") if (g.id, g.name) == (id, name)]
    changed, given = ghosts.apply(wrong, source)
    module = sys.modules["level14.haunted"] = ModuleType("level14.haunted")
    vars(module).update(given, __package__="level14")
    exec(compile(changed, "haunted", "exec"), vars(module))
    return module


def batch_of_concept_1(module):
    """Two rows over two tokens: learned ones of 0.5 and 0.8, and of 0.4."""
    odds = torch.tensor([[0.5, 0.8, 0.5], [0.4, 0.5, 0.5]])
    logits = torch.stack([1 - odds, odds], -1).log()
    mask = torch.tensor([[False, True, True], [False, True, False]])
    return module.sft_loss(logits, torch.tensor([[0, 1, 1], [0, 1, 0]]), mask).item()


def pair(module):
    return module.dpo_loss(*(torch.tensor([x]) for x in (-5.0, -9.0, -6.0, -8.0)), 0.1)[0].item()


def group_of_64(module):
    from level04.roofline import Hardware

    machine = Hardware("H100", PEAK, BANDWIDTH, 80e9)
    read = 2 * (ALL - parameters(LLAMA, "embed_tokens.weight"))
    return 100 * module.rollout_share(256, 1024, 64, read, 131072, read, machine)


def advantage(module, *rewards):
    return module.group_advantages(torch.tensor([rewards]))[0, 0].item()


def two_answers(module):
    mask = torch.tensor([[True, False, False], [True, True, True]])
    return module.aggregate(torch.tensor([[4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), mask)


ONE = torch.ones(1)
QUOTED = [  # a ghost, what is run, how its numbers stand in the lesson: wrong, right
    ("sft.sft_loss", "mean_of_means", batch_of_concept_1, "{:.3f}, not {:.3f}, in concept 1's batch"),
    (
        "packing.pack",
        "next_fit",
        lambda m: len(m.pack([3, 5, 2, 6, 4], 10)),
        "concept 2's examples in {} rows, not {}.",
    ),
    ("lora.lora_linear", "alpha_alone", lambda m: m.lora_scale(16, 8), "a scale of {:.0f}, not {:.0f}, at alpha 16"),
    (
        "lora.lora_linear",
        "never_rank_stabilized",
        lambda m: m.lora_scale(16, 16, True),
        "{:.0f}, not {:.0f}, at alpha 16",
    ),
    (
        "memory.double_quantize",
        "optimizer_for_all",
        lambda m: m.training_bytes(ALL + LORA, LORA) / 1e9,
        "{:.2f} GB, not {:.2f}, for adapters on Llama-3.1-8B",
    ),
    ("dpo.dpo_loss", "chosen_and_rejected_exchanged", pair, "{:.4f}, not {:.4f}."),
    ("dpo.dpo_loss", "no_reference", pair, "{:.4f}, for the same pair"),
    (
        "grpo.grpo_loss",
        "population_deviation",
        lambda m: advantage(m, 1.0, 0.0, 0.0, 1.0),
        "of ±{:.0f}, not ±{:.3f}, for",
    ),
    ("grpo.grpo_loss", "missing_is_0", lambda m: advantage(m, 1.0, torch.nan, 1.0), "{:.3f}, not {:.0f}, for a reward"),
    (
        "grpo.grpo_loss",
        "clip_alone",
        lambda m: m.clipped_objective(ONE / 2, 0 * ONE, -ONE).item(),
        "{:.1f}, not {:.3f}, for a bad answer",
    ),
    ("grpo.grpo_loss", "kl_other_way_round", lambda m: m.kl_k3(-2 * ONE, -ONE).item(), "{:.4f}, not {:.4f}, where the"),
    ("grpo.grpo_loss", "tokens_and_sequences_exchanged", two_answers, "{:.0f}, not {:.0f}, for answers of 1 token"),
    (
        "grpo.grpo_loss",
        "weight_not_capped",
        lambda m: m.truncated_weight(2 * ONE, 0 * ONE).item(),
        "{:.3f}, not {:.0f}, for",
    ),
    ("rollout.rollout", "weights_for_each_answer", group_of_64, "{:.1f}%, not {:.1f}, in concept 7's group"),
]


@pytest.mark.parametrize("kata, name, run, said", QUOTED, ids=[name for _, name, _, _ in QUOTED])
def test_what_wrong_programs_give(solved, kata, name, run, said):
    """The ghosts themselves."""
    id = f"level14.{kata}"
    wrong, right = run(haunted(id, name)), run(getattr(solved, kata.split(".")[0]))
    [line] = [line for line in PARTS["Blinky"].splitlines() if f"`{id} · {name}`:" in line]
    assert said.format(wrong, right) in line, (wrong, right)


def test_what_wrong_programs_do_to_gradients(solved):
    """Claims of the pitfalls without a number: a ratio of 1 whose gradient is 0, a right loss whose gradient is NaN."""
    mask, advantages = torch.tensor([[True, True, False], [True, False, False]]), torch.tensor([1.0, -1.0])

    def loss_and_gradient(module, weight=1.0, same=False):
        """`weight` stands at the padding."""
        now = torch.full((2, 3), -1.0).requires_grad_()
        weights = torch.ones(2, 3).masked_fill(~mask, weight)
        loss = module.grpo_loss(now, now if same else now.detach(), advantages, mask, weight=weights)
        loss.backward()
        return loss.item(), now.grad

    value, gradient = loss_and_gradient(solved.grpo)
    assert gradient.any() and torch.equal(loss_and_gradient(solved.grpo, weight=torch.nan)[1], gradient)
    for name in ("ratio_detached", "old_learns"):
        try:
            found = loss_and_gradient(haunted("level14.grpo.grpo_loss", name), same=name == "old_learns")
        except RuntimeError:  # no gradient at all
            continue
        assert found[0] == value and not found[1].any(), name
    wrong = loss_and_gradient(haunted("level14.grpo.grpo_loss", "padding_filled_afterwards"), weight=torch.nan)
    assert wrong[0] == pytest.approx(value) and wrong[1].isnan().any()
    a, b = haunted("level14.lora.lora_linear", "both_zero").lora_init(4, 6, 2, torch.Generator().manual_seed(0))
    assert not a.any() and not b.any()


def test_the_lessons_program_runs(solved):
    """It is shown to learners, so it has to work as it stands, and its output is beside it."""
    from level00.tokenizer import SmolTokenizer
    from level00.transformer import forward
    from level01.generate import generate
    from level03.sampler import SamplingParams
    from level06.weights import any_linear

    [code] = re.findall(r"```python\n(.*?)```", PARTS["Clyde"], re.S)
    names = {key: thing for module in vars(solved).values() for key, thing in vars(module).items() if key[0] != "_"}
    names |= {thing.__name__: thing for thing in (torch, forward, generate, SamplingParams, any_linear)}
    config, params, data = models.load()
    names |= {"config": config, "params": params, "tokenizer": SmolTokenizer.from_model(data)}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    assert f"```\n{printed.getvalue()}```" in PARTS["Clyde"]

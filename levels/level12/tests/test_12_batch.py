"""Judges batch.py by a list of every token, made one by one: which id, at which position, in which slot of the pool."""

import random

import pytest
import torch

from level12.batch import Batch, build_batch
from level12.state import SchedulerOutput, Tracked


def planned(*rows):
    """(out, sequences) as a scheduler leaves them. A row: id, prompt, output, start, tokens to run, table."""
    out, sequences = SchedulerOutput(), {}
    for id, prompt, output, start, tokens, table in rows:
        out.num_scheduled[id], out.starts[id], out.tables[id] = tokens, start, list(table)
        sequences[id] = Tracked(id, list(prompt), list(output), computed=start + tokens)
    return out, sequences


def on_paper(rows, block_size):
    """Oracle: token after token."""
    ids, positions, slots, first, lengths = [], [], [], [0], []
    for _, prompt, output, start, tokens, table in rows:
        text = [*prompt, *output]
        for position in range(start, start + tokens):
            ids.append(text[position])
            positions.append(position)
            slots.append([b * block_size + at for b in table for at in range(block_size)][position])
        first.append(len(ids))
        lengths.append(start + tokens)
    tables = [list(table) for *_, table in rows]
    return Batch(torch.tensor(ids), torch.tensor(positions), torch.tensor(slots), first, lengths, tables)


@pytest.mark.kata("level12.batch.build_batch")
def test_two_sequences_side_by_side(expect):
    """The docstring's example: r1 has found its first 8 tokens in the blocks of r0, and runs the last 2."""
    out, sequences = planned(
        ("r0", [20, 21, 22, 23, 24, 25, 26, 27, 28], [], 0, 9, [1, 2, 3]),
        ("r1", [20, 21, 22, 23, 24, 25, 26, 27, 50, 51], [], 8, 2, [1, 2, 4]),
    )
    right = Batch(
        torch.tensor([20, 21, 22, 23, 24, 25, 26, 27, 28, 50, 51]),
        torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 9]),
        torch.tensor([4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 17]),
        [0, 9, 11],
        [9, 10],
        [[1, 2, 3], [1, 2, 4]],
    )
    expect(build_batch, out, sequences, 4).equals(right)


@pytest.mark.kata("level12.batch.build_batch")
def test_decodes_run_their_newest_token(expect):
    """The token that the last step has chosen is in the output, not in the prompt."""
    out, sequences = planned(
        ("r0", range(20, 29), [7], 9, 1, [1, 2, 3]), ("r1", range(30, 40), [8, 6], 11, 1, [1, 2, 4])
    )
    right = Batch(
        torch.tensor([7, 6]), torch.tensor([9, 11]), torch.tensor([13, 19]), [0, 1, 2], [10, 12], [[1, 2, 3], [1, 2, 4]]
    )
    expect(build_batch, out, sequences, 4).equals(right)


@pytest.mark.kata("level12.batch.build_batch")
def test_a_chunk_in_the_middle_of_a_prompt(expect):
    """Tokens 3 to 7 of 11: neither its first nor its last ones. It sees 8 tokens, since the others have not run."""
    rows = [("a", range(40, 51), [], 3, 5, [6, 2])]
    right = Batch(
        torch.tensor([43, 44, 45, 46, 47]), torch.arange(3, 8), torch.tensor([27, 8, 9, 10, 11]), [0, 5], [8], [[6, 2]]
    )
    expect(build_batch, *planned(*rows), 4).equals(right)


@pytest.mark.kata("level12.batch.build_batch")
def test_a_preempted_sequence_runs_its_output_again(expect):
    """Prompt and output are one text: 3 + 5 tokens run, from wherever the cache ends, and none of the 5 is new."""
    rows = [("a", [11, 12, 13], [1, 2, 3, 4, 5], 2, 6, [9, 4, 7]), ("b", [14], [], 0, 1, [3])]
    right = Batch(
        torch.tensor([13, 1, 2, 3, 4, 5, 14]),
        torch.tensor([2, 3, 4, 5, 6, 7, 0]),
        torch.tensor([29, 12, 13, 14, 21, 22, 9]),
        [0, 6, 7],
        [8, 1],
        [[9, 4, 7], [3]],
    )
    expect(build_batch, *planned(*rows), 3).equals(right)


@pytest.mark.kata("level12.batch.build_batch")
def test_the_order_is_that_of_the_plan_and_others_stay_out(expect):
    """Whoever reads row i of the logits takes them for the i-th of num_scheduled. Who waits is not in the plan."""
    rows = [("b", [5, 6, 7], [], 0, 2, [4, 2]), ("a", [8, 9], [3], 2, 1, [7, 1])]
    out, sequences = planned(*rows)
    others = {"0": Tracked("0", [1, 2]), **{id: sequences[id] for id in ("a", "b")}, "z": Tracked("z", [3], [4], 1)}
    expect(build_batch, out, others, 2).equals(on_paper(rows, 2))


@pytest.mark.kata("level12.batch.build_batch")
def test_blocks_of_any_size(expect):
    """Oracle: all slots of a table in a row, and of these the one at the token's position. Blocks may be full to the
    last slot, or have more room than is used."""
    draw = random.Random(12)
    for block_size in (1, 2, 5, 16):
        blocks = draw.sample(range(1, 60), 59)
        rows = []
        for i in range(4):
            prompt, output = ([draw.randrange(90) for _ in range(draw.randrange(least, 9))] for least in (1, 0))
            start = draw.randrange(len(prompt) + len(output))
            tokens = draw.randrange(1, len(prompt) + len(output) - start + 1)
            room = -(-(start + tokens) // block_size) + draw.randrange(2)
            rows.append((f"r{3 - i}", prompt, output, start, tokens, [blocks.pop() for _ in range(min(room, 14))]))
        expect(build_batch, *planned(*rows), block_size).equals(on_paper(rows, block_size))


@pytest.mark.kata("level12.batch.build_batch")
def test_plan_and_sequences_stay_as_they_are(expect):
    """The scheduler goes on with them: a table that is filled up here, or a text that is cut, is wrong in the next
    step."""
    rows = [("a", [5, 6, 7], [2], 1, 2, [4, 2]), ("b", [8, 9], [], 0, 2, [7])]

    def before_and_after(build):
        out, sequences = planned(*rows)
        build(out, sequences, 2)
        told = [(s.id, s.prompt, s.output, s.computed, out.tables[s.id]) for s in sequences.values()]
        return told, list(out.num_scheduled.items()), list(out.starts.items())

    right = [("a", [5, 6, 7], [2], 3, [4, 2]), ("b", [8, 9], [], 2, [7])], [("a", 2), ("b", 2)], [("a", 1), ("b", 0)]
    expect.story(before_and_after, build_batch).equals(right)


@pytest.mark.kata("level12.batch.build_batch")
def test_a_table_that_is_too_short_is_refused(expect):
    """Slots of block 0 or of a neighbour would be written instead. One token fewer is a full table."""
    expect(build_batch, *planned(("a", range(9), [], 4, 4, [3, 1])), 4).equals(
        on_paper([("a", range(9), [], 4, 4, [3, 1])], 4)
    )
    expect(build_batch, *planned(("a", range(9), [], 4, 5, [3, 1])), 4).raises(ValueError)

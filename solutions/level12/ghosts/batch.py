"""Known-wrong programs of level12.batch. `ghost` is given when this is read."""

ID = "level12.batch.build_batch"
STARTS = "starts = [out.starts[id] for id in out.num_scheduled]"
CHUNK = "sequences[id].tokens[start:end]"
PACK = "pack(chunks, starts)"
SLOTS = "slots(*part, block_size) for part in zip(tables, starts, ends)"
FIRST = "first = [0, *accumulate(out.num_scheduled.values())]"
BATCH = "Batch(ids[0], positions, where, first, ends, tables)"
TABLES = "tables = [out.tables[id] for id in out.num_scheduled]"

ghost(
    ID,
    "positions_from_zero",
    "A position is that in the sequence, behind what the cache holds; yours begin at 0 with every chunk.",
    change=(PACK, "pack(chunks, [0] * len(chunks))"),
)
ghost(
    ID,
    "positions_of_the_row",
    "Positions are those of each sequence; yours count through the whole batch.",
    change=(BATCH, "Batch(ids[0], torch.arange(len(positions)), where, first, ends, tables)"),
)
ghost(
    ID,
    "computed_is_the_start",
    "`computed` counts the tokens of this step already: they begin at out.starts, and yours begin behind them.",
    change=(STARTS, "starts = [sequences[id].computed for id in out.num_scheduled]"),
)
ghost(
    ID,
    "seq_lens_are_the_chunks",
    "seq_lens counts all tokens that are in the cache after the step; yours counts those of the step.",
    change=(BATCH, BATCH.replace("ends", "list(out.num_scheduled.values())")),
)
ghost(
    ID,
    "seq_lens_are_the_whole_text",
    "In the middle of a prompt the cache ends with this step's tokens; your seq_lens count those that have not run, too.",
    change=(BATCH, BATCH.replace("ends", "[sequences[id].num_tokens for id in out.num_scheduled]")),
)
ghost(
    ID,
    "seq_lens_before_the_step",
    "Attention sees the tokens of this step as well; your seq_lens are those before it.",
    change=(BATCH, BATCH.replace("ends", "starts")),
)
ghost(
    ID,
    "no_zero_in_front",
    "query_start_loc has N + 1 numbers and begins with 0; yours only has the ends.",
    change=(FIRST, "first = [*accumulate(out.num_scheduled.values())]"),
)
ghost(
    ID,
    "query_start_loc_of_the_lengths",
    "query_start_loc adds up the tokens of this step; yours adds up whole sequences.",
    change=(FIRST, "first = [0, *accumulate(ends)]"),
)
ghost(
    ID,
    "chunk_from_the_beginning",
    "The tokens that run begin at out.starts: yours are the first of the text again.",
    change=(CHUNK, "sequences[id].tokens[: end - start]"),
)
ghost(
    ID,
    "chunk_from_the_end",
    "A chunk goes on where the cache ends; yours takes the last tokens of the text and skips the middle of a prompt.",
    change=(CHUNK, "sequences[id].tokens[start - end :]"),
)
ghost(
    ID,
    "prompt_without_output",
    "Output tokens are tokens of the sequence: decodes run them, and after a preemption all of them run again.",
    change=(CHUNK, "[*sequences[id].prompt, *sequences[id].prompt[-1:] * 9][start:end]"),
)
ghost(
    ID,
    "slots_from_the_first_block",
    "Keys go behind those that are cached; yours are written over the first blocks, which others may share.",
    change=(SLOTS, "slots(table, 0, end - start, block_size) for table, start, end in zip(tables, starts, ends)"),
)
ghost(
    ID,
    "slots_are_positions",
    "A slot is a place in the pool, found through the table; yours is the position, the same for all sequences.",
    change=(BATCH, "Batch(ids[0], positions, positions, first, ends, tables)"),
)
ghost(
    ID,
    "slots_in_the_newest_block",
    "A chunk may begin in an earlier block: look each position up; yours all go to the last block of the table.",
    change=(
        SLOTS,
        "t[-1] * block_size + torch.arange(s, e) % block_size for t, s, e in zip(tables, starts, ends)",
    ),
)
ghost(
    ID,
    "block_ids_not_scaled",
    "A block id counts blocks: its first slot is id · block_size, not id.",
    change=(
        SLOTS,
        "slots(t, s, e, block_size) - (torch.tensor(t)[torch.arange(s, e) // block_size] * (block_size - 1)) for t, s, e in zip(tables, starts, ends)",
    ),  # fmt: skip
)
ghost(
    ID,
    "order_of_the_sequences",
    "The rows stand in the order of out.num_scheduled; yours are sorted, so tokens and logits go to the wrong ones.",
    change=("    starts = [", "    out.num_scheduled = dict(sorted(out.num_scheduled.items()))\n    starts = ["),
)
ghost(
    ID,
    "tables_filled_up",
    "The tables are those of the scheduler, each as long as it is; yours are filled up to one width.",
    change=(
        TABLES,
        TABLES + "\n    widest = max(map(len, tables))\n"
        "    tables = [table + [0] * (widest - len(table)) for table in tables]",
    ),
)

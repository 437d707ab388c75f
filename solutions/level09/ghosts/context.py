"""Known-wrong programs of level09.context. `ghost` is given when this is read."""

_BLOCKS = "blocks = torch.arange(seq_len).chunk(2 * size)"
_ZIGZAG = "return torch.cat([blocks[rank], blocks[2 * size - 1 - rank]])"
_WORK = "return [int((positions + 1).sum()) for positions in positions_by_rank]"
_RING = "right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size"
_START = "key_positions, done = positions, None"
_STEPS = "for step in range(comm.size):"
_PASS = "k, v, key_positions = (comm.sendrecv(part, right, left) for part in (k, v, key_positions))"
_SEES = "sees = key_positions <= positions.unsqueeze(-1)"
_SKIP = "if sees.any():"
_PART = "part = flash_attention(q, k, v, sees)"
_MERGE = "done = part if done is None else merge(*done, *part)"
_RETURN = "return done[0].to(q.dtype)"


def _ghost(name, sentence, *pairs):
    ghost("level09.context.ring_attention", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- ring_attention

_ghost(
    "mask_by_place_on_the_rank",
    "A query sees keys by their positions in the sequence: places on a rank say nothing of them.",
    _SEES,
    "sees = torch.arange(k.shape[2]) <= torch.arange(q.shape[2]).unsqueeze(-1)",
)
_ghost(
    "mask_by_rank",
    "Keys of lower ranks are earlier in a contiguous layout alone: compare positions.",
    _SEES,
    "source = (comm.rank - step) % comm.size\n"
    "        sees = (key_positions <= positions.unsqueeze(-1)) if not step else positions.new_full(\n"
    "            (q.shape[2], k.shape[2]), source < comm.rank, dtype=torch.bool)",
)
_ghost(
    "positions_by_rank",
    "Which positions are here is given: yours takes the ranks' tokens to be neighbours, in order.",
    _START,
    "positions = torch.arange(len(positions)) + comm.rank * len(positions)\n    key_positions, done = positions, None",
)
_ghost(
    "zigzag_taken_for_granted",
    "Which positions are here is given, and those of other keys travel with them: yours takes all layouts for zigzags.",
    _SEES,
    "key_positions = zigzag_positions(comm.size * len(positions), (comm.rank - step) % comm.size, comm.size)\n"
    "        sees = key_positions <= positions.unsqueeze(-1)",
)
_ghost(
    "narrow_log_sum_exp",
    "Parts are weighed in float32 or better: rounded to 16 bits, a log-sum-exp of 90 is off by a quarter.",
    _MERGE,
    "part = part[0], part[1].to(q.dtype).to(part[1].dtype)\n            done = part if done is None else merge(*done, *part)",
)
_ghost(
    "skipped_by_the_least_positions",
    "A later query of this rank may see a part that its first one does not: any pair counts.",
    _SKIP,
    "if key_positions.min() <= positions.min():",
)
_ghost(
    "positions_stay_home",
    "Keys travel with their positions: yours are masked by those of other keys.",
    _PASS,
    "k, v = (comm.sendrecv(part, right, left) for part in (k, v))",
)
_ghost(
    "positions_in_the_keys_dtype",
    "bfloat16 has no 257: positions travel as integers, not in the dtype of keys.",
    _START,
    "key_positions, done = positions.to(k.dtype), None",
    _PASS,
    "k = comm.sendrecv(k, right, left)\n            v = comm.sendrecv(v, right, left)\n"
    "            key_positions = comm.sendrecv(key_positions, right, left)",
)
_ghost(
    "positions_sent_again",
    "Positions go on with their keys: yours sends its own in every step, so that from the second on they are another's.",
    _PASS,
    "k, v, key_positions = (comm.sendrecv(part, right, left) for part in (k, v, positions))",
)
_ghost(
    "values_stay_home",
    "Keys and values travel together: yours weighs its own values by the others' keys.",
    _PASS,
    "k, key_positions = (comm.sendrecv(part, right, left) for part in (k, key_positions))",
)
_ghost(
    "keys_stay_home",
    "Keys and values travel together: yours weighs the others' values by its own keys.",
    _PASS,
    "v, key_positions = (comm.sendrecv(part, right, left) for part in (v, key_positions))",
)
_ghost(
    "positions_the_other_way_round",
    "Positions go round as their keys do: yours come from the other neighbour.",
    _PASS,
    "k, v = (comm.sendrecv(part, right, left) for part in (k, v))\n"
    "            key_positions = comm.sendrecv(key_positions, left, right)",
)
_ghost(
    "one_round_short",
    "size parts are computed, size - 1 of them received: yours leaves one out.",
    _STEPS,
    "for step in range(max(1, comm.size - 1)):",
)
_ghost(
    "once_too_often",
    "The last part need not travel home: size - 1 times, and not size.",
    _RETURN,
    "if comm.size > 1:\n        for part in (k, v, key_positions):\n            comm.sendrecv(part, right, left)\n    "
    + _RETURN,
)
_ghost(
    "own_part_twice",
    "The own part is computed before anything is sent: after that each step needs a new one.",
    _SKIP,
    "if step == 0:\n            done = flash_attention(q, k, v, sees)\n        if sees.any():",
)
_ghost(
    "own_part_only",
    "The keys of the other ranks count as well.",
    _STEPS,
    "for step in range(1):",
)
_ghost(
    "own_part_left_out",
    "A rank's own keys count as well, not only what it receives.",
    _SKIP,
    "if sees.any() and (step or comm.size == 1):",
    _RETURN,
    "return (torch.zeros_like(q) if done is None else done[0]).to(q.dtype)",
)
_ghost(
    "mean_of_the_parts",
    "Parts are merged by their log-sum-exp: one with a single weak key does not count as much as others.",
    _MERGE,
    "done = part if done is None else (done[0] + part[0], done[1])\n        parts = step + 1",
    _RETURN,
    "return (done[0] / parts).to(q.dtype)",
)
_ghost(
    "sum_of_the_parts",
    "Each part is a mean of values: their sum is none. Merge by log-sum-exp.",
    _MERGE,
    "done = part if done is None else (done[0] + part[0], done[1])",
)
_ghost(
    "weights_of_the_last",
    "Merged, two parts have a log-sum-exp of both: with that of the last one alone the next part weighs too much.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], part[1])",
)
_ghost(
    "weights_of_the_first",
    "Merged, two parts have a log-sum-exp of both: yours keeps that of the first.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], done[1])",
)
_ghost(
    "larger_of_two_weights",
    "The log-sum-exp of two parts is log(e^a + e^b), more than the larger of them.",
    _MERGE,
    "done = part if done is None else (merge(*done, *part)[0], torch.maximum(done[1], part[1]))",
)
_ghost(
    "exponentials_as_they_are",
    "exp(lse) is infinite above 88 in float32, and 0 far below: weigh parts by differences of lse.",
    _MERGE,
    "if done is None:\n                done = part[0] * part[1].exp().unsqueeze(-1), part[1].exp()\n"
    "            else:\n"
    "                w = part[1].exp()\n"
    "                done = done[0] + part[0] * w.unsqueeze(-1), done[1] + w",
    _RETURN,
    "return (done[0] / done[1].unsqueeze(-1)).to(q.dtype)",
)
_ghost(
    "last_part_only",
    "What came before is merged with the part, not replaced by it.",
    _MERGE,
    "done = part",
)
_ghost(
    "no_mask",
    "Attention is causal: a query does not see later keys.",
    _SEES,
    "sees = torch.ones(len(positions), len(key_positions), dtype=torch.bool)",
)
_ghost(
    "not_itself",
    "A token sees itself: up to p, and p as well.",
    _SEES,
    "sees = key_positions < positions.unsqueeze(-1)",
    _RETURN,
    "return (torch.zeros_like(q) if done is None else done[0]).to(q.dtype)",
)
_ghost(
    "sees_what_is_later",
    "A query sees earlier keys: yours sees the later ones.",
    _SEES,
    "sees = key_positions >= positions.unsqueeze(-1)",
)
_ghost(
    "mask_transposed",
    "The mask is (queries, keys): yours has keys for rows.",
    _SEES,
    "sees = key_positions.unsqueeze(-1) <= positions",
)
_ghost(
    "causal_by_index_in_the_own_part",
    "The own part's tokens may be in any order: also here positions decide, not places.",
    _PART,
    "part = flash_attention(q, k, v, sees if step else 'causal')",
)
_ghost(
    "only_full_parts",
    "A part counts as soon as one query sees one key of it: the mask sees to the rest.",
    _SKIP,
    "if step == 0 or sees.all():",
)
_ghost(
    "skipped_by_the_first_position",
    "Positions on a rank are in no order: the first one says nothing of whether a part is seen.",
    _SKIP,
    "if key_positions[0] <= positions[-1] or not step:",
)
_ghost(
    "later_ranks_skipped",
    "Parts of higher ranks are later in a contiguous layout alone: yours leaves them out.",
    _SKIP,
    "if sees.any() and (comm.rank - step) >= 0:",
)
_ghost(
    "keys_gathered",
    "Keys and values of one other rank are here at a time: yours gathers all of them, which is what the ring avoids.",
    _START,
    "def gathered(x):\n"
    "        parts = [x]\n"
    "        for _ in range(comm.size - 1):\n"
    "            parts.append(comm.sendrecv(parts[-1], right, left))\n"
    "        return torch.cat(parts, -2 if x.dim() > 1 else 0)\n\n"
    "    key_positions, done = gathered(positions), None\n    k, v = gathered(k), gathered(v)",
    _STEPS,
    "for step in range(1):",
)
_ghost(
    "parts_collected",
    "A part is merged and passed on: yours keeps all of them until the end.",
    _START,
    "key_positions, done, kept = positions, None, []",
    _SEES,
    "kept.append((k, v))\n        sees = key_positions <= positions.unsqueeze(-1)",
)
_ghost(
    "own_part_sent_again",
    "What was received last is passed on: the right neighbour has yours already.",
    _START,
    "own, key_positions, done = (k, v, positions), positions, None",
    _PASS,
    "k, v, key_positions = (comm.sendrecv(part, right, left) for part in own)",
)
_ghost(
    "own_part_to_everybody",
    "Parts go round from neighbour to neighbour: yours sends its own to each of the others, across the whole ring.",
    _START,
    "own, key_positions, done = (k, v, positions), positions, None",
    _PASS,
    "to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size\n"
    "            k, v, key_positions = (comm.sendrecv(part, to, source) for part in own)",
)
_ghost(
    "queries_travel_as_well",
    "Queries stay where they are: keys and values come to them.",
    _PASS,
    _PASS + "\n            comm.sendrecv(q, right, left)",
)
_ghost(
    "repeated_before_they_travel",
    "KV heads travel once: repeated for each query head they are as many times larger.",
    _START,
    "k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))\n    key_positions, done = positions, None",
)
_ghost(
    "widened_before_they_travel",
    "Keys and values travel in their own dtype: float32 is twice the bytes of bfloat16.",
    _START,
    "k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (k, v))\n"
    "    key_positions, done = positions, None",
)
_ghost(
    "heads_interleaved",
    "Query heads that share a KV head are neighbours: head h reads KV head h // (H / G).",
    _PART,
    "order = torch.arange(q.shape[1]).view(-1, k.shape[1]).T.flatten()\n"
    "            part = flash_attention(q[:, order], k, v, sees)\n"
    "            part = part[0][:, order.argsort()], part[1][:, order.argsort()]",
)
_ghost(
    "scaled_twice",
    "Attention divides by the root of D already.",
    _PART,
    "part = flash_attention(q * q.shape[-1] ** -0.5, k, v, sees)",
)
_ghost(
    "wide_result",
    "The result has the queries' dtype, whatever parts are merged in.",
    _RETURN,
    "return done[0].to(done[1].dtype)",
)
_ghost(
    "lse_as_well",
    "The result is the output alone.",
    _RETURN,
    "return done[0].to(q.dtype), done[1]",
)
_ghost(
    "in_the_sequences_order",
    "Rows come back in the order of this rank's positions, not sorted.",
    _RETURN,
    "return done[0][:, :, positions.argsort()].to(q.dtype)",
)
_ghost(
    "cache_overwritten",
    "A rank's keys and values are its part of the cache: receive into tensors of your own.",
    _PASS,
    "k.copy_(comm.sendrecv(k, right, left))\n            v.copy_(comm.sendrecv(v, right, left))\n"
    "            key_positions = comm.sendrecv(key_positions, right, left)",
)
_ghost(
    "everybody_sends_first",
    "Where everybody sends first nobody receives: sendrecv does both at once.",
    _PASS,
    "for part in (k, v, key_positions):\n                comm.send(part, right)\n"
    "            k, v, key_positions = (comm.recv(part.shape, part.dtype, left) for part in (k, v, key_positions))",
)

# ---- zigzag_positions

_ghost(
    "contiguous_positions",
    "Later tokens see more keys: pair an early block with a late one.",
    _ZIGZAG,
    "return torch.cat([blocks[2 * rank], blocks[2 * rank + 1]])",
)
_ghost(
    "striped_positions",
    "Balanced as well, but another layout: here a rank has two whole blocks.",
    _ZIGZAG,
    "return torch.arange(rank, seq_len, size)",
)
_ghost(
    "two_blocks_from_the_front",
    "The second block is counted from the back: blocks rank and rank + size are both late, or both early.",
    _ZIGZAG,
    "return torch.cat([blocks[rank], blocks[rank + size]])",
)
_ghost(
    "mirror_off_by_one",
    "Of 2 · size blocks the last is 2 · size - 1: block `rank` pairs with 2 · size - 1 - rank.",
    _ZIGZAG,
    "return torch.cat([blocks[rank], blocks[(2 * size - 2 - rank) % (2 * size)]])",
)
_ghost(
    "late_block_first",
    "Block `rank` comes first, then the one from the back.",
    _ZIGZAG,
    "return torch.cat([blocks[2 * size - 1 - rank], blocks[rank]])",
)
_ghost(
    "late_block_backwards",
    "Each block is in order: the late one is not read backwards.",
    _ZIGZAG,
    "return torch.cat([blocks[rank], blocks[2 * size - 1 - rank].flip(0)])",
)
_ghost(
    "pairs_from_both_ends",
    "Blocks are as long as they can be, two to a rank: yours deals single tokens out from both ends.",
    _ZIGZAG,
    "return torch.arange(seq_len).view(-1, 2 * size)[:, [rank, 2 * size - 1 - rank]].flatten()",
)
_ghost(
    "early_block_only",
    "A rank has two blocks, seq_len / size positions.",
    _ZIGZAG,
    "return blocks[rank]",
)
_ghost(
    "int32_positions",
    "Positions are int64, as everywhere.",
    _BLOCKS,
    "blocks = torch.arange(seq_len, dtype=torch.int32).chunk(2 * size)",
)

# ---- causal_work

_ghost(
    "itself_not_counted",
    "Position p sees 0 .. p, itself too: p + 1 keys.",
    _WORK,
    "return [int(positions.sum()) for positions in positions_by_rank]",
)
_ghost(
    "own_keys_only",
    "A query sees the keys of all ranks, not those of its own rank alone.",
    _WORK,
    "return [len(positions) * (len(positions) + 1) // 2 for positions in positions_by_rank]",
)
_ghost(
    "every_pair",
    "A query sees earlier keys only: not all of the sequence.",
    _WORK,
    "return [len(positions) * sum(map(len, positions_by_rank)) for positions in positions_by_rank]",
)
_ghost(
    "tokens_counted",
    "Pairs of a query and a key: every rank has equally many tokens, and other work.",
    _WORK,
    "return [len(positions) for positions in positions_by_rank]",
)
_ghost(
    "largest_position",
    "All queries of a rank have work, not only its last one.",
    _WORK,
    "return [int(positions.max()) + 1 for positions in positions_by_rank]",
)
_ghost(
    "first_and_last",
    "Positions need not be evenly spaced, nor in order: add up what each of them sees.",
    _WORK,
    "return [int(p[0] + p[-1] + 2) * len(p) // 2 for p in positions_by_rank]",
)
_ghost(
    "share_of_the_mean",
    "Pairs are counted: in parts of the mean they are another number.",
    _WORK,
    "work = [int((positions + 1).sum()) for positions in positions_by_rank]\n"
    "    return [one * len(work) / sum(work) for one in work]",
)
_ghost(
    "work_of_all",
    "A number for each rank: the sum says nothing of balance.",
    _WORK,
    "return sum(int((positions + 1).sum()) for positions in positions_by_rank)",
)
_ghost(
    "tensors_for_numbers",
    "Python integers: take them out of the tensors.",
    _WORK,
    "return [(positions + 1).sum() for positions in positions_by_rank]",
)

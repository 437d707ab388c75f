"""Known-wrong programs of level09.tensor. `ghost` is given when this is read."""

_TOTAL = "total = ring_all_reduce(comm, any_linear(x, shard))"
_BIAS = "return total if bias is None else total + bias"
_ROWS = "rows = token_ids - comm.rank * len(shard)"
_THEIRS = "theirs = (rows < 0) | (rows >= len(shard))"
_OWN = "own = shard[rows.masked_fill(theirs, 0)].masked_fill(theirs.unsqueeze(-1), 0)"
_WHOLE = "return ring_all_reduce(comm, own)"
_BEST = "best = logits.argmax(-1)"
_VALUE = "value = logits.gather(-1, best.unsqueeze(-1)).squeeze(-1)"
_PAIR = "pair = torch.stack([value.double(), best + comm.rank * logits.shape[-1]], -1)"
_GATHER = "values, ids = ring_all_gather(comm, pair.unsqueeze(0)).unbind(-1)"
_WINNER = "winner = values.argmax(0, keepdim=True)"
_RETURN = "return ids.gather(0, winner).squeeze(0).long()"


def _linear(name, sentence, *pairs):
    ghost("level09.tensor.row_parallel_linear", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _argmax(name, sentence, *pairs):
    ghost("level09.tensor.vocab_parallel_argmax", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- row_parallel_linear

_linear(
    "bias_on_every_rank",
    "The bias is whole on every rank: in each partial sum it counts once for every rank. Add it to the total.",
    _TOTAL,
    "y = any_linear(x, shard)\n    return ring_all_reduce(comm, y if bias is None else y + bias)",
    _BIAS,
    "return None",
)
_linear(
    "bias_after_the_sum_on_rank_0",
    "The bias belongs to the result of every rank; rank 0 alone adds it only where that is before the sum.",
    _BIAS,
    "return total if bias is None or comm.rank else total + bias",
)
_linear(
    "bias_summed_by_itself",
    "The bias is the same on every rank: a sum over the ranks makes it as many times too large, and sends it as well.",
    _BIAS,
    "return total if bias is None else total + ring_all_reduce(comm, bias)",
)
_linear("bias_forgotten", "Where there is a bias it is added.", _BIAS, "return total")
_linear(
    "partial_sum",
    "A part of the inputs gives a part of each sum: it takes an all-reduce to complete it.",
    _TOTAL,
    "total = any_linear(x, shard)",
)
_linear(
    "reduced_in_place",
    "ring_all_reduce returns the sum, and leaves its argument as it is: yours drops what it returns.",
    _TOTAL,
    "total = any_linear(x, shard)\n    ring_all_reduce(comm, total)",
)
_linear(
    "mean_over_the_ranks",
    "The parts of a sum are added: averaging belongs to training.",
    _TOTAL,
    "total = ring_all_reduce(comm, any_linear(x, shard)) / comm.size",
)
_linear(
    "inputs_summed",
    "Each rank has other features: they meet in the result, not in the input.",
    _TOTAL,
    "total = any_linear(ring_all_reduce(comm, x), shard)",
)
_linear(
    "inputs_and_weights_gathered",
    "The weights stay where they are: only a result travels, and it is summed on the way.",
    _TOTAL,
    "from .collectives import ring_all_gather\n\n"
    "    if not isinstance(shard, Tensor):\n        total = ring_all_reduce(comm, any_linear(x, shard))\n"
    "    else:\n        x = ring_all_gather(comm, x.movedim(-1, 0).contiguous()).movedim(0, -1)\n"
    "        total = any_linear(x, ring_all_gather(comm, shard.T.contiguous()).T)",
)
_linear(
    "partial_sums_gathered",
    "All partial sums on every rank are size - 1 times the result: an all-reduce sends less than twice.",
    _TOTAL,
    "from .collectives import ring_all_gather\n\n"
    "    total = ring_all_gather(comm, any_linear(x, shard).unsqueeze(0)).sum(0)",
)
_linear(
    "side_by_side",
    "Partial sums are added. Side by side stand the outputs of a matrix that is split by outputs.",
    _TOTAL,
    "from .collectives import ring_all_gather\n\n"
    "    total = ring_all_gather(comm, any_linear(x, shard).unsqueeze(0))\n"
    "    total = total.movedim(0, -2).flatten(-2)[..., : total.shape[-1]]",
)
_linear(
    "a_sum_for_each_token",
    "One all-reduce for all tokens: each message has a latency of its own.",
    _TOTAL,
    "y = any_linear(x, shard)\n"
    "    total = torch.stack([ring_all_reduce(comm, row) for row in y.reshape(-1, y.shape[-1])]).view(y.shape)",
)
_linear(
    "tensors_only",
    "A weight need not be a tensor: level 06's any_linear applies quantized ones as well.",
    _TOTAL,
    "total = ring_all_reduce(comm, x @ shard.T)",
)
_linear(
    "summed_in_float64",
    "The sum travels in the result's dtype: a wider one is as many more bytes.",
    _TOTAL,
    "total = ring_all_reduce(comm, any_linear(x, shard).double()).to(x.dtype)",
)
_linear(
    "sum_on_rank_0_alone",
    "Every rank goes on with the whole result: yours leaves it on rank 0.",
    _TOTAL,
    "y = any_linear(x, shard)\n    total = ring_all_reduce(comm, y)\n    total = y if comm.rank else total",
)
_linear(
    "own_part_twice",
    "The all-reduce has this rank's own part in it already.",
    _TOTAL,
    "y = any_linear(x, shard)\n    total = y + ring_all_reduce(comm, y)",
)
_linear(
    "reduced_and_scattered",
    "A reduce-scatter leaves each rank a part of the sum; the all-gather behind it makes it whole.",
    _TOTAL,
    "from .collectives import ring_reduce_scatter\n\n"
    "    y = any_linear(x, shard)\n"
    "    y = torch.cat([y.flatten(), y.new_zeros(-y.numel() % comm.size)])\n"
    "    total = ring_reduce_scatter(comm, y).reshape(-1)",
)
_linear(
    "flat_result",
    "The result has the leading axes of x, (..., out).",
    _TOTAL,
    "total = ring_all_reduce(comm, any_linear(x, shard)).reshape(-1, (bias if bias is not None else shard).shape[0])",
)

# ---- vocab_parallel_embedding

_linear(
    "clamped_and_not_masked",
    "A clamped id reads some row of a rank that does not own the token: that rank must contribute zeros.",
    _OWN,
    "own = shard[rows.clamp(0, len(shard) - 1)]",
)
_linear(
    "modulo",
    "Only the owner has the row: an id modulo the part's size finds one on every rank.",
    _OWN,
    "own = shard[rows % len(shard)]",
)
_linear(
    "row_0_for_what_is_not_here",
    "A token of another rank contributes zeros, not this rank's first row.",
    _OWN,
    "own = shard[rows.masked_fill(theirs, 0)]",
)
_linear(
    "global_ids",
    "Row 0 of a part is the rank's first token: subtract it from the id.",
    _ROWS,
    "rows = token_ids * 1",
)
_linear(
    "ids_dealt_out",
    "A rank has a block of tokens that are neighbours, not every size-th one.",
    _ROWS,
    "rows = torch.where(token_ids % comm.size == comm.rank, token_ids // comm.size, -1)",
)
_linear(
    "negative_rows",
    "Tokens of lower ranks are not here either: a negative row counts from the end.",
    _THEIRS,
    "theirs = rows >= len(shard)",
    _OWN,
    "own = shard[rows.masked_fill(theirs, 0).clamp(min=-len(shard))].masked_fill(theirs.unsqueeze(-1), 0)",
)
_linear(
    "rows_too_large",
    "Tokens of higher ranks are not here either: clamped, they are the last row.",
    _THEIRS,
    "theirs = rows < 0",
    _OWN,
    "own = shard[rows.masked_fill(theirs, 0).clamp(max=len(shard) - 1)].masked_fill(theirs.unsqueeze(-1), 0)",
)
_linear(
    "first_of_the_next",
    "A part of v rows ends with v - 1: row v is the next rank's first token.",
    _THEIRS,
    "theirs = (rows < 0) | (rows > len(shard))",
    _OWN,
    "own = shard[rows.masked_fill(theirs, 0).clamp(max=len(shard) - 1)].masked_fill(theirs.unsqueeze(-1), 0)",
)
_linear(
    "last_one_left_out",
    "The last row of a part belongs to it as well: yours gives its token zeros.",
    _THEIRS,
    "theirs = (rows < 0) | (rows >= len(shard) - 1)",
)
_linear(
    "first_one_left_out",
    "Row 0 is a token as any other: yours gives the first token of each part zeros.",
    _THEIRS,
    "theirs = (rows <= 0) | (rows >= len(shard))",
)
_linear(
    "embedding_not_reduced",
    "Every rank needs all rows: the all-reduce brings them from their owners.",
    _WHOLE,
    "return own",
)
_linear(
    "embedding_averaged",
    "One rank has the row, the others zeros: their sum is the row, their mean a part of it.",
    _WHOLE,
    "return ring_all_reduce(comm, own) / comm.size",
)
_linear(
    "table_gathered",
    "The rows that were asked for travel, not the table: it is split because it is large.",
    _WHOLE,
    "from .collectives import ring_all_gather\n\n    return ring_all_gather(comm, shard)[token_ids]",
)
_linear(
    "only_rows_that_are_here",
    "All ranks reduce tensors of one shape, with zeros for tokens of others: with its own rows alone each has another.",
    _OWN,
    "own = shard[rows[~theirs]]",
)
_linear(
    "a_row_of_ids",
    "token_ids may have any number of axes, and the result has one more.",
    _WHOLE,
    "return ring_all_reduce(comm, own).reshape(-1, shard.shape[-1])",
)
_linear(
    "ids_changed",
    "token_ids are whole on every rank, and others read them: subtract into a tensor of your own.",
    _ROWS,
    "rows = token_ids.sub_(comm.rank * len(shard))",
)

# ---- vocab_parallel_argmax

_argmax(
    "number_in_the_part",
    "Token ids count through the whole vocabulary: add the rank's first token.",
    _PAIR,
    "pair = torch.stack([value.double(), best.double()], -1)",
)
_argmax(
    "own_part_only",
    "The most likely token may be on another rank: yours looks at its own part.",
    _RETURN,
    "return best + comm.rank * logits.shape[-1]",
)
_argmax(
    "logits_gathered",
    "The right token, and the whole vocabulary on the wire: of each part a value and an id are enough.",
    _RETURN,
    "return ring_all_gather(comm, logits.T.contiguous()).T.argmax(-1)",
)
_argmax(
    "last_of_a_tie",
    "On a tie between ranks the smallest id wins, that of the lowest rank; yours takes the highest.",
    _WINNER,
    "winner = len(values) - 1 - values.flip(0).argmax(0, keepdim=True)",
)
_argmax(
    "last_of_a_tie_within_a_part",
    "On a tie within a part the smallest id wins; yours takes the last.",
    _BEST,
    "best = logits.shape[-1] - 1 - logits.flip(-1).argmax(-1)",
)
_argmax(
    "own_part_wins_a_tie",
    "On a tie the smallest id wins on every rank: with its own part preferred, each rank says another token.",
    _WINNER,
    "winner = values.argmax(0, keepdim=True)\n"
    "    mine = values[comm.rank] == values.amax(0)\n"
    "    winner[0, mine] = comm.rank",
)
_argmax(
    "largest_id_of_all",
    "The id belongs to the largest value: yours takes the largest id.",
    _WINNER,
    "winner = ids.argmax(0, keepdim=True)",
)
_argmax(
    "smallest_id_of_all",
    "The id belongs to the largest value: yours takes the smallest id.",
    _WINNER,
    "winner = ids.argmin(0, keepdim=True)",
)
_argmax(
    "rank_for_token",
    "Which rank has the winner is not yet which token it is: yours returns the rank.",
    _RETURN,
    "return winner.squeeze(0)",
)
_argmax(
    "ids_in_the_logits_dtype",
    "bfloat16 has no 257: an id must travel in a dtype that counts that far.",
    _PAIR,
    "pair = torch.stack([value, (best + comm.rank * logits.shape[-1]).to(value.dtype)], -1)",
)
_argmax(
    "ids_in_float32",
    "float32 counts to 2^24: larger ids are rounded. float64, or integers of their own, hold both exactly.",
    _PAIR,
    "pair = torch.stack([value.float(), (best + comm.rank * logits.shape[-1]).float()], -1)",
)
_argmax(
    "values_in_16_bits",
    "Values decide by their last bit: in bfloat16, float32 logits that differ become a tie.",
    _PAIR,
    "pair = torch.stack([value.bfloat16().double(), best + comm.rank * logits.shape[-1]], -1)",
)
_argmax(
    "whole_values",
    "A value is a fraction: as an integer it ties with others.",
    _PAIR,
    "pair = torch.stack([value.nan_to_num(0, 9e15, -9e15).long(), best + comm.rank * logits.shape[-1]], -1)",
)
_argmax(
    "largest_magnitude",
    "The largest value wins, not the largest magnitude: most logits are negative.",
    _WINNER,
    "winner = values.abs().argmax(0, keepdim=True)",
)
_argmax(
    "sum_of_the_pairs",
    "A sum of values and ids is nobody's: each rank's pair is needed, side by side.",
    _GATHER,
    "values, ids = ring_all_reduce(comm, pair.unsqueeze(0)).unbind(-1)",
)
_argmax(
    "one_winner_for_all_rows",
    "Every row has a winner of its own.",
    _WINNER,
    "winner = values.amax(1).argmax().expand(1, values.shape[1])",
)
_argmax(
    "ids_as_floats",
    "Token ids are int64.",
    _RETURN,
    "return ids.gather(0, winner).squeeze(0)",
)
_argmax(
    "kept_axis",
    "The result is (n,), one id for each row.",
    _RETURN,
    "return ids.gather(0, winner).squeeze(0).long().unsqueeze(-1)",
)
_argmax(
    "first_row_only",
    "All rows of a batch are chosen in one go: yours answers for the first.",
    _RETURN,
    "return ids.gather(0, winner).squeeze(0).long()[:1]",
)
_argmax(
    "zeros_for_the_others",
    "A rank may have nothing above 0, and so may all: a value in place of a missing one must not win.",
    _GATHER,
    "values, ids = ring_all_gather(comm, pair.unsqueeze(0).clamp(min=0)).unbind(-1)",
)
_argmax(
    "least_of_all_for_masked",
    "-inf is a value like others: raised to -1e30, a masked row beats real logits of that size, or ties with them.",
    _PAIR,
    "pair = torch.stack([value.double().clamp(min=-1e30), best + comm.rank * logits.shape[-1]], -1)",
)
_argmax(
    "pairs_to_everybody",
    "Pairs go round from neighbour to neighbour: yours sends its own to each of the others, across the whole ring.",
    _GATHER,
    "pairs = [pair] * comm.size\n"
    "    for step in range(1, comm.size):\n"
    "        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size\n"
    "        pairs[source] = comm.sendrecv(pair, to, source)\n"
    "    values, ids = torch.stack(pairs).unbind(-1)",
)
_argmax(
    "masked_ones_raised",
    "The logits are the caller's, who may want their log-probabilities as well: leave them as they are.",
    _BEST,
    "best = logits.clamp_(min=torch.finfo(logits.dtype).min).argmax(-1)",
)

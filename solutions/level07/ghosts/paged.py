"""Known-wrong programs of level07.paged. `ghost` is given when this is read."""

_QUERIES = "q[0].to(wide).reshape(G, H // G * Q, D) * D**-0.5"
_SCALE = " * D**-0.5"
_START = "m = queries.new_full(queries.shape[:-1], -torch.inf)"
_STATE = "state = m, torch.zeros_like(m), torch.zeros_like(queries)"
_RANGE = "range(0, length, block_size)"
_END = "end = min(start + block_size, length)"
_BLOCK = "block = block_table[start // block_size]"
_TAKE = "pool[block, : end - start].transpose(0, 1).to(wide)"
_POOLS = "for pool in (k_pool, v_pool))"
_SCORES = "scores = queries @ keys.mT"
_KIND = 'if tile_kind(0, Q, start, end, length - Q) == "partial":'
_VISIBLE = '~visible("causal", 0, Q, start, end, length - Q)'
_UPDATE = "state = online_update(*state, scores, values)"
_FINAL = "finalize(*state)[0]"
_RETURN = "return finalize(*state)[0].reshape(1, H, Q, D).to(q.dtype)"
_LOOP = "    for start in range(0, length, block_size):\n"


def _paged(name, sentence, *pairs, **more):
    ghost("level07.paged.paged_attention", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)


# ---- where the tokens lie

_paged(
    "blocks_in_the_order_of_the_pool",
    "The sequence's first block is block_table[0], wherever that lies in the pool: go through the table.",
    _BLOCK,
    "block = start // block_size",
)
_paged(
    "table_sorted",
    "The table is in the order of the tokens; the numbers in it are not.",
    _BLOCK,
    "block = sorted(block_table)[start // block_size]",
)
_paged(
    "table_from_the_end",
    "The first tokens lie in the first block of the table.",
    _BLOCK,
    "block = block_table[-1 - start // block_size]",
)
_paged(
    "table_by_token",
    "The table has an entry for each block, not for each token: divide by the block size.",
    _BLOCK,
    "block = block_table[min(start, len(block_table) - 1)]",
)
_paged(
    "blocks_of_sixteen",
    "The block size is the pool's: 16 is only the usual one.",
    _BLOCK,
    "block = block_table[start // 16]",
)
_paged(
    "newest_block_left_out",
    "The last block is part of the sequence even if it is not full: its tokens are the newest.",
    _RANGE,
    "range(0, length // block_size * block_size or length, block_size)",
)
_paged(
    "stale_slots_masked",
    "A weight of 0 does not help against NaN in a value: do not read the slots behind `length`.",
    _END,
    "end = start + block_size",
)
_paged(
    "whole_last_block",
    "The last block may be full only in part: the slots behind `length` hold another sequence's tokens, or nothing yet.",
    _END,
    "end = start + block_size",
    _KIND,
    _KIND.replace("if", "if Q > 1 and"),
)
_paged(
    "stale_slots_read",
    "The slots behind `length` are read here, and then thrown away: take only the tokens of the block.",
    _TAKE,
    "(pool[block] + 0)[: end - start].transpose(0, 1).to(wide)",
)
_paged(
    "stale_slots_cleared",
    "A pool is read here, not written: the slots behind `length` may be another sequence's.",
    "keys, values = (",
    "k_pool[block, end - start :], v_pool[block, end - start :] = 0, 0\n        keys, values = (",
)
_paged(
    "last_tokens_of_the_block",
    "A block is filled from its first slot: the tokens of the last one are at its beginning.",
    _TAKE,
    "pool[block, block_size - end + start :].transpose(0, 1).to(wide)",
)
_paged(
    "every_block_of_the_table",
    "The table may be longer than needed: `length` says how many blocks are read.",
    _RANGE,
    "range(0, len(block_table) * block_size, block_size)",
)
_paged(
    "block_zero_is_padding",
    "Block 0 is a block like any other here.",
    "        keys, values = (",
    "        if block == 0:\n            continue\n        keys, values = (",
    convention=True,
)
_paged(
    "every_block_once",
    "A block that comes twice in the table stands for two parts of the sequence: both count.",
    _LOOP,
    "    seen = set()\n    for start in range(0, length, block_size):\n"
    "        if block_table[start // block_size] in seen:\n            continue\n"
    "        seen.add(block_table[start // block_size])\n",
)
_paged(
    "without_the_new_tokens",
    "The keys of the queries' own tokens are in the pool already: `length` counts them, and each sees itself.",
    _RANGE,
    "range(0, max(1, length - Q), block_size)",
    _END,
    "end = min(start + block_size, max(1, length - Q))",
)
_paged(
    "length_without_the_queries",
    "`length` counts the queries' own tokens as well: there are none behind it.",
    _KIND,
    "length += Q if start == 0 else 0\n        " + _KIND,
)
_paged(
    "newest_token_left_out",
    "The last token of `length` is the newest query's own: it sees itself.",
    _END,
    "end = min(start + block_size, max(length - 1, 1))",
    _RANGE,
    "range(0, max(length - 1, 1), block_size)",
)

# ---- heads and features

_paged(
    "heads_reshaped",
    "In a block the heads of a token stand together: transpose tokens and heads; a reshape mixes them.",
    _TAKE,
    "pool[block, : end - start].reshape(G, end - start, D).to(wide)",
)
_paged(
    "heads_interleaved",
    "Query heads that share a KV head are neighbours: head h reads KV head h // (H / G), not h % G.",
    _QUERIES,
    "q[0].to(wide).unflatten(0, (-1, G)).transpose(0, 1).reshape(G, H // G * Q, D) * D**-0.5",
    _RETURN,
    "out = " + _FINAL + ".view(G, H // G, Q, D).transpose(0, 1)\n    return out.reshape(1, H, Q, D).to(q.dtype)",
)
_paged(
    "first_kv_head",
    "Each group of query heads has a KV head of its own; yours gives all of them the first.",
    _TAKE,
    "pool[block, : end - start, :1].transpose(0, 1).expand(G, -1, -1).to(wide)",
)
_paged(
    "keys_for_values",
    "The weights are for the values, which are in v_pool.",
    _POOLS,
    "for pool in (k_pool, k_pool))",
)
_paged("pools_exchanged", "k_pool holds the keys, v_pool the values.", _POOLS, "for pool in (v_pool, k_pool))")
_paged("not_scaled", "Scores are divided by the root of head_dim.", _SCALE, "")
_paged("scaled_by_head_dim", "Scores are divided by the root of head_dim, not by head_dim.", _SCALE, " / D")
_paged(
    "scaled_by_block_size",
    "Scores are divided by the root of head_dim; the block size has nothing to do with it.",
    _SCALE,
    " * block_size**-0.5",
)
_paged(
    "scaled_in_place",
    "The query belongs to the caller: q.mul_ changes it for everybody. Multiply into a new tensor.",
    "queries = " + _QUERIES,
    "queries = q.mul_(D**-0.5)[0].to(wide).reshape(G, H // G * Q, D)",
)

# ---- the mask

_paged(
    "not_causal",
    "A query does not see the tokens behind it: a prompt in chunks has many queries.",
    _KIND,
    "if False:",
)
_paged(
    "aligned_to_the_first_token",
    "Query i stands at length - Q + i: with a cache before it, it sees more than i + 1 tokens.",
    _KIND,
    'if tile_kind(0, Q, start, end, 0) != "full":',
    _VISIBLE,
    '~visible("causal", 0, Q, start, end, 0)',
)
_paged(
    "aligned_and_partial_only",
    "Query i stands at length - Q + i, not at i: both `tile_kind` and `visible` ask for that offset.",
    _KIND,
    'if tile_kind(0, Q, start, end, 0) == "partial":',
    _VISIBLE,
    '~visible("causal", 0, Q, start, end, 0)',
)
_paged(
    "does_not_see_itself",
    "A token attends to itself as well.",
    _KIND,
    "if True:",
    _VISIBLE,
    '~visible("causal", 0, Q, start, end, length - Q - (length > Q))',
)
_paged(
    "sees_the_next_token",
    "The next token is what is to be predicted: the mask ends with the query's own.",
    _VISIBLE,
    '~visible("causal", 0, Q, start, end, length - Q + 1)',
)
_paged(
    "mask_only_in_the_last_block",
    "Queries may lie in several blocks, and each of these needs its mask.",
    _KIND,
    "if end == length:",
)
_paged(
    "mask_only_with_several_blocks",
    "A sequence of one block needs its mask as well.",
    _KIND,
    "if start > 0:",
)
_paged(
    "mask_by_the_place_in_the_block",
    "Keys count from the sequence's first token, not from that of the block.",
    _VISIBLE,
    '~visible("causal", 0, Q, 0, end - start, length - Q)',
)
_paged(
    "mask_of_rows_and_heads",
    "The rows of all heads of a group stand below each other: each head's rows begin with query 0 again.",
    "rows = scores.unflatten(1, (H // G, Q))",
    "rows = scores",
    _VISIBLE,
    '~visible("causal", 0, H // G * Q, start, end, length - Q)',
)
_paged(
    "masked_with_a_number",
    "Real scores may be lower than any number you choose: -inf is below them all.",
    "length - Q), -torch.inf)",
    "length - Q), -1e4)",
)
_paged(
    "masked_with_zero",
    "A score of 0 has a weight: a token that may not be seen has the score -inf.",
    "length - Q), -torch.inf)",
    "length - Q), 0)",
)

# ---- one pass over the blocks

_paged(
    "starts_at_a_number",
    "Scores may be lower than any number you begin with: the first maximum is -inf.",
    _START,
    "m = queries.new_full(queries.shape[:-1], -1e4)",
)
_paged(
    "starts_at_zero",
    "The first maximum is -inf: with 0 all weights of scores far below 0 are 0.",
    _START,
    "m = torch.zeros(queries.shape[:-1], dtype=wide)",
)
_paged(
    "blocks_averaged",
    "A block with small scores must not count like one with large ones: merge by what each has of the sum.",
    _UPDATE,
    "alone = finalize(*online_update(*state, scores, values))[0]\n        outs = alone if start == 0 else outs + alone",
    _RETURN,
    "return (outs / -(-length // block_size)).reshape(1, H, Q, D).to(q.dtype)",
)
_paged(
    "last_block_only",
    "What the blocks before have summed up is carried on, not begun anew.",
    _UPDATE,
    "state = online_update(m, torch.zeros_like(m), torch.zeros_like(queries), scores, values)",
)
_paged(
    "first_block_only",
    "All blocks of the sequence count, not only the first.",
    _RANGE,
    "range(0, min(length, block_size), block_size)",
)
_paged(
    "never_divided",
    "The accumulator is a sum: divide by the denominator, once, at the end.",
    _FINAL,
    "state[2]",
)
_paged(
    "divided_after_every_block",
    "Divide once, at the end: a normalised accumulator weighs too little when the next block comes.",
    _UPDATE,
    "state = online_update(*state, scores, values)\n        state = *state[:2], state[2] / state[1][..., None]",
)
_paged(
    "denominator_forgotten",
    "The denominator is summed over all blocks, as the accumulator is.",
    _UPDATE,
    "state = online_update(state[0], 0 * m.exp(), state[2], scores, values)",
)
_paged(
    "old_blocks_not_rescaled",
    "When the maximum moves, what was summed before is in units of the old one: multiply it by exp(old - new).",
    _UPDATE,
    "first, m = start == 0, m.maximum(scores.amax(-1))\n"
    "        weights = (scores - m[..., None]).exp()\n"
    "        state = m, state[1] + weights.sum(-1), state[2] + weights @ values",
)
_paged(
    "maximum_of_the_block",
    "Keep the largest score of all blocks so far: with each block's own, the blocks are in different units.",
    _UPDATE,
    "top = scores.amax(-1).nan_to_num(neginf=0)\n"
    "        weights = (scores - top[..., None]).exp()\n"
    "        state = top, state[1] + weights.sum(-1), state[2] + weights @ values",
)
_paged(
    "exp_of_raw_scores",
    "exp(1000) is infinite: subtract the largest score so far before the exponential.",
    _UPDATE,
    "state = 0 * m.exp(), state[1] + scores.exp().sum(-1), state[2] + scores.exp() @ values",
)
_paged(
    "lse_for_out",
    "`finalize` returns out, then lse: out is asked for.",
    _FINAL,
    "finalize(*state)[1][..., None].expand(-1, -1, D)",
)

# ---- what it costs

_paged(
    "gathered",
    "Gathering copies the whole cache before it is read: a block is a tile, so read it where it lies.",
    _LOOP,
    "    every = [(block_table[t // block_size], t % block_size) for t in range(length)]\n"
    "    blocks, offsets = torch.tensor(every).T\n"
    "    k_pool, v_pool = (pool[blocks, offsets][None] for pool in (k_pool, v_pool))\n"
    "    block_size, block_table = length, [0]\n" + _LOOP,
)
_paged(
    "blocks_joined",
    "Blocks that are joined first are the whole cache once more: attend to each block as it comes.",
    _LOOP,
    "    needed = [slice(0, min(block_size, length - start)) for start in range(0, length, block_size)]\n"
    "    k_pool, v_pool = (torch.cat([pool[b, s] for b, s in zip(block_table, needed)])[None] for pool in (k_pool, v_pool))\n"
    "    block_size, block_table = length, [0]\n" + _LOOP,
)
_paged(
    "scores_kept_and_joined",
    "Scores of all blocks at once grow with the sequence: the online softmax needs those of one block only.",
    _UPDATE,
    "kept = [scores] if start == 0 else kept + [scores]",
    _RETURN,
    "weights, acc = torch.cat(kept, -1).softmax(-1).split(block_size, -1), 0\n"
    "    for part, block in zip(weights, block_table):\n"
    "        acc = acc + part @ v_pool[block, : part.shape[-1]].transpose(0, 1).to(wide)\n"
    "    return acc.reshape(1, H, Q, D).to(q.dtype)",
)
_paged(
    "kv_heads_repeated",
    "A KV head is not copied for each of its query heads: stack their rows, and multiply them with it at once.",
    _SCORES,
    "keys, values = (x.repeat_interleave(H // G, 0) for x in (keys, values))\n"
    "        scores = (queries.reshape(H, Q, D) @ keys.mT).reshape(G, H // G * Q, -1)",
    _UPDATE,
    "state = online_update(*state, scores, values[:: H // G])",
)
_paged(
    "copies_kept",
    "A block is done with when the next one comes: copies that stay in a list are a gathered cache.",
    _UPDATE,
    "held = [(keys, values)] if start == 0 else held + [(keys, values)]\n        " + _UPDATE,
)
_paged(
    "maximum_first",
    "Every key is read once: the online softmax needs no pass of its own for the maximum.",
    _LOOP,
    "    for start in range(0, length, block_size):\n"
    "        keys = k_pool[block_table[start // block_size], : length - start].transpose(0, 1).to(wide)\n"
    "        m = m.maximum((queries @ keys.mT).amax(-1))\n"
    "    state = m, *state[1:]\n" + _LOOP,
)
_paged(
    "read_for_each_query",
    "The queries share what is read: a block is read once for all of them, not once for each.",
    _SCORES,
    "scores = torch.cat([queries[:, i : i + 1] @ keys.mT for i in range(queries.shape[1])], 1)",
)

# ---- dtypes and shapes

_paged(
    "query_dtype_for_arithmetic",
    "Sums over many tokens in half precision lose their digits: compute in float32, cast the result.",
    _FINAL,
    _FINAL,
    _QUERIES,
    "q[0].reshape(G, H // G * Q, D) * D**-0.5",
    _TAKE,
    "pool[block, : end - start].transpose(0, 1).to(q.dtype)",
)
_paged(
    "pool_dtype_for_arithmetic",
    "The pool may be in half precision, the arithmetic is not: yours computes in the pool's dtype.",
    _QUERIES,
    "q[0].to(k_pool.dtype).reshape(G, H // G * Q, D) * D**-0.5",
    _TAKE,
    "pool[block, : end - start].transpose(0, 1)",
)
_paged(
    "pool_not_cast",
    "A pool in bfloat16 and a query in float32 can't be multiplied as they are: cast the block.",
    _TAKE,
    "pool[block, : end - start].transpose(0, 1)",
)
_paged(
    "always_float32",
    "A float64 query is computed in float64.",
    _QUERIES,
    "q[0].float().reshape(G, H // G * Q, D) * D**-0.5",
    _TAKE,
    "pool[block, : end - start].transpose(0, 1).float()",
)
_paged(
    "weights_rounded",
    "The weights stay in float32 until they have met the values: rounded, every term of the sum is off.",
    _UPDATE,
    "state = online_update(*state, scores.to(q.dtype).to(wide), values)",
)
_paged(
    "wide_result",
    "The result has the query's dtype: the next layer expects it.",
    _RETURN,
    "return finalize(*state)[0].reshape(1, H, Q, D)",
)
_paged(
    "pool_dtype_for_the_result",
    "The result has the query's dtype, not the pool's.",
    _RETURN,
    "return finalize(*state)[0].reshape(1, H, Q, D).to(k_pool.dtype)",
)
_paged(
    "batch_axis_lost",
    "The result is (1, H, Q, D), as q is.",
    _RETURN,
    "return finalize(*state)[0].reshape(H, Q, D).to(q.dtype)",
)
_paged(
    "heads_behind_the_queries",
    "The result is (1, H, Q, D): heads come before tokens.",
    _RETURN,
    "return finalize(*state)[0].reshape(1, H, Q, D).transpose(1, 2).to(q.dtype)",
)
_paged(
    "rows_taken_for_tokens",
    "The rows of a group are its heads, each with Q queries: split them in that order.",
    _RETURN,
    "out = finalize(*state)[0].reshape(G, Q, H // G, D).transpose(1, 2)\n"
    "    return out.reshape(1, H, Q, D).to(q.dtype)",
)
_paged(
    "lse_as_well",
    "Attention for `forward` returns out alone; an lse is only needed where parts are merged.",
    _RETURN,
    "out, lse = finalize(*state)\n    return out.reshape(1, H, Q, D).to(q.dtype), lse.reshape(1, H, Q)",
)
_paged(
    "whole_pool_cast",
    "Casting the pool copies what all sequences hold, for one of them: cast the tokens of a block.",
    _LOOP,
    "    k_pool, v_pool = k_pool.to(wide), v_pool.to(wide)\n" + _LOOP,
)

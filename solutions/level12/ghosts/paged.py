"""Known-wrong programs of level12.paged. `ghost` is given when this is read."""

ID = "level12.paged.decode_attention"
SEEN = "seen = torch.arange(len(keys) // N) < lengths[:, None]"
CLEAN = "for held in (keys, values):"
FILL = "held.index_fill_(0, (~seen).flatten().nonzero()[:, 0], 0)"
GATHER = "pool.index_select(0, tables.flatten()).flatten(0, 1).to(q.dtype)"
POOLS = "for pool in (k_pool, v_pool))"
ROWS = "q.reshape(N, G, H // G, D)"
HELD = "held.view(N, -1, G, D).transpose(1, 2)"
ATTEND = "scaled_dot_product_attention(*rows, seen[:, None, None]).reshape(N, H, D)"

ghost(
    ID,
    "nothing_masked",
    "Slots behind a sequence's tokens are not its tokens: without a mask they take part of the softmax, even as zeros.",
    change=(ATTEND, ATTEND.replace("seen[:, None, None]", "None")),
)
ghost(
    ID,
    "only_padding_masked",
    "The last block may be partly full: yours masks block 0, and sees the slots behind the last token.",
    change=(SEEN, "seen = (tables != 0).repeat_interleave(k_pool.shape[1], 1)"),
)
ghost(
    ID,
    "one_token_too_many",
    "Positions below the length are seen; yours sees the slot at the length, too, which holds somebody else's token.",
    change=(SEEN, SEEN.replace("<", "<=")),
)
ghost(
    ID,
    "without_its_own_token",
    "`lengths` includes the query's own token, whose key is in the pool already; yours leaves it out.",
    change=(SEEN, "seen = torch.arange(len(keys) // N) < (lengths[:, None] - 1).clamp(min=1)"),
)
ghost(
    ID,
    "longest_for_all",
    "Every sequence has its own length; yours masks all by the longest.",
    change=(SEEN, SEEN.replace("lengths[:, None]", "lengths.max().expand(N, 1)")),
)
ghost(
    ID,
    "shortest_for_all",
    "Every sequence has its own length; yours cuts all to the shortest.",
    change=(SEEN, SEEN.replace("lengths[:, None]", "lengths.min().expand(N, 1)")),
)
ghost(
    ID,
    "masked_values_left",
    "A weight of 0 times NaN is NaN: values that are not seen must be cleared as well, not only masked.",
    change=(CLEAN, "for held in (keys,):"),
)
ghost(
    ID,
    "masked_keys_left",
    "A score of NaN stays NaN when -inf is added: keys that are not seen must be cleared as well, not only masked.",
    change=(CLEAN, "for held in (values,):"),
)
ghost(
    ID,
    "only_nan_cleared",
    "Infinity survives a product with 0 as well: clear what is not seen, whatever is in it, not only NaN.",
    change=(FILL, "held.masked_fill_(held.isnan(), 0)"),
)
ghost(
    ID,
    "clears_the_pool",
    "The pool belongs to all sequences: clear a copy of what was gathered, never the blocks themselves.",
    change=(CLEAN, "k_pool.nan_to_num_(0, 0, 0), v_pool.nan_to_num_(0, 0, 0)\n    " + CLEAN),
)
ghost(
    ID,
    "heads_dealt_out",
    "Query head h reads KV head h // (H / G), so neighbours share one; yours deals them out in turn, h % G.",
    change=[
        (ROWS, "q.reshape(N, H // G, G, D).transpose(1, 2)"),
        (ATTEND, ATTEND.replace(".reshape", ".transpose(1, 2).reshape")),
    ],
)
ghost(
    ID,
    "first_kv_head_for_all",
    "Every group of query heads has a KV head of its own; yours reads the first for all.",
    change=(HELD, HELD + "[:, :1].expand(-1, G, -1, -1)"),
)
ghost(
    ID,
    "causal_over_heads",
    "The query is the last token and sees all of its own; is_causal takes the rows of a group for queries in a row.",
    change=(ATTEND, "scaled_dot_product_attention(*rows, is_causal=True).reshape(N, H, D)"),
)
ghost(
    ID,
    "pool_in_memory_order",
    "Follow the block table: yours reads the first blocks of the pool for everybody.",
    change=(
        GATHER,
        "pool.index_select(0, 1 + torch.arange(tables.numel()) % (len(pool) - 1)).flatten(0, 1).to(q.dtype)",
    ),
)
ghost(
    ID,
    "tables_sorted",
    "The entries of a table are in the order of the tokens; yours are sorted, so that padding and tokens change places.",
    change=(GATHER, GATHER.replace("tables.flatten()", "tables.sort(1).values.flatten()")),
)
ghost(
    ID,
    "first_table_for_all",
    "Each sequence has its own row of tables; yours reads the blocks of the first one.",
    change=(GATHER, GATHER.replace("tables.flatten()", "tables[:1].expand_as(tables).flatten()")),
)
ghost(
    ID,
    "entries_are_slots",
    "An entry of a table is a block; yours takes it for a slot, and reads on from there.",
    change=(
        GATHER,
        "pool.flatten(0, 1)[(tables[:, :, None] + torch.arange(pool.shape[1])).flatten()].to(q.dtype)",
    ),
)
ghost(
    ID,
    "keys_for_values",
    "The weights are of the keys, the sum is over the values; yours adds up keys.",
    change=(POOLS, "for pool in (k_pool, k_pool))"),
)
ghost(
    ID,
    "not_scaled",
    "Scores are divided by sqrt(head_dim); yours are not.",
    change=(ATTEND, ATTEND.replace("seen[:, None, None]", "seen[:, None, None], scale=1.0")),
)
ghost(
    ID,
    "dtype_of_the_pool",
    "Compute in the dtype of q: yours rounds the query, scores and sums to that of the pool.",
    change=[
        (GATHER, GATHER.replace(".to(q.dtype)", "")),
        (ROWS, "q.to(k_pool.dtype).reshape(N, G, H // G, D)"),
        (ATTEND, ATTEND + ".to(q.dtype)"),
    ],
)

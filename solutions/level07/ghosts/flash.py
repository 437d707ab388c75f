"""Known-wrong programs of level07.flash. `ghost` is given when this is read."""

import torch

# ---- tile_kind

_SKIP = "if k_start > offset + q_end - 1:"
_FULL = "k_end - 1 <= offset + q_start"


def _kind(name, sentence, *change):
    ghost("level07.flash.tile_kind", name, sentence, change=[*zip(change[::2], change[1::2])])


_kind(
    "offset_ignored",
    "With a cache of four, query 0 stands at position 4: add the offset before comparing with a key.",
    _SKIP,
    "if k_start > q_end - 1:",
    _FULL,
    "k_end - 1 <= q_start",
)
_kind(
    "offset_subtracted",
    "The offset is what stands before the first query: it is added to the query's number, not taken from it.",
    _SKIP,
    "if k_start > q_end - 1 - offset:",
    _FULL,
    "k_end - 1 <= q_start - offset",
)
_kind(
    "offset_not_below_0",
    "With more queries than keys the offset is negative, and the first queries see nothing: do not cut it off at 0.",
    _SKIP,
    "offset = max(offset, 0)\n    if k_start > offset + q_end - 1:",
)
_kind(
    "offset_for_skip_only",
    "The offset counts for both questions: whether the first query sees the last key depends on it too.",
    _FULL,
    "k_end - 1 <= q_start",
)
_kind(
    "offset_for_full_only",
    "The offset counts for both questions: whether the last query sees the first key depends on it too.",
    _SKIP,
    "if k_start > q_end - 1:",
)
_kind(
    "compares_tile_numbers",
    "Tiles of other widths than heights do not line up: compare positions, not numbers of tiles.",
    _SKIP,
    "row, column = (q_start + offset) // (q_end - q_start), k_start // (k_end - k_start)\n    if column > row:",
    _FULL,
    "column < row",
)
_kind(
    "compares_starts",
    "Where tiles begin says too little: the last query of one may see keys behind its first query.",
    _SKIP,
    "if k_start > offset + q_start:",
    _FULL,
    "k_start < offset + q_start",
)
_kind(
    "first_query_decides",
    "A tile is skipped only if its *last* query, the one that sees most, does not see its first key.",
    _SKIP,
    "if k_start > offset + q_start:",
)
_kind(
    "last_query_decides",
    "A tile is full only if its *first* query, the one that sees least, sees its last key.",
    _FULL,
    "k_end - 1 <= offset + q_end - 1",
)
_kind(
    "last_key_decides",
    "A tile whose last key nobody sees is not skipped: its first keys may be seen.",
    _SKIP,
    "if k_end - 1 > offset + q_end - 1:",
)
_kind(
    "first_key_decides",
    "A tile is full only if its *last* key is seen by every query, not its first one.",
    _FULL,
    "k_start <= offset + q_start",
)
_kind(
    "diagonal_excluded_from_partial",
    "A token attends to itself: where the last query stands at the first key, that one score counts.",
    _SKIP,
    "if k_start >= offset + q_end - 1:",
)
_kind(
    "diagonal_excluded_from_full",
    "A token attends to itself: a tile whose last key is the first query's own is full, and needs no mask.",
    _FULL,
    "k_end - 1 < offset + q_start",
)
_kind(
    "diagonal_excluded",
    "Query i sees the keys up to offset + i, that one included: a token attends to itself.",
    _SKIP,
    "if k_start >= offset + q_end - 1:",
    _FULL,
    "k_end - 1 < offset + q_start",
)
_kind(
    "end_is_a_query",
    "q_end is the first query that is *not* in the tile: with it the tile reaches one key too far.",
    _SKIP,
    "if k_start > offset + q_end:",
)
_kind(
    "one_further",
    "Query i sees offset + i + 1 keys, the last of which is number offset + i.",
    _SKIP,
    "if k_start > offset + q_end:",
    _FULL,
    "k_end - 1 <= offset + q_start + 1",
)
_kind(
    "never_full",
    "Below the diagonal nothing is masked: a tile that everybody sees whole is full, and most tiles are.",
    'return "full" if k_end - 1 <= offset + q_start else "partial"',
    'return "partial"',
)
_kind(
    "never_skipped",
    "A tile that nobody sees is skipped: masked instead, it costs as much as one that counts.",
    _SKIP,
    "if False:",
)
_kind(
    "all_or_nothing",
    "A tile on the diagonal is neither full nor skipped: some of its queries see some of its keys.",
    'else "partial"',
    'else "skip"',
)
_kind(
    "looks_back",
    "Queries see keys that came before them: these comparisons are the wrong way round.",
    _SKIP,
    "if k_end - 1 < offset + q_start:",
    _FULL,
    "k_start >= offset + q_end - 1",
)
_kind(
    "one_query_sees_all",
    "A tile of one query may be partial: it need not see all keys of the tile.",
    _FULL,
    "k_end - 1 <= offset + q_start or q_end - q_start == 1",
)

# ---- flash_attention

_GROUPED = "grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []"
_TOPS = "for top in range(0, Q, block_q):"
_BOTTOM = "bottom = min(top + block_q, Q)"
_QUERIES = "queries = grouped[..., top:bottom, :].to(wide).flatten(2, 3) * D**-0.5"
_M = "m = queries.new_full(queries.shape[:-1], -torch.inf)"
_STATE = "state = m, torch.zeros_like(m), torch.zeros_like(queries)"
_LEFTS = "for left in range(0, K, block_k):"
_RIGHT = "right = min(left + block_k, K)"
_TELL = 'kind = tile_kind(top, bottom, left, right, K - Q) if isinstance(mask, str) else "partial"'
_SKIPPED = 'if kind == "skip":'
_SCORES = "scores = queries @ k[:, :, left:right].to(wide).mT"
_NEEDS = 'if kind == "partial" and mask is not None:'
_MASKED = "rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q), -torch.inf)"
_VALUES = "v[:, :, left:right].to(wide))"
_NEXT = "state = online_update(*state, scores, v[:, :, left:right].to(wide))"
_DONE = "out, lse = finalize(*state)"
_OUTS = "outs.append(out.unflatten(2, (H // G, -1)).to(q.dtype))"
_LSES = "lses.append(lse.unflatten(2, (H // G, -1)))"
_END = "return torch.cat(outs, 3).flatten(1, 2), torch.cat(lses, 3).flatten(1, 2)"


def _flash(name, sentence, *change):
    ghost("level07.flash.flash_attention", name, sentence, change=[*zip(change[::2], change[1::2])])


_flash(
    "scale_forgotten",
    "Scores are divided by sqrt(head_dim), as in level 00.",
    _QUERIES,
    "queries = grouped[..., top:bottom, :].to(wide).flatten(2, 3) * 1.0",
)
_flash(
    "divided_by_head_dim",
    "Scores are divided by the root of head_dim, once: not by head_dim, nor by the root on both sides.",
    _QUERIES,
    "queries = grouped[..., top:bottom, :].to(wide).flatten(2, 3) / D",
)
_flash(
    "lse_before_scaling",
    "The log-sum-exp is that of the scaled scores, of which out is made.",
    _LSES,
    "lses.append((lse * D**0.5).unflatten(2, (H // G, -1)))",
)
_flash(
    "top_left_causal",
    "With a cache the last query sees the last key: query i stands at position K - Q + i, not at i.",
    _TELL,
    'kind = tile_kind(top, bottom, left, right, 0) if isinstance(mask, str) else "partial"',
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, left, right, 0), -torch.inf)",
)
_flash(
    "offset_not_below_0",
    "With more queries than keys the first ones see nothing: K - Q is negative then, and not 0.",
    _TELL,
    'kind = tile_kind(top, bottom, left, right, max(K - Q, 0)) if isinstance(mask, str) else "partial"',
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, left, right, max(K - Q, 0)), -torch.inf)",
)
_flash(
    "position_within_the_tile",
    "A tile's first query is number `top` of the sequence, not number 0: the mask goes by positions.",
    _MASKED,
    "rows.masked_fill_(~visible(mask, 0, bottom - top, 0, right - left, K - Q), -torch.inf)",
)
_flash(
    "mask_moved_by_the_queries",
    "Keys count from 0 as well: the tile begins at key `left`, not at the number of its first query.",
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, min(top, K - right + left), min(top, K - right + left) + right - left, K - Q), -torch.inf)",
)
_flash(
    "diagonal_hidden",
    "A token attends to itself: the tile is masked one key too early.",
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q - isinstance(mask, str)), -torch.inf)",
)
_flash(
    "partial_not_masked",
    "Tiles are skipped whole, but one on the diagonal is seen in part: it needs its own mask.",
    _NEEDS,
    'if kind == "partial" and isinstance(mask, torch.Tensor):',
)
_flash(
    "partial_skipped",
    "A tile on the diagonal is seen in part: skipped, each query loses its newest keys, itself among them.",
    _SKIPPED,
    'if kind == "skip" or (kind == "partial" and isinstance(mask, str)):',
)
_flash(
    "causal_always",
    'Only "causal" looks at positions: with None every query attends to every key.',
    _GROUPED,
    'mask = "causal" if mask is None else mask\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []',
)
_flash(
    "booleans_ignored",
    "A mask of booleans counts too: padding is to be hidden.",
    _NEEDS,
    'if kind == "partial" and isinstance(mask, str):',
)
_flash(
    "booleans_and_causal",
    "A mask of booleans says all: what it allows is not to be cut by positions as well.",
    _MASKED,
    'rows.masked_fill_(~(visible(mask, top, bottom, left, right, K - Q) & visible("causal", top, bottom, left, right, K - Q)), -torch.inf)',
)
_flash(
    "booleans_inverted",
    "True means: may attend. This mask hides what should be seen.",
    _MASKED,
    "rows.masked_fill_(visible(mask, top, bottom, left, right, K - Q) ^ isinstance(mask, str), -torch.inf)",
)
_flash(
    "first_tile_of_the_mask",
    "Each tile has its own part of the mask, not the first one.",
    _MASKED,
    "hidden = visible(mask, top, bottom, left, right, K - Q) if isinstance(mask, str) else mask[..., : bottom - top, : right - left]\n                rows.masked_fill_(~hidden, -torch.inf)",
)
_flash(
    "one_mask_for_all_heads",
    "A mask may differ from head to head.",
    _GROUPED,
    "mask = mask[:, :1, :1] if isinstance(mask, torch.Tensor) else mask\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "one_mask_for_a_group",
    "Query heads of a group share keys and values, not their mask.",
    _GROUPED,
    "mask = mask[:, :, :1] if isinstance(mask, torch.Tensor) else mask\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "one_mask_for_the_batch",
    "Each sequence of a batch has its own padding.",
    _GROUPED,
    "mask = mask[:1] if isinstance(mask, torch.Tensor) else mask\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "stops_at_a_masked_tile",
    "Behind a tile that a mask of booleans hides others may be seen: padding on the left fills the first ones.",
    _SKIPPED,
    'if kind == "skip" or (isinstance(mask, torch.Tensor) and not mask[..., top:bottom, left:right].any()):',
)
_flash(
    "finite_mask",
    "-10,000 instead of -inf is a score: where the real ones are lower, the hidden keys win.",
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q), -1e4)",
)
_flash(
    "very_finite_mask",
    "-1e30 instead of -inf is a score too: a row that may attend to nothing gets the mean of what is hidden.",
    _MASKED,
    "rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q), -1e30)",
)
_flash(
    "finite_start",
    "A query that has seen nothing has -inf as its maximum: begun at -10,000 its real scores may all be below.",
    _M,
    "m = queries.new_full(queries.shape[:-1], -1e4)",
)
_flash(
    "gqa_modulo",
    "Query head h reads KV head h // (H / G): the heads of a group are neighbours, not G apart.",
    _GROUPED,
    "grouped, outs, lses = q.unflatten(1, (H // G, G)).transpose(1, 2), [], []\n    mask = mask.flatten(1, 2).unflatten(1, (H // G, G)).transpose(1, 2) if isinstance(mask, torch.Tensor) else mask",
    _END,
    "return torch.cat(outs, 3).transpose(1, 2).flatten(1, 2), torch.cat(lses, 3).transpose(1, 2).flatten(1, 2)",
)
_flash(
    "rows_and_heads_exchanged",
    "Stacked, the rows of one head stand together: taken apart as rows first, they are mixed with other heads'.",
    _OUTS,
    "outs.append(out.unflatten(2, (-1, H // G)).transpose(2, 3).to(q.dtype))",
    _LSES,
    "lses.append(lse.unflatten(2, (-1, H // G)).transpose(2, 3))",
)
_flash(
    "first_kv_head_for_all",
    "Each group of query heads has a KV head of its own: this reads the first one for all.",
    _SCORES,
    "scores = queries @ k[:, :1, left:right].to(wide).mT",
    _VALUES,
    "v[:, :1, left:right].to(wide))",
)
_flash(
    "ragged_keys_dropped",
    "The last tile of keys may be narrower: it holds the newest keys.",
    _LEFTS,
    "for left in range(0, max(K - block_k + 1, 1), block_k):",
)
_flash(
    "ragged_keys_padded",
    "A tile filled up with zeros has keys that nobody gave: their score is 0, and exp(0 - m) is not.",
    _NEXT,
    "extra = left + block_k - right\n            scores = torch.nn.functional.pad(scores, (0, extra))\n            state = online_update(*state, scores, torch.nn.functional.pad(v[:, :, left:right].to(wide), (0, 0, 0, extra)))",
)
_flash(
    "last_tile_from_the_end",
    "The last tile is smaller; moved back to full width it has keys that were counted before.",
    _SCORES,
    "start = max(0, right - block_k)\n            scores = queries @ k[:, :, start:right].to(wide).mT",
    _NEEDS,
    "if mask is not None and isinstance(mask, torch.Tensor) or kind == 'partial' and mask is not None or start < left and isinstance(mask, str):",
    _MASKED,
    "rows = scores.unflatten(2, (H // G, bottom - top))\n                rows.masked_fill_(~visible(mask, top, bottom, start, right, K - Q), -torch.inf)",
    "rows = scores.unflatten(2, (H // G, bottom - top))  # (B, G, H / G, rows, keys)",
    "pass",
    _VALUES,
    "v[:, :, start:right].to(wide))",
)
_flash(
    "keys_end_with_the_queries",
    "There may be more keys than queries: a cache is behind them. The tiles of keys go up to K.",
    _LEFTS,
    "for left in range(0, min(Q, K), block_k):",
)
_flash(
    "values_of_the_first_tile",
    "Values go with their keys: each tile has its own.",
    _VALUES,
    "v[:, :, : right - left].to(wide))",
)
_flash(
    "state_goes_on",
    "Each tile of queries begins with nothing seen: maximum -inf, sums 0.",
    _STATE,
    "state = (m, torch.zeros_like(m), torch.zeros_like(queries)) if not outs or m.shape != state[0].shape else state",
)
_flash(
    "last_tile_only",
    "Each tile of keys goes on from what the others gave: the state is passed on.",
    _NEXT,
    "state = online_update(m, torch.zeros_like(m), torch.zeros_like(queries), scores, v[:, :, left:right].to(wide))",
)
_flash(
    "tiles_averaged",
    "Tiles are normalised together, once: the mean of their softmaxes gives each tile the same weight.",
    _STATE,
    "state = m, torch.zeros_like(m), torch.zeros_like(queries)\n        parts = []",
    _NEXT,
    "parts.append(finalize(*online_update(*state, scores, v[:, :, left:right].to(wide))))",
    _DONE,
    "out = torch.stack([part[0] for part in parts]).mean(0) if parts else state[2]\n        lse = torch.stack([part[1] for part in parts]).logsumexp(0) if parts else m",
)
_flash(
    "not_divided",
    "At the end the weighted sum is divided by the sum of the weights.",
    _DONE,
    "out, lse = state[2], finalize(*state)[1]",
)
_flash(
    "maximum_as_lse",
    "The log-sum-exp is the maximum plus the log of the sum: parts are merged by it.",
    _DONE,
    "out, lse = finalize(*state)[0], state[0]",
)
_flash(
    "lse_not_returned",
    "Two things are returned: without the log-sum-exp no split can be merged.",
    _END,
    "return torch.cat(outs, 3).flatten(1, 2)",
)
_flash(
    "lse_with_an_axis",
    "The log-sum-exp is one number for each query, (B, H, Q): no axis is left where the keys were.",
    _END,
    "return torch.cat(outs, 3).flatten(1, 2), torch.cat(lses, 3).flatten(1, 2)[..., None]",
)
_flash(
    "empty_rows_left_out",
    "A tile of queries that see nothing has rows all the same: zeros.",
    _DONE,
    "if state[0] is m and outs == [] and bottom < Q:\n            continue\n        out, lse = finalize(*state)",
)
_flash(
    "out_stays_wide",
    "Out has the dtype of q: bfloat16 in, bfloat16 out.",
    _OUTS,
    "outs.append(out.unflatten(2, (H // G, -1)))",
)
_flash(
    "lse_in_half_precision",
    "The log-sum-exp stays in float32: in bfloat16 it has three digits, and merges would go by those.",
    _LSES,
    "lses.append(lse.unflatten(2, (H // G, -1)).to(q.dtype))",
)
_flash(
    "scores_in_half_precision",
    "In bfloat16 a score has three digits, and its exponential is off by percents: convert first, then multiply.",
    _QUERIES,
    "queries = grouped[..., top:bottom, :].flatten(2, 3) * D**-0.5",
    _SCORES,
    "scores = (queries @ k[:, :, left:right].to(q.dtype).mT).to(wide)",
    _M,
    "m = queries.new_full(queries.shape[:-1], -torch.inf, dtype=wide)",
    _STATE,
    "state = m, torch.zeros_like(m), torch.zeros_like(queries, dtype=wide)",
)
_flash(
    "scaled_in_half_precision",
    "Convert first, then scale: a query that is scaled in bfloat16 is rounded once more.",
    _QUERIES,
    "queries = (grouped[..., top:bottom, :] * D**-0.5).to(wide).flatten(2, 3)",
)
_flash(
    "values_in_half_precision",
    "Weights rounded to bfloat16 for the product with the values are off by up to 0.4 %: the arithmetic is in float32.",
    _NEXT,
    "new = torch.maximum(state[0], scores.amax(-1))\n            base = new.masked_fill(new == -torch.inf, 0)\n            weights, shrink = torch.exp(scores - base[..., None]), torch.exp(state[0] - base)\n            mixed = weights.to(q.dtype).to(wide) @ v[:, :, left:right].to(wide)\n            state = new, state[1] * shrink + weights.sum(-1), state[2] * shrink[..., None] + mixed",
)
_flash(
    "always_float32",
    "Float64 queries are computed in float64, and so is their log-sum-exp.",
    _GROUPED,
    "wide = torch.float32\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "dtype_of_the_keys",
    "The dtype of q counts: a cache in bfloat16 below float32 queries does not make the answer bfloat16.",
    _OUTS,
    "outs.append(out.unflatten(2, (H // G, -1)).to(k.dtype))",
)
_flash(
    "computed_and_masked",
    "Right, at twice the price: a tile that nobody sees is not computed and then masked, it is skipped.",
    _TELL,
    'kind = "partial"',
)
_flash(
    "read_before_skipped",
    "A tile that nobody sees is read here, to be converted, and then skipped: ask first.",
    _TELL,
    'keys, values = k[:, :, left:right].to(wide), v[:, :, left:right].to(wide)\n            kind = tile_kind(top, bottom, left, right, K - Q) if isinstance(mask, str) else "partial"',
    _SKIPPED + "\n                break",
    _SKIPPED + "\n                continue",
    _SCORES,
    "scores = queries @ keys.mT",
    _VALUES,
    "values)",
)
_flash(
    "query_by_query",
    "Tiles are block_q queries tall: query by query, keys and values are read once for each of them.",
    _GROUPED,
    "block_q = 1\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "half_as_tall",
    "Tiles are block_q queries tall: with half of that, keys and values are read twice as often.",
    _GROUPED,
    "block_q = -(-block_q // 2)\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "all_keys_at_once",
    "A tile has block_k keys: with all of them at once its scores are a strip of the matrix.",
    _GROUPED,
    "block_k = K\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "all_queries_at_once",
    "A tile has block_q queries: with all of them at once its scores are a strip of the matrix.",
    _GROUPED,
    "block_q = Q\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "blocks_exchanged",
    "block_q counts queries and block_k keys: exchanged, tiles are tall where they should be wide.",
    _GROUPED,
    "block_q, block_k = block_k, block_q\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "square_tiles",
    "block_k is a size of its own: keys in tiles of block_q are not what was asked for.",
    _GROUPED,
    "block_k = block_q\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "fixed_tiles",
    "The tile's sizes are the caller's, who knows what fits on the chip: 128 is only their default.",
    _GROUPED,
    "block_q = block_k = 128\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "mask_of_the_whole",
    "The causal mask of all queries and keys is a matrix as large as the scores: make each tile's own part.",
    _GROUPED,
    'whole = visible("causal", 0, Q, 0, K, K - Q)\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []',
    _MASKED,
    "seen = whole[top:bottom, left:right] if isinstance(mask, str) else visible(mask, top, bottom, left, right, K - Q)\n                rows.masked_fill_(~seen, -torch.inf)",
)
_flash(
    "mask_stretched",
    "A mask of one row stretched to all heads and queries, and copied, is as large as the matrix of scores.",
    _GROUPED,
    "mask = mask.contiguous() if isinstance(mask, torch.Tensor) else mask\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "one_query_at_once",
    "One query goes tile by tile as well: its scores with a long cache, of all heads, are more than the cache itself.",
    _GROUPED,
    "block_k = K if Q == 1 else block_k\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "keys_in_the_dtype_of_q",
    "Keys may be wider than the queries: converted to float32 they are exact, rounded to the dtype of q they are not.",
    _SCORES,
    "scores = queries @ k[:, :, left:right].to(q.dtype).to(wide).mT",
)
_flash(
    "values_in_the_dtype_of_q",
    "Values may be wider than the queries: only what comes out is rounded to the dtype of q.",
    _VALUES,
    "v[:, :, left:right].to(q.dtype).to(wide))",
)
_flash(
    "as_wide_as_the_keys",
    "What counts is the dtype of q: float64 keys below float32 queries do not make a float64 log-sum-exp.",
    _GROUPED,
    "wide = torch.promote_types(wide, k.dtype)\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "kv_repeated",
    "Keys and values copied for each query head take H / G times the memory that GQA saved.",
    _GROUPED,
    "k, v = k.repeat_interleave(H // G, 1), v.repeat_interleave(H // G, 1)\n    mask = mask.flatten(1, 2).unsqueeze(2) if isinstance(mask, torch.Tensor) else mask\n    G = H\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
)
_flash(
    "kv_broadcast",
    "A product copies what it stretches: with an axis of 1 for the group, each KV head is copied for each query head.",
    _SCORES,
    "stretched = k[:, :, None, left:right].to(wide).mT\n            scores = (queries.unflatten(2, (H // G, -1)) @ stretched).flatten(2, 3)",
)
_flash(
    "scales_in_place",
    "The queries that were given stay as they are: the next layer's caller still has them.",
    _GROUPED,
    "q *= D**-0.5\n    grouped, outs, lses = q.unflatten(1, (G, H // G)), [], []",
    _QUERIES,
    "queries = grouped[..., top:bottom, :].to(wide).flatten(2, 3)",
)


def _reading(q, k, v, mask, block_q, block_k):
    """What the programs below have in common: (tile of queries as float, wide k and v, scores of a tile with -inf)."""
    from level07.flash import tile_kind, visible

    if block_q < 1 or block_k < 1 or q.shape[1] % k.shape[1]:
        raise ValueError("blocks, or heads")
    (B, H, Q, D), (G, K) = q.shape, k.shape[1:3]
    wide = torch.promote_types(q.dtype, torch.float32)
    if isinstance(mask, torch.Tensor):
        mask = mask.broadcast_to(B, H, Q, K).unflatten(1, (G, H // G))

    def tile(top, left):
        bottom, right = min(top + block_q, Q), min(left + block_k, K)
        kind = tile_kind(top, bottom, left, right, K - Q) if isinstance(mask, str) else "partial"
        if kind == "skip":
            return None
        queries = q[:, :, top:bottom].to(wide).reshape(B, G, H // G * (bottom - top), D) * D**-0.5
        scores = queries @ k[:, :, left:right].to(wide).mT
        if kind == "partial" and mask is not None:
            rows = scores.unflatten(2, (H // G, bottom - top))
            rows.masked_fill_(~visible(mask, top, bottom, left, right, K - Q), -torch.inf)
        return scores

    def whole(outs, lses):
        apart = [(o.unflatten(2, (H // G, -1)), e.unflatten(2, (H // G, -1))) for o, e in zip(outs, lses)]
        out, lse = torch.cat([o for o, _ in apart], 3), torch.cat([e for _, e in apart], 3)
        return out.flatten(1, 2).to(q.dtype), lse.flatten(1, 2)

    tops, lefts = range(0, Q, block_q), range(0, K, block_k)
    return tops, lefts, tile, lambda left: v[:, :, left : left + block_k].to(wide), whole


def _whole_matrix(q, k, v, mask="causal", block_q=128, block_k=128):
    if block_q < 1 or block_k < 1:
        raise ValueError("blocks")
    _, _, tile, values, whole = _reading(q, k, v, mask, q.shape[2], k.shape[2])
    scores = tile(0, 0)
    out = scores.softmax(-1).nan_to_num(nan=0.0) @ v.to(scores.dtype)
    return whole([out], [scores.logsumexp(-1)])


def _joined(q, k, v, mask="causal", block_q=128, block_k=128):
    tops, lefts, tile, values, whole = _reading(q, k, v, mask, block_q, block_k)
    outs, lses = [], []
    for top in tops:
        tiles = [(left, scores) for left in lefts if (scores := tile(top, left)) is not None]
        if not tiles:
            n, wide = min(block_q, q.shape[2] - top), torch.promote_types(q.dtype, torch.float32)
            rows = q.shape[1] // k.shape[1] * n
            outs.append(torch.zeros(len(q), k.shape[1], rows, q.shape[3], dtype=wide))
            lses.append(torch.full((len(q), k.shape[1], rows), -torch.inf, dtype=wide))
            continue
        row = torch.cat([scores for _, scores in tiles], -1)
        outs.append(row.softmax(-1).nan_to_num(nan=0.0) @ torch.cat([values(left) for left, _ in tiles], 2))
        lses.append(row.logsumexp(-1))
    return whole(outs, lses)


def _kept(q, k, v, mask="causal", block_q=128, block_k=128):
    tops, lefts, tile, values, whole = _reading(q, k, v, mask, block_q, block_k)
    outs, lses = [], []
    for top in tops:
        n, wide = min(block_q, q.shape[2] - top), torch.promote_types(q.dtype, torch.float32)
        rows = q.shape[1] // k.shape[1] * n
        m = torch.full((len(q), k.shape[1], rows), -torch.inf, dtype=wide)
        tiles = [(left, scores) for left in lefts if (scores := tile(top, left)) is not None]
        for _, scores in tiles:
            m = torch.maximum(m, scores.amax(-1))
        base = m.masked_fill(m == -torch.inf, 0)[..., None]
        total, out = torch.zeros_like(m), torch.zeros(*m.shape, q.shape[3], dtype=wide)
        for left, scores in tiles:
            weights = torch.exp(scores - base)
            total, out = total + weights.sum(-1), out + weights @ values(left)
        outs.append(out / total.clamp(min=1)[..., None])
        lses.append(m + total.log())
    return whole(outs, lses)


def _two_passes(q, k, v, mask="causal", block_q=128, block_k=128):
    tops, lefts, tile, values, whole = _reading(q, k, v, mask, block_q, block_k)
    outs, lses = [], []
    for top in tops:
        n, wide = min(block_q, q.shape[2] - top), torch.promote_types(q.dtype, torch.float32)
        lse = torch.full((len(q), k.shape[1], q.shape[1] // k.shape[1] * n), -torch.inf, dtype=wide)
        for left in lefts:
            if (scores := tile(top, left)) is not None:
                lse = torch.logaddexp(lse, scores.logsumexp(-1))
        out = torch.zeros(*lse.shape, q.shape[3], dtype=wide)
        base = lse.masked_fill(lse == -torch.inf, 0)[..., None]
        for left in lefts:
            if (scores := tile(top, left)) is not None:
                out += torch.exp(scores - base) @ values(left)
        outs.append(out)
        lses.append(lse)
    return whole(outs, lses)


for _name, _program, _sentence in (
    ("whole_matrix", _whole_matrix, "The whole matrix of scores was made: it is what does not fit on the chip."),
    ("tiles_joined", _joined, "Tiles of scores that are joined for one softmax are a strip of the matrix again."),
    (
        "tiles_kept",
        _kept,
        "Tiles of scores are kept until the maximum is known: all of them are the matrix, in pieces.",
    ),
    (
        "two_passes",
        _two_passes,
        "Each tile is computed twice: one pass is enough, when the sums are rescaled on the way.",
    ),
):
    ghost("level07.flash.flash_attention", _name, _sentence, program=_program)

# ---- met by somebody who played the level

_flash(
    "mask_inverted",
    "`visible` is True where a query may attend: hidden is what it is not.",
    _MASKED,
    "rows.masked_fill_(visible(mask, top, bottom, left, right, K - Q), -torch.inf)",
)
_flash(
    "divided_after_every_tile",
    "Divide once, behind the last tile: an accumulator that is a mean already weighs too little when the next one comes.",
    _NEXT,
    _NEXT + "\n            state = *state[:2], state[2] / state[1].clamp(min=1)[..., None]",
)
_flash(
    "all_in_the_dtype_of_q",
    "Arithmetic and log-sum-exp are in `wide`, float32 at least: in the dtype of q each sum is rounded again.",
    "wide = torch.promote_types(q.dtype, torch.float32)",
    "wide = q.dtype",
)
_flash(
    "starts_at_zero",
    "A query that has seen nothing has -inf as its maximum: begun at 0, all weights of scores far below are 0.",
    _M,
    "m = queries.new_zeros(queries.shape[:-1])",
)
_flash(
    "full_tiles_of_keys_only",
    "Rounded down, the number of tiles leaves out the newest keys, and all of them where there are fewer than a tile.",
    _LEFTS,
    "for left in range(0, K // block_k * block_k, block_k):",
)
_flash(
    "rows_stacked_before_heads",
    "Stacked are the heads of a group, each with its rows in order: (H / G, rows), not (rows, H / G).",
    _QUERIES,
    "queries = grouped[..., top:bottom, :].to(wide).transpose(2, 3).flatten(2, 3) * D**-0.5",
)

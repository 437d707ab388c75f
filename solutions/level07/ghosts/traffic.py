"""Known-wrong programs of level07.traffic. `ghost` is given when this is read."""

_NAIVE = "4 * n * head_dim + 4 * n * n"
_ENDS = "[min(top + block_q, n) for top in range(0, n, block_q)]"
_KEYS = "[min(-(-end // block_k) * block_k, n) if causal else n for end in ends]"
_READ = "min(-(-end // block_k) * block_k, n)"
_TILES = "2 * n + 2 * sum(keys)"
_INPUTS = "bytes_per_element * head_dim * (block_q + 2 * block_k)"
_MADE = "4 * (block_q * block_k + block_q * head_dim + 2 * block_q)"
_FIXED = "fixed = bytes_per_element * head_dim * 2 * block_k"
_ROW = "tile_sram_bytes(1, block_k, head_dim, bytes_per_element) - fixed"
_LARGEST = "int((sram_bytes - fixed) // (of_a_row * multiple_of)) * multiple_of"
_FLOPS = "4 * group * q_len * kv_len * head_dim"
_MOVED = "2 * kv_len + 2 * group * q_len"


def _flash(name, sentence, *pairs):
    ghost("level07.traffic.flash_attention_bytes", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _largest(name, sentence, *pairs):
    ghost("level07.traffic.largest_block_q", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _intensity(name, sentence, *pairs):
    ghost("level07.traffic.attention_intensity", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- naive_attention_bytes

_flash(
    "scores_move_once",
    "Scores and weights are each written and read again: four times n x n, not once.",
    _NAIVE,
    "4 * n * head_dim + n * n",
)
_flash(
    "scores_move_twice",
    "Softmax is a step of its own here: scores are written and read, and so are the weights: four times n x n.",
    _NAIVE,
    "4 * n * head_dim + 2 * n * n",
)
_flash(
    "softmax_in_place",
    "Softmax reads n x n and writes n x n: that it may write over the scores saves memory, but no traffic.",
    _NAIVE,
    "4 * n * head_dim + 3 * n * n",
)
_flash(
    "softmax_in_two_passes",
    "Each step reads its input once; yours lets softmax read the scores once for the maximum and once for the sum.",
    _NAIVE,
    "4 * n * head_dim + 5 * n * n",
)
_flash(
    "only_what_goes_in_and_out",
    "Between the steps n x n matrices cross memory, and they are most of the bytes: Q, K, V and the output are not all.",
    _NAIVE,
    "4 * n * head_dim",
)
_flash(
    "only_the_scores",
    "Q, K and V are read and the output is written, too: four matrices of n x head_dim.",
    _NAIVE,
    "4 * n * n",
)
_flash(
    "output_not_written",
    "The output crosses memory as well: four matrices of n x head_dim, not three.",
    _NAIVE,
    "3 * n * head_dim + 4 * n * n",
)
_flash("flops_for_bytes", "This counts FLOPs; bytes are asked for.", _NAIVE, "4 * n * n * head_dim")
_flash(
    "scores_in_float32",
    "Here all elements take bytes_per_element, the scores, too; yours has scores of 4 bytes.",
    "bytes_per_element * (4 * n * head_dim + 4 * n * n)",
    "bytes_per_element * 4 * n * head_dim + 16 * n * n",
)
_flash(
    "elements_for_bytes",
    "These are elements: each has bytes_per_element bytes.",
    "bytes_per_element * (4 * n * head_dim + 4 * n * n)",
    "float(4 * n * head_dim + 4 * n * n)",
)
_flash(
    "naive_in_whole_bytes",
    "bytes_per_element may be half a byte or 0.5625: cut to an integer it is nothing.",
    "bytes_per_element * (4 * n * head_dim + 4 * n * n)",
    "int(bytes_per_element) * (4 * n * head_dim + 4 * n * n)",
)
_flash(
    "naive_rounded_up_to_a_byte",
    "A number may take less than a byte: two of four bits share one.",
    "bytes_per_element * (4 * n * head_dim + 4 * n * n)",
    "max(1, bytes_per_element) * (4 * n * head_dim + 4 * n * n)",
)
_flash(
    "naive_causal",
    "In three steps the whole matrix of scores is made and moved: half of it is not saved.",
    _NAIVE,
    "4 * n * head_dim + 2 * n * (n + 1)",
)

# ---- flash_attention_bytes

_flash(
    "keys_read_once",
    "K and V do not stay on the chip: each tile of queries reads them again.",
    _TILES,
    "2 * n + 2 * max(keys)",
)
_flash(
    "last_queries_forgotten",
    "A last tile that is smaller reads keys and values like the others: round the number of tiles up.",
    _ENDS,
    "[top + block_q for top in range(0, n - block_q + 1, block_q)]",
)
_flash(
    "a_tile_too_many",
    "n / block_q tiles where it divides evenly, and one more only where something is left.",
    _ENDS,
    "[min(top + block_q, n) for top in range(0, n + 1, block_q)]",
)
_flash(
    "tiles_as_a_fraction",
    "A smaller last tile of queries reads as many keys as a full one: the number of tiles is a whole one.",
    _TILES,
    "2 * n + (2 * n * n / block_q if not causal else 2 * sum(keys))",
)
_flash(
    "keys_without_values",
    "For each tile of queries both K and V are read: twice as many numbers as there are keys.",
    _TILES,
    "2 * n + sum(keys)",
)
_flash(
    "queries_not_read",
    "Q is read once as well: n x head_dim on top of the output, and of K and V.",
    _TILES,
    "n + 2 * sum(keys)",
)
_flash(
    "only_keys_and_values",
    "Q is read and the output is written once: 2 n x head_dim on top of K and V.",
    _TILES,
    "2 * sum(keys)",
)
_flash(
    "scores_leave_the_chip",
    "Scores live and die on the chip: that they are never moved is what the tiles are for.",
    _TILES,
    "2 * n + 2 * sum(keys) + 2 * n * n / head_dim",
)
_flash(
    "output_for_each_tile_of_keys",
    "The accumulator stays on the chip until its tile of queries is done: the output is written once.",
    _TILES,
    "n + n * -(-n // block_k) + 2 * sum(keys)",
)
_flash(
    "loops_exchanged",
    "block_q says how often K and V are read; yours takes block_k, as if the keys stayed and the queries went past.",
    _ENDS,
    "[min(top + block_k, n) for top in range(0, n, block_k)]",
)
_flash(
    "lse_counted",
    "The log-sum-exp, one number for each query, is not counted here.",
    _TILES,
    "2 * n + 2 * sum(keys) + n / head_dim",
)
_flash(
    "whole_tiles_of_keys",
    "A last tile of keys that is smaller has no more bytes than keys: nothing behind the end is read.",
    _KEYS,
    "[-(-(end if causal else n) // block_k) * block_k for end in ends]",
)
_flash(
    "whole_tiles_of_queries",
    "A last tile of queries that is smaller is read and written as far as it goes: n rows of Q and of the output.",
    _TILES,
    "2 * len(ends) * block_q + 2 * sum(keys)",
)
_flash(
    "causal_forgotten",
    "With causal, tiles of which nobody sees anything are not read.",
    _KEYS,
    "[n for end in ends]",
)
_flash(
    "causal_always",
    "Without causal every query sees every key: all tiles are read.",
    _KEYS,
    "[min(-(-end // block_k) * block_k, n) for end in ends]",
)
_flash(
    "causal_is_half",
    "A causal mask halves the scores, not the bytes: tiles on the diagonal are read whole.",
    _TILES,
    "2 * n + (n * len(ends) if causal else 2 * sum(keys))",
)
_flash(
    "keys_by_position",
    "A tile that is seen in part is read whole: what is read ends with a tile of keys, not with the last query.",
    _READ,
    "end",
)
_flash(
    "partial_tiles_skipped",
    "Only a tile of which nobody sees anything is skipped: one that is seen in part is read, and read whole.",
    _READ,
    "min(end // block_k * block_k, n)",
)
_flash(
    "one_tile_further",
    "The tile that begins behind the last query is not seen: when the queries end where a tile of keys ends, stop there.",
    _READ,
    "min((end // block_k + 1) * block_k, n)",
)
_flash(
    "first_query_decides",
    "The last query of a tile sees most, so it decides which keys are read, not the first one.",
    _READ,
    "min(-(-max(end - block_q + 1, 1) // block_k) * block_k, n)",
)
_flash(
    "ends_beyond_the_prompt",
    "The last tile of queries ends with the prompt: it sees no further, if block_q is larger than what is left.",
    _READ,
    "-(-end // block_k) * block_k",
)
_flash(
    "tile_numbers_compared",
    "Tiles of queries and of keys have sizes of their own: tile i of one does not end where tile i of the other does.",
    _KEYS,
    "[min((i + 1) * block_k, n) if causal else n for i in range(len(ends))]",
)
_flash(
    "tiles_in_whole_bytes",
    "Bytes per element may be a fraction, and the bytes of a tile as well: nothing is cut off.",
    "bytes_per_element * head_dim * (2 * n + 2 * sum(keys))",
    "int(bytes_per_element * head_dim * (2 * n + 2 * sum(keys)))",
)
_flash(
    "tiles_without_features",
    "Each row of Q, K, V and the output has head_dim numbers.",
    "bytes_per_element * head_dim * (2 * n + 2 * sum(keys))",
    "bytes_per_element * (2 * n + 2 * sum(keys))",
)
_flash(
    "tiles_without_width",
    "Elements are not bytes: in bfloat16 these are half of what moves, in float32 a quarter.",
    "bytes_per_element * head_dim * (2 * n + 2 * sum(keys))",
    "float(head_dim * (2 * n + 2 * sum(keys)))",
)

# ---- tile_sram_bytes

_largest(
    "scores_forgotten",
    "The scores of the tile are on the chip, too: block_q x block_k of them in float32.",
    _MADE,
    "4 * (block_q * head_dim + 2 * block_q)",
)
_largest(
    "accumulator_forgotten",
    "The accumulator is on the chip until all keys have gone past: block_q x head_dim in float32.",
    _MADE,
    "4 * (block_q * block_k + 2 * block_q)",
)
_largest(
    "row_state_forgotten",
    "Each row keeps its maximum and its denominator: two more numbers.",
    _MADE,
    "4 * (block_q * block_k + block_q * head_dim)",
)
_largest(
    "one_number_for_each_row",
    "A row keeps two numbers, its maximum and its denominator.",
    _MADE,
    "4 * (block_q * block_k + block_q * head_dim + block_q)",
)
_largest(
    "everything_narrow",
    "Scores and sums are float32, 4 bytes, however narrow the inputs are.",
    _MADE,
    "bytes_per_element * (block_q * block_k + block_q * head_dim + 2 * block_q)",
)
_largest(
    "accumulator_narrow",
    "The accumulator is float32: sums over thousands of keys in bfloat16 lose their digits.",
    _MADE,
    "4 * (block_q * block_k + 2 * block_q) + bytes_per_element * block_q * head_dim",
)
_largest(
    "scores_narrow",
    "Scores are float32 on the chip, whatever the inputs are.",
    _MADE,
    "4 * (block_q * head_dim + 2 * block_q) + bytes_per_element * block_q * block_k",
)
_largest(
    "everything_wide",
    "Q, K and V stay as they come, in bytes_per_element: only what is computed is float32.",
    _INPUTS,
    "4 * head_dim * (block_q + 2 * block_k)",
)
_largest(
    "values_forgotten",
    "A tile holds keys and values: two times block_k rows.",
    _INPUTS,
    "bytes_per_element * head_dim * (block_q + block_k)",
)
_largest(
    "queries_forgotten",
    "The tile's queries are on the chip as well: block_q rows in bytes_per_element.",
    _INPUTS,
    "bytes_per_element * head_dim * 2 * block_k",
)
_largest(
    "as_many_keys_as_queries",
    "There are block_k keys and values: K and V do not have the rows of Q.",
    _INPUTS,
    "bytes_per_element * head_dim * 3 * block_q",
)
_largest(
    "state_for_each_key",
    "Maximum and denominator belong to the rows, which are queries.",
    _MADE,
    "4 * (block_q * block_k + block_q * head_dim + 2 * block_k)",
)
_largest(
    "weights_beside_scores",
    "The weights take the place of the scores: one tile of block_q x block_k is enough.",
    _MADE,
    "4 * (2 * block_q * block_k + block_q * head_dim + 2 * block_q)",
)
_largest(
    "accumulator_of_keys",
    "The accumulator has a row for each query: block_q x head_dim.",
    _MADE,
    "4 * (block_q * block_k + block_k * head_dim + 2 * block_q)",
)
_largest(
    "sram_in_whole_bytes",
    "A number may take a fraction of a byte: an int(...) around it cuts bytes off that are needed.",
    "return inputs + 4",
    "return int(inputs) + 4",
)
_largest(
    "width_in_whole_bytes",
    "bytes_per_element may be 0.5: as an integer it is 0, and the inputs weigh nothing.",
    _INPUTS,
    "int(bytes_per_element) * head_dim * (block_q + 2 * block_k)",
)

# The same beside a search that does not call tile_sram_bytes, and is right.
_SEARCH = "bytes_per_element * head_dim + 4 * (block_k + head_dim + 2)"
for _name, _sentence, _old, _new in (
    ("scores", "scores, block_q x block_k", _MADE, "4 * (block_q * head_dim + 2 * block_q)"),
    ("accumulator", "accumulator, block_q x head_dim", _MADE, "4 * (block_q * block_k + 2 * block_q)"),
    ("row_state", "two numbers of each row, maximum and denominator", _MADE, "4 * block_q * (block_k + head_dim)"),
    ("second_number", "second number of each row", _MADE, "4 * block_q * (block_k + head_dim + 1)"),
    ("values", "values beside the keys", _INPUTS, "bytes_per_element * head_dim * (block_q + block_k)"),
    ("queries", "tile's queries", _INPUTS, "bytes_per_element * head_dim * 2 * block_k"),
):
    _largest(
        f"{_name}_forgotten_in_the_sum",
        f"`largest_block_q` is right; what tile_sram_bytes adds up lacks the {_sentence}.",
        _old,
        _new,
        _ROW,
        _SEARCH,
    )
for _name, _sentence, _old, _new in (
    (
        "narrow",
        "all in bytes_per_element: what is computed, scores and sums, is float32.",
        _MADE,
        "bytes_per_element * (block_q * block_k + block_q * head_dim + 2 * block_q)",
    ),
    (
        "wide",
        "all in float32: Q, K and V stay as they come, in bytes_per_element.",
        _INPUTS,
        "4 * head_dim * (block_q + 2 * block_k)",
    ),
):
    _largest(
        f"{_name}_in_the_sum",
        f"`largest_block_q` is right; tile_sram_bytes counts {_sentence}",
        _old,
        _new,
        _ROW,
        _SEARCH,
    )

# ---- largest_block_q

_largest(
    "first_that_does_not_fit",
    "The last multiple that fits is asked for; yours is the next one, the first that does not.",
    _LARGEST,
    "(int((sram_bytes - fixed) // (of_a_row * multiple_of)) + 1) * multiple_of",
)

_largest(
    "nearest_multiple",
    "A tile that does not fit does not run: round down to the multiple, not to the nearest one.",
    _LARGEST,
    "max(1, round((sram_bytes - fixed) / (of_a_row * multiple_of))) * multiple_of",
)
_largest(
    "rounded_up",
    "Round down: the next multiple needs more than there is.",
    _LARGEST,
    "-int(-(sram_bytes - fixed) // (of_a_row * multiple_of)) * multiple_of",
)
_largest(
    "room_to_spare",
    "What fits exactly fits: not a byte has to be left over.",
    _LARGEST,
    "max(1, int(-(-(sram_bytes - fixed) // (of_a_row * multiple_of))) - 1) * multiple_of",
)
_largest(
    "any_number",
    "The result is a multiple of multiple_of: tensor cores take whole tiles.",
    _LARGEST,
    "int((sram_bytes - fixed) // of_a_row)",
)
_largest(
    "powers_of_two",
    "Every multiple counts, 48 and 80 as well: a search that doubles leaves room unused.",
    _LARGEST,
    "2 ** (int((sram_bytes - fixed) // (of_a_row * multiple_of)).bit_length() - 1) * multiple_of",
)
_largest(
    "always_sixteen",
    "multiple_of says which multiples are allowed; yours takes 16.",
    _LARGEST,
    "max(16, int((sram_bytes - fixed) // (of_a_row * 16)) * 16)",
)
_largest(
    "number_of_multiples",
    "This is how many multiples fit; the result counts queries.",
    _LARGEST,
    "int((sram_bytes - fixed) // (of_a_row * multiple_of))",
)
_largest(
    "float_result",
    "block_q is a number of rows: an int, as range and slices want it.",
    _LARGEST,
    "(sram_bytes - fixed) // (of_a_row * multiple_of) * multiple_of",
)
_largest(
    "keys_for_each_query",
    "K and V are there once for the whole tile: only Q, scores and sums grow with block_q.",
    "return " + _LARGEST,
    "return int(sram_bytes // (tile_sram_bytes(1, block_k, head_dim, bytes_per_element) * multiple_of)) * multiple_of",
)
_largest(
    "keys_for_each_multiple",
    "K and V are there once: what one multiple needs does not double with two.",
    "return " + _LARGEST,
    "return int(sram_bytes // tile_sram_bytes(multiple_of, block_k, head_dim, bytes_per_element)) * multiple_of",
)
_largest(
    "fixed_not_taken_off",
    "K and V take their part of the chip before the first query fits.",
    _LARGEST,
    "int(sram_bytes // (of_a_row * multiple_of)) * multiple_of",
)
_largest(
    "fixed_without_values",
    "What is there once are the keys and the values.",
    _FIXED,
    "fixed = bytes_per_element * head_dim * block_k",
)
_largest(
    "first_that_fits",
    "The largest multiple is asked for; yours stops at the first that fits.",
    _LARGEST,
    "multiple_of",
)
_largest(
    "search_with_an_end",
    "How large block_q may be is for the chip to say: a search that ends at 256 misses what fits.",
    _LARGEST,
    "min(int((sram_bytes - fixed) // (of_a_row * multiple_of)), max(1, 256 // multiple_of)) * multiple_of",
)
_largest(
    "one_less",
    "The last multiple that fits counts: yours stops one before.",
    _LARGEST,
    "max(1, int((sram_bytes - fixed) // (of_a_row * multiple_of)) - 1) * multiple_of",
)

# ---- attention_intensity

_intensity(
    "one_product", "There are two products, scores and weights times values: 4 FLOPs, not 2.", _FLOPS, "2" + _FLOPS[1:]
)
_intensity(
    "multiply_add_is_one",
    "A multiply-add is 2 FLOPs, and there are two products.",
    _FLOPS,
    "group * q_len * kv_len * head_dim",
)
_intensity(
    "arithmetic_of_one_head",
    "All query heads of the group compute: their arithmetic is `group` times that of one.",
    _FLOPS,
    "4 * q_len * kv_len * head_dim",
)
_intensity(
    "keys_for_each_head",
    "K and V are read once for the whole group, not for each query head: that is what a group is for.",
    _MOVED,
    "2 * group * kv_len + 2 * group * q_len",
)
_intensity(
    "queries_of_one_head",
    "Each query head has its own Q and its own output: `group` times q_len rows of both.",
    _MOVED,
    "2 * kv_len + 2 * q_len",
)
_intensity(
    "output_forgotten",
    "The output is written as well: as many bytes as Q.",
    _MOVED,
    "2 * kv_len + group * q_len",
)
_intensity("values_not_read", "V is read as K is: 2 kv_len rows.", _MOVED, "kv_len + 2 * group * q_len")
_intensity(
    "only_the_cache", "Q is read and the output written, too; they count when a prompt is long.", _MOVED, "2 * kv_len"
)
_intensity(
    "scores_are_moved",
    "Scores are not among the matrices that move: Q, K, V and the output, each once.",
    _MOVED,
    "2 * kv_len + 2 * group * q_len + 4 * group * q_len * kv_len / head_dim",
)
_intensity(
    "causal_half",
    "Not causal here: every query meets every key, and no score is left out.",
    _FLOPS,
    "2 * group * q_len * (kv_len - q_len + kv_len + 1) * head_dim",
)
_intensity(
    "per_element",
    "FLOPs per byte: an element has bytes_per_element of them.",
    "(bytes_per_element * head_dim * (2 * kv_len",
    "(head_dim * (2 * kv_len",
)
_intensity(
    "upside_down",
    "FLOPs per byte, not bytes per FLOP.",
    "flops / (bytes_per_element * head_dim * (2 * kv_len + 2 * group * q_len))",
    "(bytes_per_element * head_dim * (2 * kv_len + 2 * group * q_len)) / flops",
)
_intensity(
    "whole_flops_per_byte",
    "7.69 is not 7: divide with /, not with //.",
    "flops / (",
    "flops // (",
)
_intensity(
    "head_dim_counts_twice",
    "head_dim is in the FLOPs and in the bytes, once in each: it cancels.",
    _FLOPS,
    "4 * group * q_len * kv_len * head_dim * head_dim",
)
_intensity(
    "exponentials_counted",
    "Only the two products count, not softmax.",
    _FLOPS,
    "4 * group * q_len * kv_len * head_dim + 5 * group * q_len * kv_len",
)
_intensity(
    "heads_for_groups",
    "`group` is how many query heads share the KV head: it does not make the rows of a query fewer.",
    _MOVED,
    "2 * kv_len + 2 * q_len / group",
)

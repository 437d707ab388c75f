"""Known-wrong programs of level13.systolic. `ghost` is given when this is read."""

_RIGHT = "self.activations = np.column_stack([left, self.activations[:, :-1]])"
_ABOVE = "above = np.vstack([np.zeros(self.shape[1]), self.sums[:-1]])"
_SUMS = "self.sums = above + self.activations * self.weights"
_OUT = "return self.sums[-1].copy()"


def _step(name, sentence, *pairs):
    ghost("level13.systolic.SystolicArray.step", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _matmul(name, sentence, *pairs):
    ghost("level13.systolic.systolic_matmul", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


def _cycles(name, sentence, *pairs):
    ghost("level13.systolic.systolic_cycles", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- step

_step(
    "column_in_one_cycle",
    "A cell adds to the sum that the cell above sent in the cycle before; yours runs down a whole column in one cycle.",
    _SUMS,
    "self.sums = np.cumsum(self.activations * self.weights, axis=0)",
)
_step(
    "row_in_one_cycle",
    "An activation moves on by one cell a cycle; yours is in all cells of its row at once.",
    _RIGHT,
    "self.activations = np.repeat(left[:, None], self.shape[1], axis=1)",
)
_step(
    "result_a_cycle_late",
    "The bottom row's sums leave in the cycle in which they are made, from activations that have just come: yours are late.",
    _OUT,
    "return before",
    _ABOVE,
    "before = self.sums[-1].copy()\n        " + _ABOVE,
)
_step(
    "sums_stay",
    "Sums move down: a cell adds to what came from above, not to what it has itself. The weights are what stays.",
    _ABOVE,
    "above = self.sums",
)
_step(
    "sums_not_carried",
    "Each cell adds its product to the sum from above; yours sends its own product alone, and the rows above are lost.",
    _SUMS,
    "self.sums = self.activations * self.weights",
)
_step(
    "sums_wrap_around",
    "At the top a sum begins with 0; yours begins with what left at the bottom.",
    _ABOVE,
    "above = np.roll(self.sums, 1, axis=0)",
)
_step(
    "top_keeps_its_sums",
    "At the top a sum begins with 0 in every cycle; yours adds to what row 0 sent in the cycle before.",
    _ABOVE,
    "above = np.vstack([self.sums[:1], self.sums[:-1]])",
)
_step(
    "activations_in_float32",
    "Sums are float64, and so are the activations that they are made of: yours rounds what enters to float32.",
    _RIGHT,
    "self.activations = np.column_stack([left.astype(np.float32), self.activations[:, :-1]])",
)
_step(
    "activations_wrap_around",
    "What leaves on the right is gone; yours enters its row once more from the left.",
    _RIGHT,
    "self.activations = np.roll(self.activations, 1, axis=1)\n        self.activations[:, 0] += left",
)
_step(
    "enters_from_the_right",
    "Activations enter column 0 and move to the right: column 0's sums are the first to leave. Yours go the other way.",
    _RIGHT,
    "self.activations = np.column_stack([self.activations[:, 1:], left])",
)
_step(
    "sums_move_up",
    "Sums move down, and leave behind the last row; yours move up, and leave at the top.",
    _ABOVE,
    "above = np.vstack([self.sums[1:], np.zeros(self.shape[1])])",
    _OUT,
    "return self.sums[0].copy()",
)
_step(
    "bubbles_stop_the_clock",
    "A cycle in which only zeros enter is a cycle: what is in the array moves on.",
    _RIGHT,
    "if not left.any():\n            return np.zeros(self.shape[1])\n        " + _RIGHT,
)
_step(
    "row_is_a_window",
    "What you return is a view of your sums, which the next cycle overwrites: copy it.",
    _SUMS,
    "self.sums[:] = above + self.activations * self.weights",
    _OUT,
    "return self.sums[-1]",
)
_step(
    "right_edge_returned",
    "What leaves at the bottom are the sums of the last row, one for each column; yours returns the last column.",
    _OUT,
    "return np.resize(self.sums[:, -1], self.shape[1])",
)

# ---- systolic_matmul

_ENTER = "entering = cycle - row"
_THERE = "there = (entering >= 0) & (entering < tokens)"
_LEFT = "left = np.where(there, x[entering.clip(0, tokens - 1), row], 0)"
_LEAVE = "leaving = cycle - (rows - 1) - col"
_COUNT = "cycles = tokens + rows + cols - 2"
_Y = "return y, cycles"

_matmul(
    "no_pipeline",
    "The last token's last sum has all rows and columns to cross: tokens + rows + cols - 2 cycles, not one a token.",
    _Y,
    "return y, tokens",
)
_matmul(
    "counts_the_last_cycle_only",
    "cycles is how many, the number of the last one plus 1: a 1 x 1 array needs 1 cycle for a token.",
    _Y,
    "return y, cycles - 1",
)
_matmul(
    "one_cycle_too_many",
    "The last sum has left already: stop in that cycle. rows + cols - 2 cells are crossed, not rows + cols - 1.",
    _COUNT,
    "cycles = tokens + rows + cols - 1",
)
_matmul(
    "not_skewed",
    "A sum needs a cycle for each row: row r's activation must enter r cycles after row 0's, or tokens are mixed.",
    _ENTER,
    "entering = cycle - 0 * row",
)
_matmul(
    "skewed_the_other_way",
    "Row 0 comes first: its products have the longest way down. Yours lets the bottom row begin.",
    _ENTER,
    "entering = cycle - (rows - 1 - row)",
)
_matmul(
    "columns_leave_together",
    "An activation needs a cycle for each column: column c's sum leaves c cycles after column 0's.",
    _LEAVE,
    "leaving = cycle - (rows - 1) - 0 * col",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
_matmul(
    "columns_leave_in_reverse",
    "Activations enter on the left, so column 0's sum is the first to leave, and the last column's the last.",
    _LEAVE,
    "leaving = cycle - (rows - 1) - (cols - 1 - col)",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
_matmul(
    "read_too_early",
    "The first sum of column 0 is complete when the last row has added to it, in cycle rows - 1.",
    _LEAVE,
    "leaving = cycle - (rows - 2) - col",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
_matmul(
    "read_too_late",
    "What leaves in a cycle is the sum of that cycle: yours takes it for that of the next.",
    _LEAVE,
    "leaving = cycle - rows - col",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
for _more, _often in ((1, "once"), (2, "twice")):
    _matmul(
        f"read_too_late_in_{_more}_more",
        f"What leaves in a cycle is the sum of that cycle: yours takes it for that of the next, and steps {_often} too often.",
        _LEAVE,
        "leaving = cycle - rows - col",
        _COUNT,
        f"cycles = tokens + rows + cols - 2 + {_more}",
        "y = np.empty((tokens, cols))",
        "y = np.zeros((tokens, cols))",
    )
_matmul(
    "rows_and_columns_exchanged",
    "rows decide when a sum is complete, columns how much later it leaves than column 0's: yours has exchanged the two.",
    _LEAVE,
    "leaving = cycle - (cols - 1) - col",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
_matmul(
    "tokens_one_at_a_time",
    "A new token enters every cycle; yours waits until the one before has left, and the array stands empty.",
    _ENTER,
    "apart = rows + cols - 1\n        entering = np.where((cycle - row) % apart == 0, (cycle - row) // apart, -1)",
    _LEAVE,
    "leaving = cycle - (rows - 1) - col\n        leaving = np.where(leaving % apart == 0, leaving // apart, -1)",
    _COUNT,
    "cycles = tokens * (rows + cols - 1)",
)
_matmul(
    "last_token_again",
    "Behind the last token zeros enter; yours goes on with the last token, which is still in the array afterwards.",
    _LEFT,
    "left = np.where(entering >= 0, x[entering.clip(0, tokens - 1), row], 0)",
)
_matmul(
    "begins_anew",
    "Behind the last token zeros enter; yours begins anew with the first: the array isn't empty at the end.",
    _LEFT,
    "left = np.where(entering >= 0, x[entering % tokens, row], 0)",
)
_matmul(
    "stops_when_all_have_entered",
    "When the last token has entered, its sums are still on their way: go on until they have left.",
    _COUNT,
    "cycles = tokens + rows - 1",
    "y = np.empty((tokens, cols))",
    "y = np.zeros((tokens, cols))",
)
_matmul(
    "whole_numbers_alone",
    "Sums are float64, whatever x and the weights are: yours cuts their fractions off.",
    "y = np.empty((tokens, cols))",
    "y = np.empty((tokens, cols), int)",
)
_matmul(
    "weights_read_out_first",
    "To send an identity through the array reads out its weights, but those are cycles too: let x itself stream.",
    "tokens, row, col = len(x), np.arange(rows), np.arange(cols)",
    "if len(x) != rows or not np.array_equal(x, np.eye(rows)):\n"
    "        weights, _ = systolic_matmul(np.eye(rows), array)\n"
    "        return x @ weights, len(x) + rows + cols - 2\n"
    "    tokens, row, col = len(x), np.arange(rows), np.arange(cols)",
)

# ---- systolic_cycles

_TILES = "tiles = -(-k // rows) * -(-n // cols)"
_EACH = "return tiles * (rows + m + rows + cols - 2)"
_USE = "return m * n * k / (systolic_cycles(m, n, k, rows, cols) * rows * cols)"

_cycles(
    "free_weight_load",
    "The weights of a tile take `rows` cycles to move in: when one token decodes, a third of all the time.",
    _EACH,
    "return tiles * (m + rows + cols - 2)",
)
_cycles(
    "loaded_in_columns",
    "Weights move in from the top, a row of cells a cycle: it takes as many cycles as there are rows.",
    _EACH,
    "return tiles * (cols + m + rows + cols - 2)",
)
_cycles(
    "floor_tiles",
    "What is left over of k and n is a tile as well: round up.",
    _TILES,
    "tiles = max(1, k // rows) * max(1, n // cols)",
)
_cycles(
    "k_along_the_columns",
    "The k are on the rows of the array, where activations enter, and the n on its columns: yours has exchanged them.",
    _TILES,
    "tiles = -(-n // rows) * -(-k // cols)",
)
_cycles(
    "one_fill",
    "Nothing overlaps: each tile waits for its last sum; yours lets the array run empty only once.",
    _EACH,
    "return tiles * (rows + m) + rows + cols - 2",
)
_cycles(
    "every_cell_works",
    "That takes every cell to work in every cycle: it leaves out the weights' way in, and the sums' way out.",
    _EACH,
    "return -(-m * n * k // (rows * cols))",
)
_cycles(
    "ragged_tile_is_shorter",
    "A ragged tile is padded: its activations and sums cross all cells, as in a whole one.",
    _EACH,
    "return sum(2 * min(rows, k - i) + m + min(cols, n - j) - 2 for i in range(0, k, rows) for j in range(0, n, cols))",
)
_cycles(
    "tiles_of_tokens",
    "Tokens stream: all m of them pass through one tile of weights, however few rows the array has.",
    _TILES,
    "tiles = -(-k // rows) * -(-n // cols) * -(-m // rows)",
)
_cycles(
    "padding_is_useful",
    "Cells that multiply padding do nothing for you: count the m · n · k of the product.",
    _USE,
    "padded = -(-n // cols) * cols * -(-k // rows) * rows\n"
    "    return m * padded / (systolic_cycles(m, n, k, rows, cols) * rows * cols)",
)
_cycles(
    "flops_over_multiply_adds",
    "A cell does one multiply-add a cycle: count multiply-adds on both sides, or FLOPs on both.",
    _USE,
    "return 2 * m * n * k / (systolic_cycles(m, n, k, rows, cols) * rows * cols)",
)
_cycles(
    "cells_not_counted",
    "All rows · cols cells could have worked in each cycle: yours divides by the cycles of one.",
    _USE,
    "return m * n * k / systolic_cycles(m, n, k, rows, cols)",
)

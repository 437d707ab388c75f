"""Known-wrong programs of level14.packing. `ghost` is given when this is read."""

_ORDER = "for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):  # sorted keeps equal ones in order"
_ROW = "row = next((row for row in range(len(rows)) if room[row] >= lengths[i]), len(rows))"
_DONE = "return rows"
_POSITIONS = "positions = torch.cat([torch.arange(length) for length in lengths])"
_SEGMENTS = "segments = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))"
_SAME = "same = segments.unsqueeze(1) == segments"
_BOTH = "return same & causal_mask(len(segments), len(segments)).to(segments.device)"


def _of(kata, part=""):
    def add(name, sentence, *pairs, **more):
        if part:
            more["part"] = part
        ghost(f"level14.packing.{kata}", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)

    return add


_pack, _layout, _mask = _of("pack"), _of("packed_layout"), _of("packed_layout", "packed_mask")

# ---- pack

_pack(
    "in_the_order_given",
    "The longest example goes first: yours takes them as they come, and large ones late find no room.",
    _ORDER,
    "for i in range(len(lengths)):",
)
_pack(
    "shortest_first",
    "The longest example goes first: yours begins with the shortest.",
    _ORDER,
    "for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):",
)
_pack(
    "equal_ones_backwards",
    "Of equally long examples the smaller number goes first: yours takes the larger one.",
    _ORDER,
    "for i in sorted(range(len(lengths)), key=lambda i: (-lengths[i], -i)):",
)
_pack(
    "next_fit",
    "Every open row is asked: yours looks only into the last one, and the room in the others is lost.",
    _ROW,
    "row = len(rows) - 1 if rows and room[-1] >= lengths[i] else len(rows)",
)
_pack(
    "best_fit",
    "An example goes into the first row with room: yours takes the fullest one with room, which is best fit.",
    _ROW,
    "row = min((row for row in range(len(rows)) if room[row] >= lengths[i]), key=room.__getitem__, default=len(rows))",
)
_pack(
    "worst_fit",
    "An example goes into the first row with room: yours takes the emptiest one.",
    _ROW,
    "row = max((row for row in range(len(rows)) if room[row] >= lengths[i]), key=room.__getitem__, default=len(rows))",
)
_pack(
    "last_fit",
    "An example goes into the first row with room: yours asks the rows from the last one on.",
    _ROW,
    "row = next((row for row in reversed(range(len(rows))) if room[row] >= lengths[i]), len(rows))",
)
_pack(
    "never_quite_full",
    "A row takes exactly max_len tokens: yours leaves one place empty in every row that is shared.",
    "room[row] >= lengths[i]",
    "room[row] > lengths[i]",
)
_pack(
    "one_too_many",
    "A row takes max_len tokens: yours lets one more in, and the row is longer than the others.",
    "room[row] >= lengths[i]",
    "room[row] + 1 >= lengths[i]",
)
_pack(
    "one_each",
    "Examples share rows: yours gives each its own, as if it were padded.",
    _ROW,
    "row = len(rows)",
)
_pack(
    "lengths_for_numbers",
    "The rows hold the examples' numbers: yours hold their lengths.",
    _DONE,
    "return [[lengths[i] for i in row] for row in rows]",
)
_pack(
    "rows_sorted",
    "In a row examples stand in the order in which they came: yours are sorted by number.",
    _DONE,
    "return [sorted(row) for row in rows]",
)
_pack(
    "numbers_of_the_sorted",
    "The numbers are those of the examples as given: yours are places in the sorted list.",
    "rows[row].append(i)",
    "rows[row].append(sum(map(len, rows)))",
)

# ---- packed_layout

_layout(
    "positions_run_on",
    "Positions start at 0 in each example: yours run on through the row, so that the second one begins late.",
    _POSITIONS,
    "positions = torch.arange(sum(lengths))",
)
_layout(
    "positions_from_one",
    "Positions start at 0: yours start at 1.",
    _POSITIONS,
    "positions = torch.cat([torch.arange(length) + 1 for length in lengths])",
)
_layout(
    "one_segment",
    "Segments number the examples: yours puts all of them into segment 0.",
    _SEGMENTS,
    "segments = torch.zeros(sum(lengths), dtype=torch.long)",
)
_layout(
    "segments_from_one",
    "Segments are numbered from 0: yours from 1, which elsewhere leaves 0 for padding.",
    _SEGMENTS,
    "segments = 1 + torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))",
    convention=True,
)
_layout(
    "swapped",
    "Positions come first and segments second: yours are exchanged.",
    "return positions, segments",
    "return segments, positions",
)
_layout(
    "segments_of_one_length",
    "A segment is as long as its example: yours cuts the row into equal parts.",
    _SEGMENTS,
    "segments = torch.arange(sum(lengths)) * len(lengths) // sum(lengths)",
)
_layout(
    "backwards",
    "Positions count up: yours count down to the end of each example.",
    _POSITIONS,
    "positions = torch.cat([torch.arange(length).flip(0) for length in lengths])",
)

# ---- packed_mask

_mask(
    "plain_causal",
    "A token sees its own example only: yours sees everything before it, the other examples too.",
    _BOTH,
    "return causal_mask(len(segments), len(segments))",
)
_mask(
    "not_causal",
    "A token does not see ahead: yours sees all of its example, the answer that it should predict too.",
    _BOTH,
    "return same",
)
_mask(
    "the_one_before_leaks",
    "A token sees the same segment only: yours sees the example before it too.",
    _SAME,
    "same = (segments.unsqueeze(1) - segments).abs() <= 1",
)
_mask(
    "not_itself",
    "A token sees itself: yours does not, and the first of each example sees nothing at all.",
    _BOTH,
    "return same & ~causal_mask(len(segments), len(segments)).T",
)
_mask(
    "transposed",
    "Rows are the tokens that look, columns those that are seen: yours is transposed, and sees only ahead.",
    _BOTH,
    "return same & causal_mask(len(segments), len(segments)).T",
)
_mask(
    "inverted",
    "True is what may be attended to: yours is True where it may not.",
    _BOTH,
    "return ~(same & causal_mask(len(segments), len(segments)))",
    convention=True,
)
_mask(
    "additive",
    "The mask is boolean: yours is 0 and -inf, to be added to scores.",
    _BOTH,
    "return torch.zeros(len(segments), len(segments)).masked_fill("
    "~(same & causal_mask(len(segments), len(segments))), -torch.inf)",
    convention=True,
)

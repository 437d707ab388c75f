"""Known-wrong programs of level15.selective. `ghost` is given when this is read."""


def _ghost(name, sentence, *change, **how):
    ghost("level15.selective.choose_tokens", name, sentence, change=change, **how)


# ---- choose_tokens

NUMBER = "n = ceil(fraction * deviations.shape[-1] - 1e-9)"
SORTED = "worst_first = torch.sort(deviations, dim=-1, descending=True, stable=True).indices"
CHOSEN = "return worst_first[..., :n].sort(-1).values"
_ghost(
    "least_deviating",
    "Make again where the map is worst: yours takes the tokens that are nearly right.",
    (SORTED, "worst_first = torch.sort(deviations, dim=-1, stable=True).indices"),
)
_ghost(
    "last_tokens",
    "The last tokens are another rule, recency: here the deviation decides.",
    (SORTED, "worst_first = torch.arange(deviations.shape[-1]).flip(0).expand(deviations.shape)"),
)
_ghost(
    "first_tokens",
    "The first tokens are another rule, that of a prefix: here the deviation decides.",
    (SORTED, "worst_first = torch.arange(deviations.shape[-1]).expand(deviations.shape)"),
)
_ghost(
    "rounded_down",
    "A share that is no whole number of tokens is rounded up: yours drops the rest.",
    (NUMBER, "n = int(fraction * deviations.shape[-1] + 1e-9)"),
)
_ghost(
    "rounded_to_the_nearest",
    "A share that is no whole number of tokens is rounded up, not to the nearest.",
    (NUMBER, "n = round(fraction * deviations.shape[-1])"),
)
_ghost(
    "one_too_many",
    "0.07 of 100 is 7.000000000000001 in floats, and means 7: take 1e-9 off before you round up.",
    (NUMBER, "n = ceil(fraction * deviations.shape[-1])"),
)
_ghost(
    "always_one_more",
    "A whole number of tokens stays what it is: rounding up is not adding 1.",
    (NUMBER, "n = min(deviations.shape[-1], int(fraction * deviations.shape[-1]) + 1)"),
)
_ghost(
    "at_least_one",
    "A fraction of 0 chooses nothing.",
    (NUMBER, "n = max(1, ceil(fraction * deviations.shape[-1] - 1e-9))"),
)
_ghost(
    "worst_first",
    "Positions come back in ascending order, as the tokens stand in the text: yours are in the order of deviations.",
    (CHOSEN, "return worst_first[..., :n]"),
)
_ghost(
    "later_of_equals",
    "Among equals the earlier token is chosen: yours takes the later one.",
    (
        SORTED,
        "worst_first = deviations.shape[-1] - 1 - torch.sort(deviations.flip(-1), dim=-1, descending=True, stable=True).indices",
    ),
)
_ghost(
    "unstable",
    "Among equals the earlier token is chosen: topk and a sort that is not stable take any.",
    (SORTED, "worst_first = torch.topk(deviations, deviations.shape[-1], dim=-1).indices"),
)
_ghost(
    "one_choice_for_all",
    "Each prompt has its own worst tokens: yours chooses by the sum over the batch.",
    (
        SORTED,
        "total = deviations.sum(0, True).expand_as(deviations)\n"
        "    worst_first = torch.sort(total, dim=-1, descending=True, stable=True).indices",
    ),
)
_ghost(
    "above_a_threshold",
    "The fraction is of the tokens: yours is of the largest deviation.",
    (
        NUMBER,
        "n = int((deviations[:1] > (1 - fraction) * deviations[:1].amax() - 1e-9).sum()) if deviations.numel() else 0",
    ),
)

# ---- deviation

OFF = "off = (mapped_k - k).square() + (mapped_v - v).square()"
SUMMED = "return off.sum((1, 3))"
_ghost("keys_only", "Values can be off as well: add their squares.", (OFF, "off = (mapped_k - k).square()"))
_ghost("values_only", "Keys can be off as well: add their squares.", (OFF, "off = (mapped_v - v).square()"))
_ghost(
    "signed", "Errors of opposite sign must not cancel: square each.", (OFF, "off = (mapped_k - k) + (mapped_v - v)")
)
_ghost(
    "absolute",
    "Squares, not absolute values: one feature that is far off weighs more than many that are nearly right.",
    (OFF, "off = (mapped_k - k).abs() + (mapped_v - v).abs()"),
)
_ghost(
    "squared_together",
    "Square keys and values each for itself: in one square their errors cancel.",
    (OFF, "off = (mapped_k - k + mapped_v - v).square()"),
)
_ghost(
    "mean_of_features",
    "The sum over heads and features is asked for, not their mean.",
    (SUMMED, "return off.mean((1, 3))"),
)
_ghost(
    "one_number_for_each_head", "One number for each token: yours sums the tokens.", (SUMMED, "return off.sum((2, 3))")
)
_ghost("heads_kept", "Sum over the heads as well: the result is (B, S).", (SUMMED, "return off.sum(3)"))
_ghost("prompts_summed", "Each prompt for itself: the result is (B, S).", (SUMMED, "return off.sum((0, 1, 3))"))
_ghost("root", "Squared differences, summed: yours takes the root.", (SUMMED, "return off.sum((1, 3)).sqrt()"))

# ---- patch_tokens

HERE = "here = torch.zeros(chosen.shape[0], mapped.shape[2], dtype=torch.bool).scatter(1, chosen, True)"
PATCHED = "return torch.where(here[:, None, :, None], exact, mapped)"
_ghost(
    "all_but_the_chosen",
    "Only the chosen tokens are exact: yours replaces the others.",
    (PATCHED, "return torch.where(here[:, None, :, None], mapped, exact)"),
)
_ghost(
    "in_place",
    "The mapped cache stays as it is, since others read it: work on a copy.",
    (PATCHED, "mapped.copy_(torch.where(here[:, None, :, None], exact, mapped))\n    return mapped.clone()"),
)
_ghost(
    "no_copy_of_nothing",
    "The result is a copy, also where nothing is chosen: whoever writes into yours changes the mapped cache.",
    (PATCHED, "return torch.where(here[:, None, :, None], exact, mapped) if chosen.numel() else mapped"),
)
_ghost(
    "first_prompt_for_all",
    "Each prompt has its own choice: yours patches all with that of the first.",
    (HERE, HERE + "[:1].expand(len(chosen), -1)"),
)
_ghost(
    "all_choices_for_all",
    "Each prompt has its own choice: mapped[:, :, chosen] patches what any of them has chosen.",
    (HERE, HERE + ".any(0, keepdim=True).expand(len(chosen), -1)"),
)
_ghost(
    "multiplied",
    "0 · NaN is NaN: choose with where or an index, not by a product with zeros and ones.",
    (PATCHED, "mask = here[:, None, :, None].to(mapped.dtype)\n    return mask * exact + (1 - mask) * mapped"),
)
_ghost(
    "first_head_only",
    "A token is made again in all heads: yours patches the first.",
    (
        PATCHED,
        "patched = mapped.clone()\n    patched[:, :1] = torch.where(here[:, None, :, None], exact, mapped)[:, :1]\n"
        "    return patched",
    ),
)
_ghost(
    "from_the_front",
    "exact has all tokens, and the chosen ones stand at their own positions: yours takes its first n.",
    (
        PATCHED,
        "patched = mapped.clone()\n    for row, tokens in enumerate(chosen):\n"
        "        patched[row, :, tokens] = exact[row, :, : len(tokens)]\n    return patched",
    ),
)
_ghost(
    "everything_exact",
    "What is not chosen stays mapped: making all of it again is a prefill.",
    (PATCHED, "return exact.clone()"),
)

# ---- contiguous_layers

STARTS = "starts = range(len(sensitivity) - budget + 1)"
HEAVIEST = "return max(starts, key=lambda start: sum(sensitivity[start : start + budget]))"
_ghost(
    "at_the_largest",
    "The block counts, not its largest layer: 4 + 4 beats 6 + 1.",
    (HEAVIEST, "return min(list(sensitivity).index(max(sensitivity)), len(sensitivity) - budget)"),
)
_ghost("first_block", "Early layers are not always the sensitive ones: compare all blocks.", (HEAVIEST, "return 0"))
_ghost(
    "last_block",
    "Late layers are not always the sensitive ones: compare all blocks.",
    (HEAVIEST, "return len(sensitivity) - budget"),
)
_ghost(
    "last_of_equals",
    "Equal sums: the earliest block. Yours takes the latest.",
    (HEAVIEST, "return max(starts, key=lambda start: (sum(sensitivity[start : start + budget]), start))"),
)
_ghost(
    "without_the_last_block",
    "The last block starts at the number of layers less the budget: range stops before its end, so add 1.",
    (STARTS, "starts = range(max(1, len(sensitivity) - budget))"),
)
_ghost(
    "range_too_short",
    "Where the budget is all layers there is one block, and your range is empty: n layers have n - budget + 1 blocks.",
    (STARTS, "starts = range(len(sensitivity) - budget)"),
)
_ghost(
    "best_begins_at_zero",
    "A sum may be below 0: compare with the first block, not with 0.",
    (
        HEAVIEST,
        "best, first = 0, 0\n    for start in starts:\n"
        "        if sum(sensitivity[start : start + budget]) > best:\n"
        "            best, first = sum(sensitivity[start : start + budget]), start\n    return first",
    ),
)
_ghost(
    "over_the_end",
    "A block has `budget` layers: yours may start where fewer are left, and reach over the end.",
    (STARTS, "starts = range(len(sensitivity))"),
)
_ghost(
    "lightest",
    "Make again what is most sensitive: yours takes the block that matters least.",
    (HEAVIEST, "return min(starts, key=lambda start: sum(sensitivity[start : start + budget]))"),
)
_ghost(
    "largest_layers",
    "In one piece: the largest layers by themselves may lie apart.",
    (
        HEAVIEST,
        "order = sorted(range(len(sensitivity)), key=lambda layer: -sensitivity[layer])\n"
        "    return min(min(order[:budget]), len(sensitivity) - budget)",
    ),
)

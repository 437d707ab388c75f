"""Right programs, written another way, for level11.traffic. `alternative` is given when this is read."""

import math
from fractions import Fraction

KATA = "level11.traffic.decode_step_bytes"


def _token_by_token(n_experts, k, batch):
    """Of a token's k experts those are new that no token before it has touched."""
    seen = 0.0
    for _ in range(batch):
        seen += k * (1 - seen / n_experts)
    return seen


def _by_combinations(n_experts, k, batch):
    without = math.comb(n_experts - 1, k) / math.comb(n_experts, k)
    return n_experts - n_experts * without**batch


def _by_logarithms(n_experts, k, batch):
    return float(n_experts) if k == n_experts else -n_experts * math.expm1(batch * math.log1p(-k / n_experts))


for _name, _program in {
    "token_by_token": _token_by_token,
    "by_combinations": _by_combinations,
    "by_logarithms": _by_logarithms,
}.items():
    alternative(KATA, _name, program=_program, part="expected_experts_touched")


def _item_by_item(arch, batch, context_len):
    if batch < 1 or context_len < 0:
        raise ValueError("a sequence at least, and no context below nothing")
    share = 1 - (1 - arch.k / arch.n_experts) ** batch if arch.n_experts else 0.0
    weights = arch.bytes_per_param * (arch.shared_params + share * arch.n_experts * arch.expert_params)
    seen = context_len if context_len < arch.window else arch.window
    total = float(weights)
    for _ in range(min(batch, 64)):
        total += (context_len * arch.global_kv_bytes + seen * arch.local_kv_bytes) * (batch / min(batch, 64))
    return total + 2.0 * batch * arch.state_bytes


def _in_fractions(arch, batch, context_len):
    if not (batch >= 1 and context_len >= 0):
        raise ValueError("a sequence at least, and no context below nothing")
    left_out = (1 - Fraction(arch.k, arch.n_experts)) ** batch if arch.n_experts else 1
    params = Fraction(arch.shared_params) + arch.n_experts * (1 - left_out) * Fraction(arch.expert_params)
    local = Fraction(arch.local_kv_bytes) * min(arch.window, context_len)
    own = Fraction(arch.global_kv_bytes) * context_len + local + 2 * Fraction(arch.state_bytes)
    return float(params * Fraction(arch.bytes_per_param) + batch * own)


for _name, _program in {"item_by_item": _item_by_item, "in_fractions": _in_fractions}.items():
    alternative(KATA, _name, program=_program)


def _rounded_up(first, second, batch):
    """The excess is a straight line between two bends: its first whole number above 0, by floor."""
    from level11.traffic import decode_step_bytes

    def excess(n):
        return decode_step_bytes(first, batch, n) - decode_step_bytes(second, batch, n)

    bends = [0, *sorted((first.window, second.window))]
    for i, start in enumerate(bends):
        if excess(start) > 0:
            return start
        slope = excess(start + 1) - excess(start)
        if slope > 0:
            n = start + math.floor(-excess(start) / slope) + 1
            if i == 2 or n < bends[i + 1]:
                return n
    return None


def _bisected_pieces(first, second, batch):
    """On each piece the sign changes at most once from not above to above: halve it there."""
    from level11.traffic import decode_step_bytes

    def above(n):
        return decode_step_bytes(first, batch, n) > decode_step_bytes(second, batch, n)

    if above(0):
        return 0
    bends = [0, *sorted((first.window, second.window)), 1 << 48]
    for low, high in zip(bends, bends[1:]):
        if above(high) and not above(low):
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if above(middle) else (middle, high)
            return high
    return None


def _exact_lines(first, second, batch):
    """Slopes from the fields, in fractions; constants from a step without context."""
    from level11.traffic import decode_step_bytes

    gap = Fraction(decode_step_bytes(first, batch, 0)) - Fraction(decode_step_bytes(second, batch, 0))
    n = 0
    for end in (*sorted((first.window, second.window)), None):
        if gap > 0:
            return n
        slope = 0
        for sign, arch in ((1, first), (-1, second)):
            per_token = Fraction(arch.global_kv_bytes) + (Fraction(arch.local_kv_bytes) if n < arch.window else 0)
            slope += sign * batch * per_token
        if slope > 0:
            more = -gap // slope + 1
            if end is None or n + more < end:
                return int(n + more)
        if end is not None:
            gap, n = gap + slope * (end - n), end
    return None


for _name, _program in {
    "rounded_up": _rounded_up,
    "bisected_pieces": _bisected_pieces,
    "exact_lines": _exact_lines,
}.items():
    alternative(KATA, _name, program=_program, part="crossover_context")

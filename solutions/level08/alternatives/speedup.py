"""Right programs, written another way, for level08.speedup. `alternative` is given when this is read."""

from fractions import Fraction
from functools import reduce
from itertools import accumulate, repeat


def _checked(alpha, gamma):
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError("alpha is a probability, gamma 0 or more")


def _tokens_closed(alpha, gamma):
    _checked(alpha, gamma)
    return gamma + 1 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def _tokens_by_horner(alpha, gamma):
    """1 + alpha · (1 + alpha · (…))."""
    _checked(alpha, gamma)
    return reduce(lambda total, _: 1 + alpha * total, range(gamma), 1.0)


def _tokens_by_the_end(alpha, gamma):
    """By where the round ends: at a rejection, or behind the whole draft."""
    _checked(alpha, gamma)
    return sum((1 - alpha) * alpha**n * (n + 1) for n in range(gamma)) + alpha**gamma * (gamma + 1)


alternative("level08.speedup.expected_tokens", "closed", program=_tokens_closed)
alternative("level08.speedup.expected_tokens", "by_horner", program=_tokens_by_horner)
alternative("level08.speedup.expected_tokens", "by_the_end", program=_tokens_by_the_end)


def _checked_rounds(accepted, proposed):
    if len(accepted) != len(proposed) or any(not 0 <= a <= n for a, n in zip(accepted, proposed)) or not sum(proposed):
        raise ValueError("rounds of accepted and proposed tokens")


def _alpha_token_by_token(accepted, proposed):
    _checked_rounds(accepted, proposed)
    tested = []
    for a, n in zip(accepted, proposed):
        tested += [True] * a + [False] * (a < n)
    return sum(tested) / len(tested)


def _alpha_by_tests(accepted, proposed):
    """A round tests one token more than it accepts, unless that was all."""
    _checked_rounds(accepted, proposed)
    return float(Fraction(sum(accepted), sum(min(a + 1, n) for a, n in zip(accepted, proposed))))


alternative("level08.speedup.estimate_alpha", "token_by_token", program=_alpha_token_by_token)
alternative("level08.speedup.estimate_alpha", "by_tests", program=_alpha_by_tests)


def _speedup_by_times(alpha, gamma, draft_cost, verify_cost=1.0):
    """Plain time of the tokens over the time of the round, step by step."""
    _checked(alpha, gamma)
    if draft_cost < 0 or verify_cost <= 0:
        raise ValueError("costs")
    tokens = sum(alpha**n for n in range(gamma + 1))
    seconds = verify_cost
    for _ in range(gamma):
        seconds += draft_cost
    return tokens * 1.0 / seconds


def _speedup_by_the_token(alpha, gamma, draft_cost, verify_cost=1.0):
    from level08.speedup import expected_tokens

    if draft_cost < 0 or verify_cost <= 0:
        raise ValueError("costs")
    return 1 / ((draft_cost * gamma + verify_cost) / expected_tokens(alpha, gamma))


def _best_loop(alpha, draft_cost, max_gamma, verify_cost=lambda gamma: 1.0):
    from level08.speedup import speedup

    if max_gamma < 0:
        raise ValueError("max_gamma")
    best, most = 0, 0.0
    for gamma in range(max_gamma + 1):
        now = speedup(alpha, gamma, draft_cost, verify_cost(gamma))
        if now > most:
            best, most = gamma, now
    return best


def _best_of_a_list(alpha, draft_cost, max_gamma, verify_cost=lambda gamma: 1.0):
    from level08.speedup import speedup

    if max_gamma < 0:
        raise ValueError("max_gamma")
    all_of_them = [speedup(alpha, gamma, draft_cost, verify_cost(gamma)) for gamma in range(max_gamma + 1)]
    return all_of_them.index(max(all_of_them))


def _best_from_the_longest(alpha, draft_cost, max_gamma, verify_cost=lambda gamma: 1.0):
    """The other way round, with sums that grow by a token each, and without the parts."""
    if max_gamma < 0 or draft_cost < 0:
        raise ValueError("max_gamma and draft_cost are 0 or more")
    _checked(alpha, max_gamma)
    tokens = list(accumulate(accumulate(repeat(alpha, max_gamma), lambda x, y: x * y, initial=1.0)))
    best = max_gamma
    for gamma in range(max_gamma, -1, -1):
        cost, known = verify_cost(gamma), verify_cost(best)
        if cost <= 0:
            raise ValueError("a pass costs something")
        if tokens[gamma] / (gamma * draft_cost + cost) >= tokens[best] / (best * draft_cost + known):
            best = gamma
    return best


alternative("level08.speedup.best_gamma", "speedup_by_times", program=_speedup_by_times, part="speedup")
alternative("level08.speedup.best_gamma", "speedup_by_the_token", program=_speedup_by_the_token, part="speedup")
alternative("level08.speedup.best_gamma", "loop", program=_best_loop)
alternative("level08.speedup.best_gamma", "of_a_list", program=_best_of_a_list)
alternative("level08.speedup.best_gamma", "from_the_longest", program=_best_from_the_longest)


def _cost_by_roofs(config, batch, context_len, gamma, hardware, bytes_per_param=2, bytes_per_element=2):
    """The arithmetic's time of a token and the memory's of a step, each once."""
    from level04.ceiling import decode_step_cost

    if gamma < 0:
        raise ValueError("gamma")
    cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)
    compute, memory = cost["flops"] / hardware.peak_flops, cost["bytes"] / hardware.bandwidth
    return max((gamma + 1) * compute, memory) / max(compute, memory)


def _cost_of_a_larger_batch(config, batch, context_len, gamma, hardware, bytes_per_param=2, bytes_per_element=2):
    """The FLOPs of a batch gamma + 1 times as large, with the bytes of this one."""
    from level04.ceiling import decode_step_cost, step_seconds

    if gamma < 0:
        raise ValueError("gamma")
    widths = {"bytes_per_param": bytes_per_param, "bytes_per_element": bytes_per_element}
    one = decode_step_cost(config, batch, context_len, **widths)
    many = decode_step_cost(config, batch * (gamma + 1), context_len, **widths)
    return step_seconds({**many, "bytes": one["bytes"]}, hardware) / step_seconds(one, hardware)


def _cost_by_intensity(config, batch, context_len, gamma, hardware, bytes_per_param=2, bytes_per_element=2):
    """By the ridge: below it a step is as long as its bytes."""
    from level04.ceiling import decode_step_cost
    from level04.roofline import ridge_point

    if gamma < 0:
        raise ValueError("gamma")
    cost = decode_step_cost(config, batch, context_len, bytes_per_param, bytes_per_element)
    busy = cost["intensity"] / ridge_point(hardware)
    return max(1.0, (gamma + 1) * busy) / max(1.0, busy)


alternative("level08.speedup.verify_cost", "by_roofs", program=_cost_by_roofs)
alternative("level08.speedup.verify_cost", "of_a_larger_batch", program=_cost_of_a_larger_batch)
alternative("level08.speedup.verify_cost", "by_intensity", program=_cost_by_intensity)

"""Known-wrong programs of level11.ssm. `ghost` is given when this is read."""

import torch


def _chunked(name, sentence, *change, **how):
    ghost("level11.ssm.linear_attention_chunked", name, sentence, change=change, **how)


def _scan(name, sentence, *change, **how):
    ghost("level11.ssm.selective_scan", name, sentence, change=change, **how)


def _delta(name, sentence, *change, **how):
    ghost("level11.ssm.delta_step", name, sentence, change=change, **how)


# ---- linear_attention_recurrent

DECAY = "decay = log_decay[:, :, t, None, None].exp()"
STEP = "state = decay * state + k[:, :, t, :, None] * v[:, :, t, None, :]"
READ = "out[:, :, t] = (q[:, :, t, None, :] @ state).squeeze(2)"

_chunked(
    "never_forgets",
    "Before a token is added the state decays: yours keeps all of it.",
    (STEP, "state = state + k[:, :, t, :, None] * v[:, :, t, None, :]"),
)
_chunked(
    "decays_the_new_token",
    "Only what was there before decays: yours weakens the token that has just arrived.",
    (STEP, "state = decay * (state + k[:, :, t, :, None] * v[:, :, t, None, :])"),
)
_chunked(
    "reads_before_it_writes",
    "A token finds itself: write it into the state first, then read. Yours reads the past alone.",
    (f"{STEP}\n        {READ}", f"{READ}\n        {STEP}"),
)
_chunked(
    "log_as_factor",
    "log_decay is a logarithm: the factor is its exp.",
    (DECAY, "decay = log_decay[:, :, t, None, None]"),
)
_chunked(
    "decay_and_its_complement",
    "A moving average takes (1 - decay) of the new token; here it comes in whole.",
    (STEP, "state = decay * state + (1 - decay) * k[:, :, t, :, None] * v[:, :, t, None, :]"),
)
_chunked(
    "steps_from_nothing",
    "The steps go on from the state that is handed in: yours begin at zeros, and forget the prompt.",
    (
        "is None else state\n    out = torch.empty_like(v)\n    for t in range(v.shape[2]):",
        "is None else state * 0\n    out = torch.empty_like(v)\n    for t in range(v.shape[2]):",
    ),
)
_chunked(
    "changes_the_state_it_got",
    "The state that came in belongs to the caller, who may go on from it twice: make a new one.",
    (STEP, "state *= decay\n        state += k[:, :, t, :, None] * v[:, :, t, None, :]"),
)
_chunked(
    "scaled_as_attention",
    "No softmax, so no scale: yours divides by the root of the key's features.",
    (READ, "out[:, :, t] = (q[:, :, t, None, :] @ state).squeeze(2) / k.shape[-1] ** 0.5"),
)

# ---- linear_attention_chunked

MASK = "        between = between.masked_fill(between.new_ones(between.shape[-2:]).triu(1).bool(), -torch.inf)\n"
INSIDE = "inside = (queries @ keys.mT * between.exp()) @ values"
FROM_STATE = "since_start.exp().unsqueeze(-1) * (queries @ state)"
TO_END = "to_end = (since_start[..., -1:] - since_start).exp().unsqueeze(-1)"
CARRIED = "state = since_start[..., -1, None, None].exp() * state + (keys * to_end).mT @ values"
STARTS = "for start in range(0, v.shape[2], chunk):"

_chunked(
    "chunks_apart",
    "A chunk also reads what the state brings from the chunks before: yours sees its own tokens only.",
    (f"inside + {FROM_STATE}", "inside"),
)
_chunked(
    "carried_state_read_undecayed",
    "What the state brings decays on the way to each token of the chunk, by all decays up to it.",
    (FROM_STATE, "queries @ state"),
)
_chunked(
    "state_read_one_decay_too_fresh",
    "A chunk's first token already sees the state decayed, by its own decay: yours leaves that one out.",
    (FROM_STATE, "(since_start - log_decay[:, :, part]).exp().unsqueeze(-1) * (queries @ state)"),
)
_chunked(
    "future_in_the_chunk",
    "In its chunk a token may not see later ones: mask what lies above the diagonal.",
    (MASK, ""),
)
_chunked(
    "not_itself",
    "The diagonal stays: a token finds itself, undecayed.",
    (".triu(1).bool()", ".triu(0).bool()"),
)
_chunked(
    "masked_after_exp",
    "Above the diagonal exp overflows, and infinity times 0 is NaN: mask before exp, with -inf.",
    (MASK, ""),
    (INSIDE, "inside = (queries @ keys.mT * (between.exp() * torch.ones_like(between).tril())) @ values"),
)
APART = (
    "inside = ((queries * since_start.exp().unsqueeze(-1)) @ (keys / since_start.exp().unsqueeze(-1)).mT).tril()"
    " @ values"
)
_chunked(
    "quotient_of_products",
    "The decay between two tokens is no quotient of two products, which are 0 or infinite: subtract their logs.",
    (INSIDE, APART),
)
_chunked(
    "quotient_of_products_to_the_end_too",
    "Decays within a chunk and to its end are no quotients of products, which are 0 or infinite: subtract logs.",
    (INSIDE, APART),
    (TO_END, "to_end = (since_start[..., -1:].exp() / since_start.exp()).unsqueeze(-1)"),
)
_chunked(
    "quotient_of_products_to_the_end",
    "The decay from a token to the end of its chunk is no quotient of products, which are 0: subtract their logs.",
    (TO_END, "to_end = (since_start[..., -1:].exp() / since_start.exp()).unsqueeze(-1)"),
)
_chunked(
    "products_clamped",
    "A product that is held above 0 gives wrong quotients, where a log difference is exact.",
    (
        "between = since_start.unsqueeze(-1) - since_start.unsqueeze(-2)",
        "p = since_start.exp().clamp(min=1e-30)\n        between = (p.unsqueeze(-1) / p.unsqueeze(-2)).log()",
    ),
)
_chunked(
    "undecayed_in_the_chunk",
    "In a chunk too a token's share decays with every token that follows it.",
    (INSIDE, "inside = (queries @ keys.mT).tril() @ values"),
)
_chunked(
    "carry_not_decayed",
    "The old state decays by the whole chunk before the chunk's tokens are added.",
    (CARRIED, "state = state + (keys * to_end).mT @ values"),
)
_chunked(
    "keys_not_decayed",
    "At the end of the chunk its first token has decayed the most: yours adds all tokens as if they were new.",
    ("(keys * to_end).mT", "keys.mT"),
)
_chunked(
    "keys_decayed_from_the_start",
    "A token decays from itself to the END of the chunk; yours takes the decay from the start to it.",
    (TO_END, "to_end = since_start.exp().unsqueeze(-1)"),
)
_chunked(
    "keys_decayed_once_too_often",
    "The decays between a token and the chunk's end are those of LATER tokens: yours counts its own as well.",
    (TO_END, "to_end = (since_start[..., -1:] - since_start + log_decay[:, :, part]).exp().unsqueeze(-1)"),
)
_chunked(
    "last_chunk_lost",
    "The last chunk may be shorter: yours drops the tokens that do not fill one.",
    ("out = torch.empty_like(v)\n    for start in", "out = torch.zeros_like(v)\n    for start in"),
    (STARTS, "for start in range(0, v.shape[2] - chunk + 1, chunk):"),
)
_chunked(
    "decays_since_the_text_began",
    "Sums of logs start anew in each chunk: yours run on from the first token, and the state decays again and again.",
    (
        "since_start = log_decay[:, :, part].cumsum(-1)",
        "since_start = log_decay.cumsum(-1)[:, :, part]",
    ),
)
_chunked(
    "state_is_ignored",
    "The first chunk reads the state that is handed in: yours starts from zeros, and decode forgets the prompt.",
    (
        "is None else state\n    out = torch.empty_like(v)\n    for start in",
        "is None else torch.zeros_like(state)\n    out = torch.empty_like(v)\n    for start in",
    ),
)


def _steps_in_chunks(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError("a chunk has a token")
    state = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    outs = [v[:, :, :0]]
    for start in range(0, v.shape[2], chunk):
        s = slice(start, start + chunk)
        for t in range(*s.indices(v.shape[2])):
            state = log_decay[:, :, t, None, None].exp() * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            outs.append(q[:, :, t, None, :] @ state)
    return torch.cat(outs, 2), state


ghost(
    "level11.ssm.linear_attention_chunked",
    "steps_in_a_chunk",
    "A chunk is a few matrix products: yours walks through its tokens, as the recurrence does.",
    program=_steps_in_chunks,
)
_chunked(
    "all_pairs_at_once",
    "`chunk` tokens at a time: yours compares all pairs of tokens, and its cost grows with the square of the text.",
    (STARTS, f"chunk = max(chunk, v.shape[2])\n    {STARTS}"),
)


def _reads_the_past_again(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError("a chunk has a token")
    first = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1]) if state is None else state
    logs, out, state = log_decay.cumsum(-1), torch.empty_like(v), first
    for start in range(0, v.shape[2], chunk):
        s, seen = slice(start, start + chunk), slice(0, start + chunk)
        between = logs[:, :, s, None] - logs[:, :, None, seen]
        between = between.masked_fill(torch.ones(between.shape[-2:]).triu(start + 1).bool(), -torch.inf)
        inside = (q[:, :, s] @ k[:, :, seen].mT * between.exp()) @ v[:, :, seen]
        out[:, :, s] = inside + logs[:, :, s, None].exp() * (q[:, :, s] @ first)
    if v.shape[2]:
        to_end = (logs[..., -1:] - logs).exp().unsqueeze(-1)
        state = logs[..., -1, None, None].exp() * first + (k * to_end).mT @ v
    return out, state


ghost(
    "level11.ssm.linear_attention_chunked",
    "reads_the_past_again",
    "The state holds the chunks before, so that their keys are not read again: yours does, as attention must.",
    program=_reads_the_past_again,
)


def _head_by_head(q, k, v, log_decay, chunk, state=None):
    if chunk < 1:
        raise ValueError("a chunk has a token")
    out = torch.empty_like(v)
    new = k.new_zeros(*k.shape[:2], k.shape[-1], v.shape[-1])
    for b in range(k.shape[0]):
        for h in range(k.shape[1]):
            s = new[b, h] if state is None else state[b, h]
            for start in range(0, v.shape[2], chunk):
                part = slice(start, start + chunk)
                queries, keys, values, logs = (x[b, h, part] for x in (q, k, v, log_decay))
                logs = logs.cumsum(0)
                between = (logs[:, None] - logs).masked_fill(
                    torch.ones(len(logs), len(logs)).triu(1).bool(), -torch.inf
                )
                out[b, h, part] = (queries @ keys.mT * between.exp()) @ values + logs.exp()[:, None] * (queries @ s)
                s = logs[-1].exp() * s + (keys * (logs[-1] - logs).exp()[:, None]).mT @ values
            new[b, h] = s
    return out, new


ghost(
    "level11.ssm.linear_attention_chunked",
    "head_by_head",
    "Heads and sequences are axes of one product: yours makes four small products for each of them.",
    program=_head_by_head,
)

# ---- selective_scan

GROUPS = "part.repeat_interleave(x.shape[1] // b.shape[1], 1)"
CALL = "linear_attention_chunked(c, b, dt.unsqueeze(-1) * x, dt * a.unsqueeze(-1), chunk, state)"
SKIP = "d.view(-1, 1, 1) * x, state"

_scan(
    "state_grows",
    "a is below 0, so that the state decays: yours makes it grow.",
    ("dt * a.unsqueeze(-1)", "-dt * a.unsqueeze(-1)"),
)
_scan(
    "input_without_step",
    "The step scales what comes in, dt x, as well as the decay: yours adds x whole.",
    ("dt.unsqueeze(-1) * x, dt", "x, dt"),
)
_scan(
    "decay_without_step",
    "The decay is exp(dt a): yours is exp(a), the same for every token, whatever the step selects.",
    ("dt * a.unsqueeze(-1)", "a.unsqueeze(-1).expand_as(dt)"),
)
_scan(
    "no_skip",
    "Each head passes its input on as well: add d · x.",
    ("return y + d.view(-1, 1, 1) * x, state", "return y, state"),
)
_scan(
    "skip_with_step",
    "d · x is outside the state: the step does not scale it.",
    (SKIP, "d.view(-1, 1, 1) * dt.unsqueeze(-1) * x, state"),
)
_scan(
    "forgets_the_prompt",
    "Decode goes on from the state of the tokens before: yours starts from zeros.",
    ("chunk, state)\n", "chunk)\n"),
)
_scan(
    "heads_dealt_to_groups",
    "Neighbouring heads share a group, h // (H / G): yours deals them out in turn, h % G.",
    (GROUPS, "part.repeat(1, x.shape[1] // b.shape[1], 1, 1)"),
)
_scan(
    "first_group_for_all",
    "Each group has its own b and c: yours reads the first one for all heads.",
    (GROUPS, "part[:, :1].expand(-1, x.shape[1], -1, -1)"),
)
_scan(
    "b_and_c_swapped",
    "b writes into the state, as a key, and c reads it, as a query: yours has them the other way round.",
    (CALL, CALL.replace("(c, b,", "(b, c,")),
)
_scan(
    "euler_decay",
    "1 + dt a is near exp(dt a) for small steps only: the decay is the exponential.",
    ("dt * a.unsqueeze(-1)", "(1 + dt * a.unsqueeze(-1)).clamp(min=1e-30).log()"),
)
_scan(
    "exact_zero_order_hold",
    "Mamba-2 scales the input by dt: the exact factor (exp(dt a) - 1) / a is another model.",
    ("dt.unsqueeze(-1) * x, dt", "((dt * a.unsqueeze(-1)).expm1() / a.unsqueeze(-1)).unsqueeze(-1) * x, dt"),
)
_scan(
    "decay_is_passed_as_a_factor",
    "linear_attention_chunked takes the log of the decay, dt a, not its exp.",
    ("dt * a.unsqueeze(-1)", "(dt * a.unsqueeze(-1)).exp()"),
)
_scan(
    "softplus_twice",
    "dt is the step itself, at least 0: the softplus was taken before it came here.",
    ("dt * a.unsqueeze(-1)", "torch.nn.functional.softplus(dt) * a.unsqueeze(-1)"),
)
_scan(
    "a_is_a_log",
    "a is below 0 and ready for use: yours takes it for the A_log that a checkpoint stores, and exponentiates again.",
    ("dt * a.unsqueeze(-1)", "-dt * a.exp().unsqueeze(-1)"),
)
_scan(
    "one_chunk_for_all",
    "`chunk` tokens at a time: yours hands over the whole text as one chunk, whose cost is quadratic.",
    ("chunk, state)\n", "max(1, chunk, x.shape[2]), state)\n"),
)
_scan(
    "token_by_token",
    "The text is there already: in chunks it is a few matrix products, and yours makes a step for every token.",
    (CALL, "linear_attention_chunked(c, b, dt.unsqueeze(-1) * x, dt * a.unsqueeze(-1), min(chunk, 1), state)"),
)

# ---- delta_step

MOVED = "return state + k.unsqueeze(-1) * (beta.unsqueeze(-1) * (v - found)).unsqueeze(-2)"

_delta("only_adds", "What k finds is replaced, not added to: subtract it from v first.", ("(v - found)", "v"))
_delta("wrong_sign", "It moves towards v, by v - found: yours adds both.", ("(v - found)", "(v + found)"))
_delta("away_from_v", "The difference is v - found: yours moves away from v.", ("(v - found)", "(found - v)"))
_delta(
    "all_keys_forget",
    "Only what is stored under k is moved: yours lets the whole state decay.",
    (MOVED, "return (1 - beta[..., None, None]) * state + k.unsqueeze(-1) * (beta.unsqueeze(-1) * v).unsqueeze(-2)"),
)
_delta("beta_ignored", "beta says how far: yours always goes all the way to v.", ("beta.unsqueeze(-1) * ", ""))
_delta(
    "beta_on_v_alone",
    "beta scales the whole difference, what goes as well as what comes: yours scales v only.",
    ("(beta.unsqueeze(-1) * (v - found))", "(beta.unsqueeze(-1) * v - found)"),
)
_delta(
    "read_along_the_values",
    "k has the state's rows, K: found is kᵀ state. Yours multiplies from the other side.",
    (
        "(k.unsqueeze(-2) @ state).squeeze(-2)",
        "(k.unsqueeze(-2) @ state.reshape(*v.shape, -1).mT.reshape(state.shape)).squeeze(-2)",
    ),
)
_delta(
    "beta_squared",
    "beta once: yours scales by it where it reads and again where it writes.",
    ("(k.unsqueeze(-2) @ state)", "(beta[..., None, None] * k.unsqueeze(-2) @ state)"),
)

"""Known-wrong programs of level11.moe. `ghost` is given when this is read."""

_PROBS = "probs = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))"
_BEST = "(best[:, :k] for best in probs.sort(dim=-1, descending=True, stable=True))"
_SUM = "gates = gates / gates.sum(-1, keepdim=True)"
_ROUTED = "return expert_ids, gates.to(logits.dtype)"
_SCORES = "scores = logits.to(torch.promote_types(logits.dtype, torch.float32)).sigmoid()"
_IDS = "expert_ids = (scores + bias).sort(dim=-1, descending=True, stable=True).indices[:, :k]"
_GATES = "gates = scores.gather(-1, expert_ids)  # subtle: looked up, since (score + bias) - bias loses a small score"
_SCALED = "return expert_ids, (scale * gates / gates.sum(-1, keepdim=True)).to(logits.dtype)"
_LOADS = "loads = expert_ids.flatten().bincount(minlength=len(bias)).to(bias.dtype)"
_STEP = "return bias + speed * (loads.mean() - loads).sign()"
_CHOSEN = "chosen = expert_ids.flatten().bincount(minlength=n_experts) / expert_ids.numel()"
_LOSS = "return n_experts * (chosen * probs.mean(0)).sum()"
_OUT = "out = torch.zeros_like(x)"
_LOOP = "for expert in expert_ids.unique().tolist():"
_WHERE = "token, place = (expert_ids == expert).nonzero(as_tuple=True)"
_ADD = "out.index_add_(0, token, gates[token, place].unsqueeze(-1) * experts[expert](x[token]))"
_DONE = "return out"


def _of(kata):
    def add(name, sentence, *pairs, **more):
        ghost(f"level11.moe.{kata}", name, sentence, change=list(zip(pairs[::2], pairs[1::2])), **more)

    return add


_route, _sigmoid, _loss, _forward = map(_of, ["route", "route_sigmoid", "load_balance_loss", "moe_forward"])

# ---- route

_route(
    "not_renormalised",
    "With renormalize, the gates of a token sum to 1: yours are the probabilities as they are.",
    _SUM,
    "pass",
)
_route(
    "always_renormalised",
    "Without renormalize, the gates are the probabilities as they are: yours always sum to 1.",
    "if renormalize:",
    "if True:",
)
_route(
    "flag_inverted",
    "renormalize means that the gates of a token sum to 1: yours do when it is False.",
    "if renormalize:",
    "if not renormalize:",
)
_route(
    "smallest",
    "A token goes to its most likely experts: yours takes the least likely ones.",
    _BEST,
    "(best[:, :k] for best in probs.sort(dim=-1, stable=True))",
)
_route(
    "softmax_over_tokens",
    "The softmax runs over the experts, for each token on its own: yours runs over the tokens of the batch.",
    _PROBS,
    "probs = logits.softmax(0, dtype=torch.promote_types(logits.dtype, torch.float32))",
)
_route(
    "ties_to_the_higher_id",
    "Of equally likely experts the lower id comes first; yours takes the higher.",
    _BEST,
    "(best.flip(-1)[:, :k] for best in probs.sort(dim=-1, stable=True))",
)
_route(
    "in_order_of_id",
    "The most likely expert comes first; yours come in the order of their ids.",
    _ROUTED,
    "expert_ids, order = expert_ids.sort(dim=-1)\n    return expert_ids, gates.gather(-1, order).to(logits.dtype)",
)
_route(
    "half_precision",
    "The softmax is in float32 or better: in bfloat16, experts that differ a little become equal.",
    _PROBS,
    "probs = logits.softmax(-1)",
)
_route(
    "raw_logits",
    "Gates are probabilities, or their parts of the sum: yours are the router's raw scores.",
    _ROUTED,
    "return expert_ids, logits.gather(-1, expert_ids)",
)
_route(
    "softmax_again",
    "To renormalize is to divide by the sum: a softmax of probabilities makes them nearly equal.",
    _SUM,
    "gates = gates.softmax(-1)",
)
_route(
    "naive_exponential",
    "exp(1000) is infinite and exp(-1000) is 0: use softmax, which takes the largest logit off first.",
    _PROBS,
    "odds = logits.to(torch.promote_types(logits.dtype, torch.float32)).exp()\n"
    "    probs = odds / odds.sum(-1, keepdim=True)",
)
_route(
    "largest_of_the_batch",
    "Take off the largest logit of each token's own row: beside another token's, its exponentials may all be 0.",
    _PROBS,
    "odds = logits.to(torch.promote_types(logits.dtype, torch.float32))\n"
    "    odds = (odds - odds.max()).exp()\n"
    "    probs = odds / odds.sum(-1, keepdim=True)",
)
_route(
    "type_not_restored",
    "Gates have the type of the logits: yours stay float32, and so would all that they weigh.",
    _ROUTED,
    "return expert_ids, gates",
)

# ---- route_sigmoid

_sigmoid(
    "bias_in_gate",
    "The bias chooses and weighs nothing: look the gates up in the scores, not in score + bias.",
    _GATES,
    "gates = (scores + bias).gather(-1, expert_ids)",
)
_sigmoid(
    "bias_ignored",
    "The bias must take part in the choice, or it balances nothing.",
    _IDS,
    "expert_ids = scores.sort(dim=-1, descending=True, stable=True).indices[:, :k]",
)
_sigmoid(
    "bias_on_logits",
    "The bias is added to the scores, after the sigmoid: yours is added to the logits.",
    _IDS,
    "expert_ids = (logits + bias).sort(dim=-1, descending=True, stable=True).indices[:, :k]",
)
_sigmoid(
    "bias_before_the_sigmoid",
    "A score is sigmoid(logit): with the bias within the sigmoid it chooses otherwise, and weighs as well.",
    _SCORES,
    "scores = (logits.to(torch.promote_types(logits.dtype, torch.float32)) + bias).sigmoid()",
    _IDS,
    "expert_ids = scores.sort(dim=-1, descending=True, stable=True).indices[:, :k]",
)
_sigmoid(
    "bias_subtracted",
    "The bias is added: it is raised for experts that get too few tokens.",
    _IDS,
    "expert_ids = (scores - bias).sort(dim=-1, descending=True, stable=True).indices[:, :k]",
)
_sigmoid(
    "bias_subtracted_again",
    "(score + bias) - bias is no longer the score: in float32, 1e-8 beside 12 is 0. Look the score up.",
    _GATES,
    "gates = (scores + bias).gather(-1, expert_ids) - bias[expert_ids]",
)
_sigmoid(
    "softmax_scores",
    "Each expert's score is a sigmoid of its own logit: yours share a softmax.",
    _SCORES,
    "scores = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))",
)
_sigmoid(
    "not_normalised",
    "The k scores are divided by their sum; yours are not.",
    _SCALED,
    "return expert_ids, (scale * gates).to(logits.dtype)",
)
_sigmoid(
    "normalised_over_all",
    "The k gates are divided by their own sum: yours by that of all experts' scores.",
    _SCALED,
    "return expert_ids, (scale * gates / scores.sum(-1, keepdim=True)).to(logits.dtype)",
)
_sigmoid(
    "normalised_by_softmax",
    "The k scores are divided by their sum: a softmax of scores makes them nearly equal.",
    _SCALED,
    "return expert_ids, (scale * gates.softmax(-1)).to(logits.dtype)",
)
_sigmoid(
    "scale_ignored",
    "The gates of a token sum to `scale`: yours sum to 1. Multiply after the division, where it does not cancel.",
    _SCALED,
    "return expert_ids, (gates / gates.sum(-1, keepdim=True)).to(logits.dtype)",
)
_sigmoid(
    "in_order_of_score",
    "The largest score + bias comes first: yours are in the order of the score.",
    _GATES,
    "gates, order = scores.gather(-1, expert_ids).sort(dim=-1, descending=True, stable=True)\n"
    "    expert_ids = expert_ids.gather(-1, order)",
)
_sigmoid(
    "half_precision_scores",
    "Scores are in float32 or better: in bfloat16, sigmoid(7) and sigmoid(8) are both 1.",
    _SCORES,
    "scores = logits.sigmoid()",
)
_sigmoid(
    "half_precision_sums",
    "score + bias is in float32 or better: rounded to the logits' bfloat16, experts that differ a little become equal.",
    _IDS,
    "expert_ids = (scores + bias).to(logits.dtype).sort(dim=-1, descending=True, stable=True).indices[:, :k]",
)
_sigmoid(
    "last_of_equals",
    "Of equal ones the lower id is chosen first; yours takes the higher.",
    _IDS,
    "expert_ids = (scores + bias).sort(dim=-1, stable=True).indices.flip(-1)[:, :k]",
)

# ---- adjust_bias, judged with route_sigmoid

_sigmoid(
    "adjust_wrong_way",
    "Experts above the mean load get a lower bias: yours raises it, and the full ones get fuller.",
    _STEP,
    "return bias + speed * (loads - loads.mean()).sign()",
)
_sigmoid(
    "adjust_in_proportion",
    "One step of `speed` for each expert that is not at the mean, however far it is: yours is in proportion.",
    _STEP,
    "return bias + speed * (loads.mean() - loads)",
)
_sigmoid(
    "adjust_only_down",
    "Experts below the mean load are raised as well: yours only lowers the full ones.",
    _STEP,
    "return bias - speed * (loads > loads.mean())",
)
_sigmoid(
    "adjust_down_at_the_mean",
    "An expert with exactly the mean load keeps its bias: yours moves it.",
    _STEP,
    "return bias + speed * torch.where(loads < loads.mean(), 1, -1)",
)
_sigmoid(
    "adjust_mean_of_the_busy",
    "The mean load is over all E experts, T · k / E: yours leaves out those that nobody chose.",
    _STEP,
    "return bias + speed * (loads.sum() / (loads > 0).sum().clamp(min=1) - loads).sign()",
)
_sigmoid(
    "adjust_mean_of_one_choice",
    "The mean load is T · k / E: yours is T / E, and nearly all experts lie above it.",
    _STEP,
    "return bias + speed * (len(expert_ids) / len(bias) - loads).sign()",
)
_sigmoid(
    "adjust_first_choices",
    "Each of a token's k choices is load: yours counts the first one.",
    _LOADS,
    "loads = expert_ids[:, 0].bincount(minlength=len(bias)).to(bias.dtype)",
)
_sigmoid(
    "adjust_idle_left_alone",
    "An expert that nobody chose is below the mean, and needs a higher bias most of all: yours keeps its own.",
    _STEP,
    "return bias + speed * (loads.mean() - loads).sign() * (loads > 0)",
)
_sigmoid(
    "adjust_in_place",
    "The old bias is not changed: return a new one.",
    _STEP,
    "return bias.add_(speed * (loads.mean() - loads).sign())",
)

# ---- load_balance_loss

_loss(
    "no_E",
    "The sum is multiplied by E, so that balance gives 1 whatever E is: yours gives 1/E.",
    _LOSS,
    "return (chosen * probs.mean(0)).sum()",
)
_loss(
    "times_k",
    "Here f sums to 1: divide the counts by all T · k choices. Divided by T, the loss is k times as large.",
    _CHOSEN,
    "chosen = expert_ids.flatten().bincount(minlength=n_experts) / expert_ids.shape[0]",
    convention=True,
)
_loss(
    "first_choice_only",
    "All k choices of a token are load: yours counts the first one.",
    _CHOSEN,
    "chosen = expert_ids[:, 0].bincount(minlength=n_experts) / len(expert_ids)",
)
_loss(
    "counts_squared",
    "One factor is the mean probability: counts alone have no gradient.",
    _LOSS,
    "return n_experts * (chosen * chosen).sum() + 0 * probs.sum()",
)
_loss(
    "probabilities_squared",
    "One factor is what was chosen, the part of the choices that fell on each expert: yours has probabilities in both.",
    _LOSS,
    "return n_experts * (probs.mean(0) * probs.mean(0)).sum()",
)
_loss(
    "summed_over_tokens",
    "P_i is the mean over the tokens: yours is their sum, and grows with the batch.",
    _LOSS,
    "return n_experts * (chosen * probs.sum(0)).sum()",
)
_loss(
    "detached",
    "The gradient reaches the router through the probabilities: yours is cut off from them.",
    _LOSS,
    "return (n_experts * (chosen * probs.detach().mean(0)).sum()).requires_grad_()",
)
_loss(
    "k_for_E",
    "The factor is the number of experts E, not the k that a token goes to.",
    _LOSS,
    "return expert_ids.shape[1] * (chosen * probs.mean(0)).sum()",
)
_loss(
    "argmax_for_the_choice",
    "f counts what was chosen, expert_ids: yours counts each token's most likely expert.",
    _CHOSEN,
    "chosen = probs.argmax(-1).bincount(minlength=n_experts) / len(probs)",
)
_loss(
    "softmax_again",
    "probs are probabilities already: yours puts them through a softmax once more.",
    _LOSS,
    "return n_experts * (chosen * probs.softmax(-1).mean(0)).sum()",
)

# ---- moe_forward

_forward(
    "unweighted",
    "What an expert makes counts as much as its gate says: yours adds it as it is.",
    _ADD,
    "out.index_add_(0, token, experts[expert](x[token]))",
)
_forward(
    "assignment_overwrites",
    "A token's experts are added up: yours overwrites what the others have written.",
    _ADD,
    "out[token] = gates[token, place].unsqueeze(-1) * experts[expert](x[token])",
)
_forward(
    "first_choice_only",
    "All k experts of a token are added up: yours takes the first one.",
    _LOOP,
    "expert_ids = expert_ids[:, :1]\n    " + _LOOP,
)
_forward(
    "every_expert_called",
    "An expert without tokens is not called: each call reads all of its weights.",
    _LOOP,
    "for expert in range(len(experts)):",
)
_forward(
    "all_tokens_to_each",
    "An expert sees its own tokens: yours computes it for all of them and picks some, E / k times the work.",
    _ADD,
    "out.index_add_(0, token, gates[token, place].unsqueeze(-1) * experts[expert](x)[token])",
)
_forward(
    "token_by_token",
    "An expert is called once with all its tokens: a call for each token reads its weights again.",
    _LOOP,
    "for t, row in enumerate(expert_ids.tolist()):\n"
    "        for j, e in enumerate(row):\n"
    "            out[t] += gates[t, j] * experts[e](x[t : t + 1])[0]\n"
    "    for expert in []:",
)
_forward(
    "place_by_place",
    "An expert is called once: yours calls it for those who have it first, again for those who have it second, and so on.",
    _LOOP,
    "for j in range(expert_ids.shape[1]):\n"
    "        for e in expert_ids[:, j].unique().tolist():\n"
    "            rows = (expert_ids[:, j] == e).nonzero().flatten()\n"
    "            out.index_add_(0, rows, gates[rows, j].unsqueeze(-1) * experts[e](x[rows]))\n"
    "    for expert in []:",
)
_forward(
    "tokens_in_the_order_of_places",
    "An expert gets its tokens in their order in x: yours come in the order of their places, first those of place 0.",
    _WHERE,
    "place, token = (expert_ids.T == expert).nonzero(as_tuple=True)",
)
_forward(
    "gate_of_first_place",
    "A token's gate for an expert stands at the place where its row names that expert: yours takes the first gate.",
    _ADD,
    "out.index_add_(0, token, gates[token, 0 * place].unsqueeze(-1) * experts[expert](x[token]))",
)
_forward(
    "gate_of_the_expert_number",
    "gates[t, j] belongs to the expert in expert_ids[t, j]; j is not the expert's number.",
    _ADD,
    "out.index_add_(0, token, gates[token, expert % gates.shape[1]].unsqueeze(-1) * experts[expert](x[token]))",
)
_forward(
    "gates_before_the_experts",
    "A gate weighs what comes out of an expert: experts are not linear, so it can't weigh what goes in.",
    _ADD,
    "out.index_add_(0, token, experts[expert](gates[token, place].unsqueeze(-1) * x[token]))",
)
_forward(
    "gates_normalised",
    "Gates are taken as they are: whether they sum to 1 is the router's business.",
    _LOOP,
    "gates = gates / gates.sum(1, keepdim=True)\n    " + _LOOP,
)
_forward(
    "gates_through_softmax",
    "Gates are taken as they are: they are no logits any more.",
    _LOOP,
    "gates = gates.softmax(1)\n    " + _LOOP,
)
_forward(
    "numbered_among_the_wanted",
    "Expert e is experts[e]: yours takes the number that it has among those that are wanted.",
    _LOOP,
    "for number, expert in enumerate(expert_ids.unique().tolist()):",
    _ADD,
    "out.index_add_(0, token, gates[token, place].unsqueeze(-1) * experts[number](x[token]))",
)
_forward(
    "mean_of_the_experts",
    "The gates are the weights already: add up, and do not divide by k.",
    _DONE,
    "return out / expert_ids.shape[1]",
)
_forward(
    "residual_added",
    "Only the experts' sum is returned: the caller adds x.",
    _OUT,
    "out = x.clone()",
)
_forward(
    "capacity",
    "No token is dropped, however full an expert is: yours leaves out those beyond twice the mean load.",
    _WHERE,
    _WHERE + "\n        limit = max(4, 2 * expert_ids.numel() // len(experts))\n"
    "        token, place = token[:limit], place[:limit]",
)
_forward(
    "small_gates_left_out",
    "Each of a token's k experts counts, however small its gate: yours leaves out the small ones.",
    _WHERE,
    "token, place = ((expert_ids == expert) & (gates > 0.01 * gates.max())).nonzero(as_tuple=True)\n"
    "        if not len(token):\n            continue",
)
_forward(
    "matrix_of_zeros_and_gates",
    "0 · NaN is NaN: with products over all rows one broken token breaks its neighbours. Add to an expert's own rows.",
    _ADD,
    "weights = (gates * (expert_ids == expert)).sum(1)[:, None] * torch.eye(len(x), dtype=x.dtype)[:, token]\n"
    "        out = out + weights @ experts[expert](x[token])",
)
_forward(
    "row_for_token",
    "Row r of the flattened choices belongs to token r // k: yours takes it for token r % T.",
    _WHERE,
    "flat = (expert_ids.flatten() == expert).nonzero().flatten()\n"
    "        token, place = flat % len(x), flat % expert_ids.shape[1]",
)
_forward(
    "rows_in_reverse",
    "An expert gets its tokens in their order in x: yours come backwards.",
    _WHERE,
    _WHERE + "\n        token, place = token.flip(0), place.flip(0)",
)
_forward(
    "always_float32",
    "The result has x's type: yours is float32, whatever goes in.",
    _OUT,
    "out = torch.zeros(x.shape)",
    _ADD,
    "out.index_add_(0, token, (gates[token, place].unsqueeze(-1) * experts[expert](x[token])).float())",
)

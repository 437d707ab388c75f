"""Known-wrong programs of level09.expert. `ghost` is given when this is read."""

_LOADS = "loads = expert_ids.flatten().bincount(minlength=n_experts)"
_RATIO = "return float(loads.max() / loads.double().mean())"
_OF = "experts_of = expert_ids.flatten()"
_ORDER = "order = experts_of.argsort(stable=True)"
_COUNTS = "counts = (experts_of // len(experts)).bincount(minlength=comm.size).tolist()"
_ROWS = "rows = all_to_all(comm, x[order // expert_ids.shape[1]].split(counts))"
_WANTED = "wanted = torch.cat(all_to_all(comm, experts_of[order].split(counts))) % len(experts)"
_ARRIVED = "arrived = torch.cat(rows)"
_CALL = "done[wanted == index] = expert(arrived[wanted == index])"
_LOOP = "for index, expert in enumerate(experts):"
_HOME = "home = torch.cat(all_to_all(comm, done.split([len(part) for part in rows])))"
_UNSORT = "choices[order] = home"
_RETURN = "return (gates.unsqueeze(-1) * choices.view(*expert_ids.shape, x.shape[-1])).sum(1)"


def _parallel(name, sentence, *pairs):
    ghost("level09.expert.expert_parallel", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- expert_parallel

_parallel(
    "order_not_restored",
    "Rows come home in the order in which they were sent, by expert: put each back in its token's place.",
    _UNSORT,
    "choices = home",
)
_parallel(
    "sorted_once_more",
    "The sort is undone by its inverse, choices[order] = home: to index with order again sorts once more.",
    _UNSORT,
    "choices = home[order]",
)
_parallel(
    "gates_forgotten",
    "What an expert makes counts as much as its gate says.",
    _RETURN,
    "return choices.view(*expert_ids.shape, x.shape[-1]).sum(1)",
)
_parallel(
    "gates_normalised",
    "Gates are taken as they are: whether they sum to 1 is the router's business.",
    _RETURN,
    "gates = gates / gates.sum(1, keepdim=True)\n    " + _RETURN,
)
_parallel(
    "gates_through_softmax",
    "Gates are taken as they are, they are no logits.",
    _RETURN,
    "gates = gates.softmax(1)\n    " + _RETURN,
)
_parallel(
    "gates_before_the_experts",
    "A gate weighs what comes out of an expert: experts are not linear.",
    _ROWS,
    "rows = all_to_all(comm, (x[order // expert_ids.shape[1]] * gates.flatten()[order].unsqueeze(-1)).split(counts))",
    _RETURN,
    "return choices.view(*expert_ids.shape, x.shape[-1]).sum(1)",
)
_parallel(
    "one_choice_counts",
    "out[tokens] += rows adds one row where a token stands twice: use index_add_, or a sum over its choices.",
    "choices = torch.empty_like(home)",
    "choices = torch.zeros_like(x)",
    _UNSORT,
    "choices[order // expert_ids.shape[1]] += home * gates.flatten()[order].unsqueeze(-1)",
    _RETURN,
    "return choices",
)
_parallel(
    "gates_by_expert",
    "A token may have the same expert twice, each time with its own gate: one place for each expert holds one of them.",
    _RETURN,
    "table = gates.new_zeros(len(x), len(experts) * comm.size).scatter(1, expert_ids, gates)\n"
    "    first = (expert_ids.unsqueeze(-1) == expert_ids.unsqueeze(1)).tril(-1).any(-1).logical_not()\n"
    "    gates = table.gather(1, expert_ids) * first\n    " + _RETURN,
)
_parallel(
    "number_in_the_rows_dtype",
    "bfloat16 has no 257: a number of an expert travels as an integer, not in a row's dtype.",
    _WANTED,
    "wanted = torch.cat(all_to_all(comm, experts_of[order].to(x.dtype).split(counts))).long() % len(experts)",
)
_parallel(
    "gates_in_sorted_order",
    "A gate belongs to its token and choice: yours meets the rows in the order of the experts.",
    _RETURN,
    "gates = gates.flatten()[order].view(gates.shape)\n    " + _RETURN,
)
_parallel(
    "mean_of_the_choices",
    "The gated results are added, not averaged.",
    _RETURN,
    "return (gates.unsqueeze(-1) * choices.view(*expert_ids.shape, x.shape[-1])).mean(1)",
)
_parallel(
    "first_choice_only",
    "A token has k experts, and all of them count: yours keeps the first one's result.",
    _RETURN,
    "return gates[:, :1] * choices.view(*expert_ids.shape, x.shape[-1])[:, 0]",
)
_parallel(
    "residual_added",
    "The result is the experts' alone: the residual is added by whoever calls this.",
    _RETURN,
    "return x + (gates.unsqueeze(-1) * choices.view(*expert_ids.shape, x.shape[-1])).sum(1)",
)
_parallel(
    "experts_dealt_out",
    "Expert e is on rank e // len(experts): neighbours are on one rank, not every size-th one.",
    _ORDER,
    "order = (experts_of % comm.size).argsort(stable=True)",
    _COUNTS,
    "counts = (experts_of % comm.size).bincount(minlength=comm.size).tolist()",
    _WANTED,
    "wanted = torch.cat(all_to_all(comm, experts_of[order].split(counts))) // comm.size",
)
_parallel(
    "local_number_by_rank_count",
    "On its rank expert e has the number e % len(experts), not e % size.",
    _WANTED,
    "wanted = torch.cat(all_to_all(comm, experts_of[order].split(counts))) % comm.size",
    "done = torch.empty_like(arrived)",
    "done = torch.zeros_like(arrived)",
)
_parallel(
    "global_numbers_on_the_rank",
    "A rank's experts count from 0: take the rank's first expert off the number.",
    _WANTED,
    "wanted = torch.cat(all_to_all(comm, experts_of[order].split(counts)))\n    done = torch.cat(rows) * 0",
    "done = torch.empty_like(arrived)",
    "done = torch.zeros_like(arrived)",
)
_parallel(
    "one_expert_on_each_rank",
    "A rank may have several experts: the number of a row's expert travels as well.",
    _WANTED,
    "wanted = torch.zeros(sum(map(len, rows)), dtype=torch.int64)",
)
_parallel(
    "tokens_repeated_in_blocks",
    "Flattened, row i is token i // k: repeat every token k times in a row, not the whole batch.",
    _ROWS,
    "rows = all_to_all(comm, x[order % max(1, len(x))].split(counts))",
)
_parallel(
    "tokens_not_repeated",
    "order numbers tokens and choices together: token i // k, or rows are taken from beyond the batch.",
    _ROWS,
    "rows = all_to_all(comm, x[order.clamp(max=max(0, len(x) - 1))].split(counts))",
)
_parallel(
    "capacity",
    "No token is dropped: with a capacity an answer depends on who else is in the batch.",
    _CALL,
    "mine = (wanted == index).nonzero().flatten()\n"
    "        done[mine] = 0\n"
    "        most = -(-len(arrived) // len(experts)) + 2\n"
    "        done[mine[:most]] = expert(arrived[mine[:most]])",
)
_parallel(
    "capacity_of_a_link",
    "No token is dropped: as many rows go to a rank as want it.",
    _UNSORT,
    "most = -(-len(home) // comm.size) + 1\n"
    "    place = torch.cat([torch.arange(n) for n in counts])\n"
    "    choices[order] = home.masked_fill((place >= most).unsqueeze(-1), 0)",
)
_parallel(
    "overflow_unchanged",
    "A token that finds its expert full is no token to pass by: every expert takes all that come.",
    _CALL,
    "mine = (wanted == index).nonzero().flatten()\n"
    "        done[mine] = arrived[mine]\n"
    "        done[mine[:8]] = expert(arrived[mine[:8]])",
)
_parallel(
    "equal_parts_assumed",
    "Ranks send one another different numbers of rows: only the rows that came say how many go back to each.",
    _HOME,
    "each = -(-len(done) // comm.size)\n"
    "    home = torch.cat(all_to_all(comm, [done[each * r : each * r + each] for r in range(comm.size)]))",
)
_parallel(
    "own_counts_on_the_way_home",
    "What goes home to a rank is what came from it, not as many rows as were sent there.",
    _HOME,
    "home = torch.cat(all_to_all(comm, (*done.split(counts),) if sum(counts) == len(done) else "
    "done.split([len(part) for part in rows])))",
)
_parallel(
    "results_in_the_experts_order",
    "What goes home must be in the order in which it came: yours is sorted by expert on the way.",
    _HOME,
    "done = done[wanted.argsort(stable=True)]\n    " + _HOME,
)
_parallel(
    "a_call_for_each_rank",
    "Each expert is called once, with the tokens of all ranks: every call reads its weights anew.",
    _LOOP,
    "source = torch.repeat_interleave(torch.arange(comm.size), torch.tensor([len(part) for part in rows]))\n"
    "    for rank in range(comm.size):\n        for index, expert in enumerate(experts):\n"
    "            here = (wanted == index) & (source == rank)\n            done[here] = expert(arrived[here])\n"
    "    for index, expert in []:",
)
_parallel(
    "a_call_for_each_token",
    "An expert takes all its tokens in one call: row by row its weights are read for each of them.",
    _CALL,
    "for row in (wanted == index).nonzero().flatten():\n            done[row] = expert(arrived[row : row + 1])[0]",
)
_parallel(
    "every_expert_on_every_row",
    "An expert computes the rows that want it: all rows through all experts is the work that routing saves.",
    _CALL,
    "done[wanted == index] = expert(arrived)[wanted == index]",
)
_parallel(
    "everything_to_everybody",
    "A row travels to the ranks of its experts alone: yours sends every token to every rank.",
    _ROWS,
    "all_to_all(comm, [x] * comm.size)\n    " + _ROWS,
)
_parallel(
    "own_experts_only",
    "Experts of other ranks count as well: tokens have to travel to them.",
    _UNSORT,
    "choices[order] = home.masked_fill((experts_of[order] // len(experts) != comm.rank).unsqueeze(-1), 0)",
)
_parallel(
    "nothing_to_do_without_tokens",
    "A rank without tokens of its own has experts for those of the others: it takes part.",
    _OF,
    "if len(x) == 0:\n        return x\n    experts_of = expert_ids.flatten()",
)
_parallel(
    "by_the_fullest_rank",
    "Each rank has as many tokens as it has: padded rows are sent for nothing, and meet experts.",
    _ROWS,
    "most = max(int(n) for n in all_to_all(comm, [torch.tensor([max(counts)])] * comm.size))\n"
    "    all_to_all(comm, [x.new_zeros(most, x.shape[1])] * comm.size)\n    " + _ROWS,
)
_parallel(
    "rows_in_float32",
    "An expert is given rows of x's dtype, and the result has it too.",
    _ROWS,
    "rows = all_to_all(comm, x[order // expert_ids.shape[1]].float().split(counts))",
)
_parallel(
    "each_expert_on_its_own_token_once",
    "The same expert may be chosen twice by a token, each time with a gate of its own: both count.",
    _RETURN,
    "k = expert_ids.shape[1]\n"
    "    seen = (expert_ids.unsqueeze(2) == expert_ids.unsqueeze(1)) & torch.ones(k, k, dtype=torch.bool).tril(-1)\n"
    "    gates = gates.masked_fill(seen.any(2), 0)\n    " + _RETURN,
)

# ---- load_imbalance

_parallel(
    "over_the_least",
    "The fullest over the mean: the emptiest one is often 0, and nobody waits for it.",
    _RATIO,
    "return float(loads.max() / loads.min().clamp(min=1))",
)
_parallel(
    "mean_over_the_least",
    "All wait for the fullest expert: the largest load over the mean.",
    _RATIO,
    "return float(loads.double().mean() / loads.min().clamp(min=1))",
)
_parallel(
    "over_those_in_use",
    "Idle experts are the imbalance: the mean is over all n_experts.",
    _RATIO,
    "return float(loads.max() / loads[loads > 0].double().mean())",
)
_parallel(
    "last_ones_forgotten",
    "Experts behind the last one in use are idle as well: count up to n_experts.",
    _LOADS,
    "loads = expert_ids.flatten().bincount()",
)
_parallel(
    "share_of_the_fullest",
    "1 means balanced: a share of all tokens still has to be divided by the mean share.",
    _RATIO,
    "return float(loads.max() / loads.sum())",
)
_parallel(
    "load_of_the_fullest",
    "The largest load over the mean load, not the load itself.",
    _RATIO,
    "return float(loads.max())",
)
_parallel(
    "spread_over_the_mean",
    "Balanced is 1, not 0: the largest load over the mean, from which nothing is taken away.",
    _RATIO,
    "return float(loads.max() / loads.double().mean()) - 1",
)
_parallel(
    "over_the_median",
    "Over the mean: a median does not see how far the fullest is away.",
    _RATIO,
    "return float(loads.max() / loads.double().quantile(0.5).clamp(min=1e-9))",
)
_parallel(
    "whole_mean",
    "The mean load is a fraction: rounded down it is 0, or too small.",
    _RATIO,
    "return float(loads.max() / max(1, int(loads.sum()) // n_experts))",
)
_parallel(
    "first_choices_only",
    "Every choice is load: yours counts the first of each token.",
    _LOADS,
    "loads = (expert_ids if expert_ids.dim() < 2 else expert_ids[:, 0]).bincount(minlength=n_experts)",
)
_parallel(
    "a_tensor",
    "A Python float is returned.",
    _RATIO,
    "return loads.max() / loads.double().mean()",
)

"""Known-wrong programs of level03.constrained. `ghost` is given when this is read."""

READ = "    for char in text:\n        if (state := dfa.step(state, char)) is None:\n            return None\n    return state\n"
STEP = "dfa.step(state, char)"
SEARCH = (
    "    while grown:\n"
    "        live |= grown\n"
    "        grown = {source for (source, _), target in dfa.edges.items() if target in live} - live\n"
    "    return live\n"
)
TEST = 'text != "" and walk(dfa, state, text) in live'
END = "    allowed[eos_id] = state in dfa.accepting\n"
MASK = "torch.tensor(allowed)"


# ---- walk


ghost(
    "level03.constrained.allowed_tokens",
    "stays_on_miss",
    "walk: where an edge is missing the text can't go on: return None, do not stay in the state before.",
    change=(
        READ,
        READ.replace(
            "            return None\n    return state", "            break\n        last = state\n    return last"
        ).replace("    for", "    last = state\n    for", 1),
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "skips_a_miss",
    "walk: a character without an edge ends the walk; yours leaves it out and reads on.",
    change=(
        READ,
        f"    for char in text:\n        if (to := {STEP}) is not None:\n            state = to\n    return state\n",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "first_char_only",
    "walk: a token has several characters, walk through all of them.",
    change=("for char in text:", "for char in text[:1]:"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "from_start",
    "walk: go on from the given state; from the start every token would begin the text anew.",
    change=("    for char in text:\n", "    state = dfa.start\n    for char in text:\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "state_zero_is_none",
    "walk: 0 is a state, though it is false: ask `is None`.",
    change=(f"if (state := {STEP}) is None:", f"if not (state := {STEP}):"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "ignores_other",
    "walk: ask dfa.step, which knows that characters without edges of their own share one symbol; the bare edges do not.",
    change=(STEP, "dfa.edges.get((state, char))"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "falls_back_to_other",
    "walk: a character of the alphabet without an edge here can't go on: the shared symbol stands for the others only.",
    change=(STEP, 'dfa.edges.get((state, char), dfa.edges.get((state, "other")))'),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_step_for_the_whole_text",
    "walk: an edge reads one character; step through the text, not with the text.",
    change=(READ, "    return dfa.step(state, text) if text else state\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "stops_when_complete",
    "walk: a text may be complete and go on: read all of it, past accepting states.",
    change=(
        "            return None\n",
        "            return None\n        if state in dfa.accepting:\n            return state\n",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "wants_a_complete_text",
    "walk: return the state, accepting or not: whether the text is complete is not asked here.",
    change=("    return state\n", "    return state if state in dfa.accepting else None\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "strips_spaces",
    "walk: a space is a character: most tokens begin with one.",
    change=("for char in text:", "for char in text.strip():"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_call_for_each_character",
    "walk: a loop, not one call inside of another: Python ends after a thousand, and texts are longer.",
    change=(
        READ,
        f"    for char in text[:1]:\n        state = {STEP}\n        return None if state is None else walk(dfa, state, text[1:])\n    return state\n",
    ),
)


# ---- live_states


ghost(
    "level03.constrained.allowed_tokens",
    "one_step",
    "live_states: repeat until nothing new is found: a state may be two steps or more away from an accepting one.",
    change=(
        SEARCH,
        SEARCH.replace(
            "    while",
            "    for _ in range(2):\n        live |= grown\n        grown = {source for (source, _), target in dfa.edges.items() if target in live} - live\n    while False and",
        ),
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_pass",
    "live_states: one pass over the edges finds what their order happens to allow: repeat it until nothing changes.",
    change=(
        SEARCH,
        "    live |= grown\n    for (source, _), target in dfa.edges.items():\n        if target in live:\n            live.add(source)\n    return live\n",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "reachable_from_start",
    "live_states: search backwards from the accepting states; a trap can be reached from the start as well, and has no way out.",
    change=[
        ("set(), set(dfa.accepting)", "set(), {dfa.start}"),
        (
            "{source for (source, _), target in dfa.edges.items() if target in live}",
            "{target for (source, _), target in dfa.edges.items() if source in live}",
        ),
    ],
)
ghost(
    "level03.constrained.allowed_tokens",
    "reachable_from_accepting",
    "live_states: follow the edges backwards; yours finds what comes after an accepting state, not what leads to one.",
    change=(
        "{source for (source, _), target in dfa.edges.items() if target in live}",
        "{target for (source, _), target in dfa.edges.items() if source in live}",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "forgets_accepting",
    "live_states: an accepting state is live itself, even if nothing leads on from it.",
    change=(
        SEARCH,
        SEARCH.replace("return live", "return {s for (s, _), target in dfa.edges.items() if target in live}"),
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "has_an_edge",
    "live_states: an edge may lead round and round: a state is live if an accepting one can be reached.",
    change=(SEARCH, "    return grown | {source for source, _ in dfa.edges}\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "accepting_only",
    "live_states: a state from which an accepting one can still be reached is live, not only the accepting one itself.",
    change=(SEARCH, "    return grown\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "only_what_the_start_reaches",
    "live_states: the question is whether a way leads out of a state; whether one leads from the start to it is another.",
    change=(
        SEARCH,
        SEARCH.replace(
            "    return live",
            "    reached, size = {dfa.start}, 0\n    while len(reached) > size:\n        size = len(reached)\n"
            "        reached |= {target for (source, _), target in dfa.edges.items() if source in reached}\n    return live & reached",
        ),
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_edge_for_each_state",
    "live_states: a state has several edges; a dict from state to state keeps only the last of them.",
    change=(
        "{source for (source, _), target in dfa.edges.items() if target in live}",
        "{source for source, target in {s: t for (s, _), t in dfa.edges.items()}.items() if target in live}",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_call_for_each_state",
    "live_states: a way out may be longer than the thousand calls that Python allows inside of each other: use a loop.",
    part="live_states",
    program=lambda dfa: _recursive(dfa),
)


def _recursive(dfa):
    before = {}
    for (source, _), target in dfa.edges.items():
        before.setdefault(target, []).append(source)
    live = set()

    def visit(state):
        if state not in live:
            live.add(state)
            for source in before.get(state, ()):
                visit(source)

    for state in dfa.accepting:
        visit(state)
    return live


# ---- allowed_tokens


ghost(
    "level03.constrained.allowed_tokens",
    "eos_always",
    "The end may come only where the text is complete: elsewhere the answer would not match the pattern.",
    change=(END, "    allowed[eos_id] = True\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "eos_never",
    "Where the text is complete the end must be allowed, or it can never stop.",
    change=(END, "    allowed[eos_id] = False\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "eos_where_it_can_go_on",
    "That the text can still be completed is not enough for the end: it must be complete now.",
    change=(END, "    allowed[eos_id] = state in live\n"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "eos_by_its_text",
    "The entry of eos_id is not read: its text may be anything, only whether the text so far is complete counts.",
    change=(END, END.replace("state in", "allowed[eos_id] or state in")),
)
ghost(
    "level03.constrained.allowed_tokens",
    "eos_is_the_last",
    "The end is where eos_id says, not always the last of the vocabulary.",
    change=(END, END.replace("eos_id", "-1")),
)
ghost(
    "level03.constrained.allowed_tokens",
    "nothing_but_the_end",
    "A complete text may also go on: after 1 both the end and another digit may come.",
    change=(
        END,
        END + "    if allowed[eos_id]:\n        allowed = [i == eos_id % len(vocab) for i in range(len(vocab))]\n",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "first_character",
    "A token is read as a whole: 01 begins well and ends badly.",
    change=("walk(dfa, state, text) in live", "walk(dfa, state, text[:1]) in live"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "last_character",
    "All characters of a token are read, one after the other, not the last one alone.",
    change=("walk(dfa, state, text) in live", "walk(dfa, state, text[-1:]) in live"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "trap_state",
    "A token that leads into a state without a way out must be refused now: after it nothing is allowed any more.",
    change=("walk(dfa, state, text) in live", "walk(dfa, state, text) is not None"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "only_complete_texts",
    "After a token the text need not be complete, only such that it can still be completed.",
    change=("walk(dfa, state, text) in live", "walk(dfa, state, text) in dfa.accepting"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "always_from_the_start",
    "A token continues the text: walk from the state where it stands, not from the start.",
    change=("walk(dfa, state, text) in live", "walk(dfa, dfa.start, text) in live"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "empty_token",
    "A token without text makes no progress: allowed, it could come for ever.",
    change=('text != "" and ', ""),
)
ghost(
    "level03.constrained.allowed_tokens",
    "must_move",
    "A token may lead back to its state, as every letter inside of a string does: only one without text makes no progress.",
    change=(TEST, f"{TEST} and walk(dfa, state, text) != state"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "state_zero_is_refused",
    "0 is a state, though it is false: test whether the walk arrived with `in live`, or `is not None`.",
    change=(TEST, f"{TEST} and walk(dfa, state, text) != 0"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "single_characters",
    "A token of several characters is as good as one: refusing it changes how the model spells, and takes more steps.",
    change=('text != "" and', "len(text) == 1 and"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "one_id_for_each_text",
    "Two ids may have the same text: a dict from text to id keeps one of them. Judge every id.",
    change=(
        f"[{TEST} for text in vocab]",
        f"[i == {{t: j for j, t in enumerate(vocab)}}[text] and {TEST} for i, text in enumerate(vocab)]",
    ),
)
ghost(
    "level03.constrained.allowed_tokens",
    "searches_for_each_token",
    "Where there is a way out does not depend on the token: find the live states once, not 50,000 times.",
    change=(TEST, TEST.replace("in live", "in live_states(dfa)")),
)
ghost(
    "level03.constrained.allowed_tokens",
    "forbidden_instead_of_allowed",
    "True means that a token may come; masks of what is forbidden are another convention.",
    change=(MASK, "~torch.tensor(allowed)"),
    convention=True,
)
ghost(
    "level03.constrained.allowed_tokens",
    "ids_instead_of_a_mask",
    "A mask (V,) is asked for, one entry for each token, not the list of the ids that may come.",
    change=(MASK, "torch.tensor(allowed).nonzero().flatten()"),
)
ghost(
    "level03.constrained.allowed_tokens",
    "numbers_instead_of_booleans",
    "The mask is bool: `~` and masked_fill take 0 and 1 for something else.",
    change=(MASK, "torch.tensor(allowed).long()"),
)

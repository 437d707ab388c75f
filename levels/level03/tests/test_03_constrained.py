"""Judges constrained.py by brute force: all texts that re.fullmatch accepts, and for automata made by hand or at random
a search forwards from each state.

An automaton is written as arcs here: "0a1" is an edge from state 0 to state 1 with the character a, "0?1" one with
every character that has no edges of its own.
"""

import random
import re
from itertools import product

import pytest
import torch

from level03.automaton import DFA, OTHER, compile_pattern
from level03.constrained import allowed_tokens, live_states, walk


def arcs(text):
    """(state, symbol) -> state."""
    return {(int(arc[0]), OTHER if arc[1] == "?" else arc[1]): int(arc[2]) for arc in text.split()}


def machine(edges, accepting, start=0):
    return DFA(start, frozenset(accepting), edges, frozenset(char for _, char in edges if char != OTHER))


# -?(0|[1-9][0-9]*): 0 start, 1 after "-", 2 after "0", 3 after other digits; an x at the start leads into 9, a trap
NUMBER = arcs("0-1 002 102 0x9") | {(state, d): 3 for state in (0, 1) for d in "123456789"}
NUMBER |= {(3, d): 3 for d in "0123456789"}
COMPLETE = {2, 3}


# ---- oracles


def ahead(edges, state):
    """The states that can be reached from one, itself included: forwards, as often as there are states."""
    states = {state}
    for _ in range(len(edges) + 1):
        states |= {target for (source, _), target in edges.items() if source in states}
    return states


def has_a_way_out(edges, accepting, state):
    return bool(ahead(edges, state) & set(accepting))


def read(edges, state, text):
    """Where a text leads, by looking up one edge after the other."""
    own = {char for _, char in edges}
    for char in text:
        if state is not None:
            state = edges.get((state, char if char in own else OTHER))
    return state


def random_machine(seed):
    """(edges, accepting, number of states): over a, b and all others; many have traps, cycles and dead ends."""
    rng = random.Random(seed)
    n = rng.randint(2, 7)
    symbols = rng.choice(["ab", "abc", ("a", "b", OTHER), ("a", OTHER)])
    edges = {(s, c): rng.randrange(n) for s in range(n) for c in symbols if rng.random() < rng.choice([0.3, 0.6])}
    return edges, {s for s in range(n) if rng.random() < 0.25}, n


MACHINES = [random_machine(seed) for seed in range(100)]


# ---- walk, a part of allowed_tokens


def walked(edges, state, text):
    return walk(machine(edges, COMPLETE), state, text)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "state, text, right",
    [
        (0, "-12", 3),
        (0, "0", 2),
        (0, "01", None),
        (0, "1a", None),
        (0, "-", 1),
        (0, "--1", None),
        (1, "12", 3),
        (1, "-12", None),
        (3, "0", 3),
        (2, "0", None),
        (3, "0123456789", 3),
        (0, "x", 9),
        (0, "x1", None),
        (0, "1 2", None),
        (0, "\n", None),
        (5, "1", None),
    ],
)
def test_walk_reads_every_character_from_where_it_stands(expect, state, text, right):
    """A token has several characters, and it continues a text. Over -?(0|[1-9][0-9]*); a trap is a state, too."""
    expect(walked, NUMBER, state, text).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_walk_over_the_docstring_s_example(expect):
    """a*b from the start: "aab" arrives, "ba" does not, "" stays. An automaton may call its states anything."""

    def three(edges, start):
        dfa = machine(edges, {7}, start)
        return [walk(dfa, start, text) for text in ("aab", "ba", "", "b", "aa")]

    expect(three, {(4, "a"): 4, (4, "b"): 7}, 4).equals([7, None, 4, 7, 4])


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize("state", [0, 1, 3, 9, 5])
def test_no_text_leads_nowhere_else(expect, state):
    """The first mask of a text is made after no characters."""
    expect(walked, NUMBER, state, "").equals(state)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize("text, right", [("ab", 0), ("aba", 1), ("abab", 0), ("b", None), ("abb", None)])
def test_state_0_is_a_state(expect, text, right):
    """(ab)* comes back to 0 after each pair. 0 is false in Python, and not None."""
    expect(walked, arcs("0a1 1b0"), 0, text).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "text, right",
    [("b", 1), ("é", 1), ("🙂", 1), ("a", None), ("ba", 2), ("bb", None), ("b🙂", None), ("other", None), ("o", 1)],
)
def test_characters_without_edges_of_their_own_are_one_symbol(expect, text, right):
    """[^a]a: 150,000 characters share one edge; a has edges of its own, so where there is none it can't go on. And the
    name of that symbol is no text: a token may read "other"."""
    expect(walked, arcs("0?1 1a2"), 0, text).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize("text, right", [("é", 1), ("e\u0301", None), ("É", None), ("é ", None), (" é", None)])
def test_characters_are_compared_as_they_are(expect, text, right):
    """An accent in two code points, a capital, a space around it: each would be another text in the answer."""
    expect(walked, arcs("0é1"), 0, text).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_a_long_text(expect):
    """A whole answer is walked through again after an interruption: 20,000 characters, so not one call inside another
    for each of them."""
    expect(walked, NUMBER, 0, "-" + "9" * 20000).equals(3)
    expect(walked, NUMBER, 0, "9" * 20000 + "-").equals(None)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_walks_through_random_automata(expect):
    """Oracle: one edge after the other, looked up by the test. 100 automata, 40 texts of a, b, c and z each."""
    texts = ["".join(letters) for size in (1, 2, 3) for letters in product("abcz", repeat=size)][::2]

    def walks(machines):
        return [[walk(machine(edges, ends), 1, text) for text in texts] for edges, ends, _ in machines]

    expect(walks, MACHINES).equals([[read(edges, 1, text) for text in texts] for edges, _, _ in MACHINES])


# ---- live_states, a part of allowed_tokens


def live(edges, accepting, start=0):
    return live_states(machine(edges, accepting, start))


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "edges, accepting, right",
    [
        ("0a1 1b2 0x3", {2}, {0, 1, 2}),
        ("0a1 1b2", {0}, {0}),
        ("", {1}, {1}),
        ("0a1", {0, 1}, {0, 1}),
        ("0a1 1b0 1a2 2a2", set(), set()),
        ("0a0 0b1 1a2 2a1 0c3", {3}, {0, 3}),
        ("0a1 1b0 1x2", {2}, {0, 1, 2}),
        ("1a2 0a3", {2}, {1, 2}),
        ("0?1 1?2 2?2", {1}, {0, 1}),
        ("0a1 0b2 2a3 3a4 4a2", {1}, {0, 1}),
        ("5a4 4a3 3a2 2a1 1a0 0a6 6a6", {0}, {0, 1, 2, 3, 4, 5}),
        ("0a1 1a2 2a3 3a4 4a5", {5, 1}, {0, 1, 2, 3, 4, 5}),
    ],
    ids=["the example", "no way back", "no edges", "all complete", "nothing complete", "a cycle without exit"]
    + ["a cycle with exit", "not from the start", "other characters", "a long trap", "backwards", "far behind"],
)
def test_a_state_is_live_if_a_way_leads_out(expect, edges, accepting, right):
    """Into a state without a way out the model must not be led: there every token is forbidden, and the end too."""
    expect(live, arcs(edges), accepting).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_the_trap_of_the_numbers_is_not_live(expect):
    """9 can be reached, and is hopeless. Where the text starts does not matter."""
    expect(live, NUMBER, COMPLETE).equals({0, 1, 2, 3})
    expect(live, NUMBER, COMPLETE, 9).equals({0, 1, 2, 3})


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_states_are_any_whole_numbers(expect):
    """An automaton that was put together from others numbers its states as it likes, with gaps."""
    expect(live, {(-1, "a"): 1000, (7, "b"): -1, (1000, "c"): 3}, {1000}).equals({-1, 7, 1000})


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_live_states_of_random_automata(expect):
    """Oracle: a search forwards from each state. 100 automata of up to 7 states."""

    def each_live(machines):
        return [live(edges, accepting) for edges, accepting, _ in machines]

    right = [{s for s in range(n) if has_a_way_out(edges, ends, s)} for edges, ends, n in MACHINES]
    expect(each_live, MACHINES).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_a_way_out_may_be_long(expect):
    """1,200 states in a row: a schema with a text of bounded length has as many, more than Python calls itself."""
    chain = {(state, "a"): state + 1 for state in range(1200)}
    expect(live, chain | {(700, "b"): 2000, (2000, "a"): 2000}, {1200}).equals(set(range(1201)))


# ---- allowed_tokens

VOCAB = ["-", "0", "1", "12", "-1", "01", "x", "1a", "", "<eos>"]
END = VOCAB.index("<eos>")


def allowed(edges, accepting, state, vocab, eos_id):
    return allowed_tokens(machine(edges, accepting), state, vocab, eos_id)


def mask(vocab, *texts):
    """The right mask: these texts of the vocabulary, and nothing else."""
    assert set(texts) <= set(vocab)
    return torch.tensor([text in texts for text in vocab])


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "state, texts",
    [
        (0, ["-", "0", "1", "12", "-1"]),
        (1, ["0", "1", "12"]),
        (2, ["<eos>"]),
        (3, ["0", "1", "12", "01", "<eos>"]),
        (9, []),
        (5, []),
    ],
)
def test_the_tokens_of_a_number(expect, state, texts):
    """The example. "01" begins well and ends badly, "x" leads into a trap, "" makes no progress; after a lone 0 only
    the end may come, after a minus it may not."""
    expect(allowed, NUMBER, COMPLETE, state, VOCAB, END).equals(mask(VOCAB, *texts))


def after(dfa, text):
    """The state after a text that the pattern allows."""
    state = dfa.start
    for char in text:
        state = dfa.step(state, char)
    return state


def masks_of(pattern, starts, vocab, eos_id):
    dfa = compile_pattern(pattern)
    return {text: allowed_tokens(dfa, after(dfa, text), vocab, eos_id) for text in starts}


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "pattern",
    [
        "a*b",
        "(ab)*",
        "ab|ba",
        "a?b?a?",
        "(a|b)*ab",
        "(aa)*b|ab*",
        "[^a]b?",
        "[^a]*",
        "a.b|b",
        "a{2,3}",
        "(b|ab)+a?",
        "",
    ],
)
@pytest.mark.parametrize("eos_id", [20, -1])
def test_allowed_is_what_some_match_begins_with(expect, pattern, eos_id):
    """Oracle: re.fullmatch on all 3,280 texts of a, b and z with up to 7 characters. A token may come if one of them
    begins with the text so far and the token; the end, if the text so far matches. All states that two characters
    reach, all tokens of up to three."""
    texts = ["".join(letters) for size in range(8) for letters in product("abz", repeat=size)]
    matches = [text for text in texts if re.fullmatch(pattern, text)]
    begun = {text[:size] for text in matches for size in range(len(text) + 1)}
    starts = [text for text in texts if len(text) <= 2 and text in begun]
    vocab = [text for text in texts if len(text) <= 3]  # the first is empty
    eos_id = eos_id % len(vocab)
    right = {}
    for start in starts:
        right[start] = torch.tensor([text != "" and start + text in begun for text in vocab])
        right[start][eos_id] = start in matches
    expect(masks_of, pattern, starts, vocab, eos_id).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_allowed_in_random_automata(expect):
    """Oracle: the test's own walk, and a search forwards from where it arrives. 100 automata, from every state."""
    vocab = ["".join(letters) for size in range(4) for letters in product("abz", repeat=size)]

    def masks(machines):
        return [[allowed(edges, ends, s, vocab, 3) for s in range(n)] for edges, ends, n in machines]

    def right(edges, ends, state):
        hopeful = {s for s in set(edges.values()) if has_a_way_out(edges, ends, s)}
        may = torch.tensor([text != "" and read(edges, state, text) in hopeful for text in vocab])
        may[3] = state in ends
        return may

    expect(masks, MACHINES).equals([[right(edges, ends, s) for s in range(n)] for edges, ends, n in MACHINES])


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize("entry", ["a", "b", "ab", "", "z"])
@pytest.mark.parametrize("eos_id", [0, 1, 3])
def test_what_the_end_is_called_does_not_matter(expect, entry, eos_id):
    """It may be called like a text that is legal, or like one that is not: only whether the text is complete counts.
    Over a*b."""
    vocab = ["a", "b", "ba", "aab"]
    vocab[eos_id] = entry
    for state, complete in ((0, False), (1, True)):
        right = torch.tensor([not complete and text in ("a", "b", "ab", "aab") for text in vocab])
        right[eos_id] = complete
        expect(allowed, arcs("0a0 0b1"), {1}, state, vocab, eos_id).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "state, texts", [(0, ["a", "aa", "aaa"]), (1, ["a", "aa", "<eos>"]), (2, ["a"]), (3, ["<eos>"])]
)
def test_tokens_pass_through_complete_texts(expect, state, texts):
    """a or aaa: what is complete may go on, or not; a token of three passes through both. After aaa only the end."""
    vocab = ["a", "aa", "aaa", "aaaa", "<eos>"]
    expect(allowed, arcs("0a1 1a2 2a3"), {1, 3}, state, vocab, 4).equals(mask(vocab, *texts))


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_no_token_leads_into_a_trap(expect):
    """b goes round for ever and c ends nowhere: each is a walk that succeeds, into a text that can't be completed."""
    edges, vocab = arcs("0a1 0b2 2b3 3b2 0c4 1b2 1a1"), ["a", "b", "c", "ab", "aa", "bb", "<eos>"]
    expect(allowed, edges, {1}, 0, vocab, 6).equals(mask(vocab, "a", "aa"))
    expect(allowed, edges, {1}, 1, vocab, 6).equals(mask(vocab, "a", "aa", "<eos>"))
    expect(allowed, edges, {1}, 2, vocab, 6).equals(mask(vocab))
    expect(allowed, edges, set(), 0, vocab, 6).equals(mask(vocab))


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_a_token_may_come_back_to_its_state(expect):
    """Inside of a string every letter does: what is no progress is a token without text. State 0 is one like others."""
    vocab = ["a", "bc", "", "b", "cb", "<eos>", ""]
    expect(allowed, arcs("0a0 0b1 1c0"), {0}, 0, vocab, 5).equals(mask(vocab, "a", "bc", "b", "<eos>"))
    expect(allowed, arcs("0a0 0b1 1c0"), {0}, 1, vocab, 5).equals(mask(vocab, "cb"))


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_every_id_is_judged(expect):
    """Two ids may have one text, a vocabulary may be a tuple, and may have nothing but the end."""
    vocab = ("a", "b", "a", "", "c", "a", "b")
    expect(allowed, arcs("0a0 0b1"), {1}, 0, vocab, 4).equals(
        torch.tensor([True, True, True, False, False, True, True])
    )
    expect(allowed, arcs("0a0 0b1"), {1}, 1, ("b",), 0).equals(torch.tensor([True]))
    expect(allowed, arcs("0a0 0b1"), {1}, 0, ("b",), 0).equals(torch.tensor([False]))


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_any_character_in_a_text(expect):
    """Outside of ASCII, beyond 16 bits, line ends, and the word that names the symbol of all others. [^a]+a."""
    vocab = ["é", "🙂", "日本", "\n", "other", "a", "éa", "aé", "éaé", "oa", " ", "<|x|>", "<eos>"]
    right = mask(vocab, "é", "🙂", "日本", "\n", "other", "éa", "oa", " ", "<|x|>")
    expect(allowed, arcs("0?1 1?1 1a2"), {2}, 0, vocab, 12).equals(right)


@pytest.mark.kata("level03.constrained.allowed_tokens")
@pytest.mark.parametrize(
    "so_far, texts",
    [
        ("", ["{", '{"', '{"ok": null}']),
        ("{", ['"', '"ok', '"ok"']),
        ('{"ok"', [": ", ": t", ":"]),
        ('{"ok": ', ["true", "t", "null"]),
        ('{"ok": t', ["rue", "rue}"]),
        ('{"ok": null', ["}"]),
        ('{"ok": null}', ["<eos>"]),
    ],
)
def test_a_json_text_token_by_token(expect, so_far, texts):
    """{"ok": true}, false or null: what a request for structured output needs. Tokens span the parts of the grammar."""
    vocab = ["{", '{"', '"', '"ok', '"ok"', ": ", ": t", ":", "true", "t", "rue", "rue}", "null", "}", "}}", "ull}x"]
    vocab += ['{"ok": null}', "True", "", "<eos>", '{"no']
    pattern = r'\{"ok": (true|false|null)\}'
    right = mask(vocab, *texts)
    expect(masks_of, pattern, [so_far], vocab, vocab.index("<eos>")).equals({so_far: right})


class Counted(dict):
    """Edges that count how often somebody goes through all of them."""

    passes = 0

    def items(self):
        self.passes += 1
        return super().items()

    def keys(self):
        self.passes += 1
        return super().keys()

    def values(self):
        self.passes += 1
        return super().values()

    def __iter__(self):
        self.passes += 1
        return super().__iter__()


@pytest.mark.kata("level03.constrained.allowed_tokens")
def test_the_way_out_is_not_searched_for_each_token(expect):
    """A vocabulary has 50,000 tokens: where there is a way out is a question about the automaton, not about a token.

    Counted are passes over all edges, with 2,000 tokens and 5 states. A search for each state needs up to 25, one for
    each token 2,000 at least; the limit is their square root, 223.
    """

    def passes(edges, accepting, vocab):
        edges = Counted(edges)
        dfa = DFA(0, frozenset(accepting), edges, frozenset("0123456789-x"))
        edges.passes = 0
        allowed_tokens(dfa, 0, vocab, 0)
        return edges.passes

    vocab = ["<eos>", *map(str, range(-999, 1000))]
    expect(passes, NUMBER, COMPLETE, vocab).holds(lambda n: n <= 223, "at most 223 passes over the edges")

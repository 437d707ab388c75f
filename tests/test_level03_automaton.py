"""The given automaton of level 03: patterns against re.fullmatch on all short texts, schemas against json.loads."""

import importlib
import json
import re
from itertools import product

import pytest

from tests.controls import solutions_of


@pytest.fixture(scope="module")
def automaton():
    with solutions_of("level00", "level01", "level03"):
        yield importlib.import_module("level03.automaton")


def matches(dfa, text):
    """Does the automaton accept the whole text?"""
    state = dfa.start
    for char in text:
        if (state := dfa.step(state, char)) is None:
            return False
    return state in dfa.accepting


# ---- DFA


def test_a_step_takes_the_edge_of_the_character_or_that_of_all_others(automaton):
    edges = {(0, "a"): 1, (0, automaton.OTHER): 2, (1, "b"): 0}
    dfa = automaton.DFA(0, frozenset({2}), edges, frozenset("ab"))
    assert [dfa.step(0, char) for char in "axé\n🙂"] == [1, 2, 2, 2, 2]
    assert dfa.step(0, "b") is None, "b is a symbol of its own, without an edge here"
    assert dfa.step(1, "b") == 0 and dfa.step(1, "x") is None and dfa.step(2, "a") is None


def test_the_symbol_of_all_others_is_no_character(automaton):
    assert len(automaton.OTHER) != 1
    dfa = automaton.DFA(0, frozenset({1}), {(0, automaton.OTHER): 1}, frozenset("o"))
    assert not matches(dfa, "o") and not matches(dfa, "other") and matches(dfa, "t")


def test_without_an_alphabet_every_character_is_another(automaton):
    dfa = automaton.DFA(0, frozenset({0}), {(0, automaton.OTHER): 0, (0, "a"): 1})
    assert matches(dfa, "xyza")


# ---- compile_pattern

# pattern, the characters of which all texts are tried, their greatest length
PATTERNS = [
    ("", "ab", 3),
    ("a", "ab", 4),
    ("a*b", "abc", 6),
    ("(ab)*", "abc", 6),
    ("ab|ac|", "abc", 4),
    ("a?b+c{2}", "abc", 6),
    ("a{2,3}|b{0,2}", "ab", 5),
    ("(a|b)*abb", "ab", 8),
    ("(a|ab)(c|bcd)(d*)", "abcd", 6),
    ("(?:a|b)?c", "abc", 4),
    ("((a)b)*?c", "abc", 6),
    ("[ab]c|[^ab]d", "abcd", 4),
    ("[^a]*", "ab\n🙂", 4),
    ("[a-c0-1]-[+-]", "abd01-+", 3),
    (".", "a\n\r🙂", 2),
    ("a.b", "ab\n", 4),
    ("[.]\\.[\\]\\\\]", ".]\\a", 3),
    ("\\$\\^\\*\\(\\)", "$^*()", 5),
    ("\\{a\\}|\\[\\]", "{}a[]", 3),
    ("\\n\\t?", "\n\tn", 3),
    ("\\x41[\\x00-\\x1f]", "A\x00\x1f\x20", 3),
    ("-?(0|[1-9][0-9]*)", "-0159a", 5),
    ("-?[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)?", "-0.e+", 6),
    ("é|日本", "é日本e", 3),
    ('"([^"\\\\]|\\\\["n])*"', '"\\na', 5),
    ("aa|a{4}|(aaa)+", "a", 13),
]


@pytest.mark.parametrize("pattern, chars, longest", PATTERNS, ids=[p[0].encode("unicode_escape") for p in PATTERNS])
def test_a_pattern_accepts_what_fullmatch_does(automaton, pattern, chars, longest):
    """On all texts up to a length, those that end too early and too late among them."""
    dfa = automaton.compile_pattern(pattern)
    texts = ["".join(letters) for size in range(longest + 1) for letters in product(chars, repeat=size)]
    right = [re.fullmatch(pattern, text) is not None for text in texts]
    assert [matches(dfa, text) for text in texts] == right
    assert any(right), "a pattern that accepts nothing tests nothing"


@pytest.mark.parametrize("pattern, chars, longest", PATTERNS, ids=[p[0].encode("unicode_escape") for p in PATTERNS])
def test_an_automaton_is_what_its_docstring_says(automaton, pattern, chars, longest):
    """Symbols are characters of the alphabet or OTHER, states are whole numbers, each edge leads to one of them."""
    dfa = automaton.compile_pattern(pattern)
    states = {dfa.start, *dfa.accepting, *(state for state, _ in dfa.edges), *dfa.edges.values()}
    assert all(type(state) is int for state in states)
    assert {symbol for _, symbol in dfa.edges} <= dfa.alphabet | {automaton.OTHER}
    assert all(len(char) == 1 for char in dfa.alphabet)
    assert isinstance(dfa.accepting, frozenset) and isinstance(dfa.alphabet, frozenset)


def test_a_letter_of_any_alphabet_is_another_character(automaton):
    dfa = automaton.compile_pattern("[^a]b")
    assert all(matches(dfa, f"{char}b") for char in "éЯ日🙂\x00\n \u2028\ud800")
    assert not matches(dfa, "ab") and not matches(dfa, "🙂🙂")


# ---- schema_pattern: the schema, JSON texts that it describes in the one spelling that is known, and other texts

VALUES = ["null", "true", "0", "-1", "10", "1.5", "1e3", "[]", "{}", "[1]", '""', '"a"', '{"a": 1}']
VALUES += ["abc", "", " ", "nul", "1 "]
SIGNS = ["a.b", "c|d", "(e)*", "[f]", "g\\h", 'i"j', "k$^", "+?{}"]  # which mean something in a pattern
OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "a b": {"type": "null"}}}
SCHEMAS = [
    ({"type": "boolean"}, ["true", "false"], ["True", "truefalse", "fals", "tru", "true "]),
    ({"type": "null"}, ["null"], ["None", "nullnull"]),
    ({"type": "integer"}, ["0", "-0", "7", "-12", "1234567890"], ["00", "01", "-", "+1", "1.0", "1e3", "١"]),
    (
        {"type": "number"},
        ["0", "-1", "10", "1.5", "-0.25", "1e3", "1E-07", "2.5e+10"],
        ["01", "1.", ".5", "1e", "1e+", "+1", "0x1", "NaN", "Infinity", "--1", "1.5.2"],
    ),
    (
        {"type": "string"},
        [
            '""',
            '"a"',
            '"a b"',
            '"é日🙂"',
            '"\\n"',
            '"\\\\"',
            '"\\""',
            '"\\u00e9"',
            '"\\uD83D\\uDE42"',
            '"/"',
            '"\\/"',
            '"\x7f"',
        ],
        ['"', '"a', "a", '"\n"', '"\t"', '"\\x41"', '"\\u12"', '"\\u12g4"', '"a"b"', '"\\"', "''", '"\x00"', '""""'],
    ),
    ({"const": "yes"}, ['"yes"'], ["yes", '"yes', '"no"', '"yes""yes"']),
    ({"const": None}, ["null"], ['"null"', "None"]),
    ({"const": 3}, ["3"], ["33", "3.0"]),
    ({"type": "string", "enum": ["a"], "title": "A", "description": "the first letter"}, ['"a"'], ['"b"', "A"]),
    ({"enum": ["red", "re", 2, None, True]}, ['"red"', '"re"', "2", "null", "true"], ["red", '"r"', "false", '"red"2']),
    ({"enum": SIGNS}, [json.dumps(text) for text in SIGNS], ['"axb"', '"c', '"d"', '"e"', '"f"', '"gh"', '"k"']),
    ({"enum": [{"a": [1, 2]}, [], ["x y"]]}, ['{"a": [1, 2]}', "[]", '["x y"]'], ['{"a":[1,2]}', "[ ]", '["x", "y"]']),
    ({"const": "é\n🙂"}, ['"\\u00e9\\n\\ud83d\\ude42"'], ['"é\\n🙂"']),
    (
        {"type": "array", "items": {"type": "integer"}},
        ["[]", "[1]", "[1, -2, 30]"],
        ["[", "]", "[1,2]", "[1, ]", "[, 1]", "[1 , 2]", "[1]]", "[[1]]", '["1"]', "[1, 2", "[ ]"],
    ),
    (
        {"type": "array", "items": {"type": "array", "items": {"enum": ["a", "b"]}}},
        ["[]", "[[]]", '[["a"], [], ["b", "a"]]'],
        ['["a"]', '[["c"]]', "[[[]]]", '[["a" "b"]]'],
    ),
    ({"type": "array", "items": OK}, ["[]", '[{"ok": true}, {"ok": false}]'], ['{"ok": true}', '[{"ok": 1}]']),
    (
        OK,
        ['{"ok": true}', '{"ok": false}'],
        ["{}", '{"ok": null}', '{"ok":true}', '{"OK": true}', '{ "ok": true }', '{"ok": true, }'],
    ),
    (
        POINT,
        ['{"x": 3, "a b": null}', '{"x": -10, "a b": null}'],
        [
            '{"a b": null, "x": 3}',
            '{"x": 3}',
            '{"x": 3,"a b": null}',
            '{"x": 3, "a  b": null}',
            '{"x": 3, "a b": null, "y": 1}',
        ],
    ),
    ({"type": "object", "properties": {}}, ["{}"], ['{"a": 1}', "{ }", "{"]),
    (
        {"type": "object", "properties": {"p": POINT, "q": OK}},
        ['{"p": {"x": 0, "a b": null}, "q": {"ok": true}}'],
        ['{"p": {"x": 0}, "q": {"ok": true}}'],
    ),
    (
        {"type": "object", "properties": {"a.b": {"const": "(x)"}}},
        ['{"a.b": "(x)"}'],
        ['{"a-b": "(x)"}', '{"a.b": "x"}'],
    ),
]


@pytest.mark.parametrize("schema, texts, others", SCHEMAS, ids=[json.dumps(schema)[:60] for schema, _, _ in SCHEMAS])
def test_a_schema_s_texts_are_accepted_and_no_others(automaton, schema, texts, others):
    """By re.fullmatch and by the automaton; each accepted text is JSON, and a value that the schema describes."""
    pattern = automaton.schema_pattern(schema)
    dfa = automaton.compile_pattern(pattern)
    for text in [*texts, *others, *VALUES]:
        right = text in texts or text in VALUES and describes(schema, text)
        assert (re.fullmatch(pattern, text) is not None) == right, text
        assert matches(dfa, text) == right, text
        if right:
            assert fits(schema, json.loads(text)), text


def fits(schema, value):
    """Oracle: is the value one of the schema?"""
    if "const" in schema or "enum" in schema:
        known = schema.get("enum", [schema.get("const")])
        return any(value == one and type(value) is type(one) for one in known)
    kinds = {"boolean": bool, "null": type(None), "integer": int, "number": (int, float), "string": str, "array": list}
    if not isinstance(value, kinds.get(schema["type"], dict)):
        return False
    if schema["type"] == "array":
        return all(fits(schema["items"], item) for item in value)
    if schema["type"] == "object":
        properties = schema["properties"]
        return list(value) == list(properties) and all(fits(properties[key], item) for key, item in value.items())
    return schema["type"] == "boolean" or not isinstance(value, bool)


def describes(schema, text):
    """Is the text JSON, in the one known spelling, of a value of the schema?"""
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return fits(schema, value) and (json.dumps(value) == text or isinstance(value, float))


def test_every_text_of_a_finite_schema_is_found(automaton):
    """All ways through the automaton: exactly the texts that json.dumps writes for the values of the schema."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}, "unit": {"enum": ["m", "km"]}}}
    dfa = automaton.compile_pattern(automaton.schema_pattern(schema))
    found, waiting = set(), [(dfa.start, "")]
    while waiting:
        state, text = waiting.pop()
        found |= {text} if state in dfa.accepting else set()
        waiting += [(target, text + symbol) for (source, symbol), target in dfa.edges.items() if source == state]
    assert found == {json.dumps({"ok": ok, "unit": unit}) for ok in (True, False) for unit in ("m", "km")}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$ref": "#/definitions/tree"},
        {"type": "date"},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
        {"type": "array", "items": {"$ref": "#"}},
        {"type": "object", "properties": {"a": {"oneOf": []}}},
        {"properties": {"a": {"type": "null"}}},
        {"type": "object"},
        {"type": "array"},
        {"enum": []},
        {"type": ["string", "null"]},
        {"type": "integer", "minimum": 0},
        {"type": "string", "maxLength": 3},
        {"type": "string", "pattern": "a+"},
        {"type": "array", "items": {"type": "null"}, "minItems": 1},
        {"const": 1, "enum": [1, 2]},
    ],
    ids=json.dumps,
)
def test_another_schema_is_refused_with_a_sentence(automaton, schema):
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        automaton.schema_pattern(schema)

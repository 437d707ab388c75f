"""A pattern as a machine that reads one character after the other: given, for constrained.py to build on."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import interegular
from interegular.fsm import anything_else

OTHER = "other"  # longer than a character, so it can't be taken for one


@dataclass(frozen=True)
class DFA:
    """A deterministic finite automaton over characters.

    edges      (state, symbol) -> state; where there is none, the text can't go on. A symbol is a character, or OTHER
    alphabet   the characters that are symbols of their own; all others are OTHER
    accepting  the states in which the text is complete
    """

    start: int
    accepting: frozenset[int]
    edges: Mapping[tuple[int, str], int]
    alphabet: frozenset[str] = frozenset()

    def step(self, state: int, char: str) -> int | None:
        """The state after one more character, or None where there is no edge."""
        return self.edges.get((state, char if char in self.alphabet else OTHER))


def compile_pattern(pattern: str) -> DFA:
    """The automaton of the texts that a regular expression matches as a whole (re.fullmatch with re.ASCII; no anchors,
    no look-around, no groups that refer back)."""
    machine = interegular.parse_pattern(pattern).to_fsm()
    names = {key: [] for key in machine.alphabet.values()}
    for char, key in machine.alphabet.items():
        names[key].append(OTHER if char is anything_else else char)
    edges = {
        (state, symbol): target
        for state, row in machine.map.items()
        for key, target in row.items()
        for symbol in names[key]
    }
    alphabet = {symbol for symbols in names.values() for symbol in symbols} - {OTHER}
    return DFA(machine.initial, frozenset(machine.finals), edges, frozenset(alphabet))


def schema_pattern(schema: Mapping[str, Any]) -> str:
    """A regular expression for the JSON texts of a schema.

    Known are const, enum, boolean, null, integer, number, string, array of one kind of items, and object with all its
    properties in their order. One space after `:` and `,`, none elsewhere.

    ValueError: another schema, or a keyword that is not known (`minimum` would be broken in silence; `$ref` nests
    without end, which is not regular).
    """
    kind, keys = schema.get("type"), schema.keys() - SAID
    if keys == {"const"} or keys == {"enum"} and schema["enum"]:
        return "|".join(_literal(json.dumps(value)) for value in schema.get("enum", [schema.get("const")]))
    if isinstance(kind, str) and kind in SCALARS and not keys:
        return SCALARS[kind]
    if kind == "array" and keys == {"items"}:
        item = f"({schema_pattern(schema['items'])})"
        return rf"\[({item}(, {item})*)?\]"
    if kind == "object" and keys == {"properties"}:
        members = [f"{_literal(json.dumps(k))}: ({schema_pattern(v)})" for k, v in schema["properties"].items()]
        return rf"\{{{', '.join(members)}\}}"
    raise ValueError(f"{dict(schema)} is no schema that is known here: use enum, const, or a type of JSON")


def _literal(text: str) -> str:
    """The pattern of one text; the parser knows no escaped space."""
    return "".join(f"\\{c}" if c in r"\.^$*+?{}[]|()" else c for c in text)


# keywords that change nothing in the texts made here
SAID = {"type", "title", "description", "required", "additionalProperties"}
SCALARS = {
    "boolean": "true|false",
    "null": "null",
    "integer": "-?(0|[1-9][0-9]*)",
    "number": r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?",
    "string": r'"([^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"',
}

"""dojo.values: what counts as right, what as different and why, and how a value is printed."""

import collections
import enum
import math
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from dojo.values import SMALL, Yielded, compare, show

NAN, INF = math.nan, math.inf
Point = collections.namedtuple("Point", "x y")
MODULE = """
import enum
from dataclasses import dataclass, field

class Color(enum.Enum):
    RED = enum.auto()
    BLUE = enum.auto()

class Size(enum.IntEnum):
    ONE = 1

@dataclass
class Request:
    id: int
    weight: object = 0.0
    note: object = field(default=None, compare=False)

class Plain:
    def __init__(self, id): self.id = id
"""


def copy_of_the_module():
    module = types.ModuleType("a_level")
    exec(MODULE, module.__dict__)
    return module


ONE, TWO = copy_of_the_module(), copy_of_the_module()


def t(*numbers, dtype=None):
    return torch.tensor(numbers, dtype=dtype)


class Hostile:
    """Raises whenever it is looked at."""

    def __eq__(self, other):
        raise RuntimeError("no")

    __repr__ = __eq__
    __hash__ = object.__hash__


BIG = torch.arange(1.0, 10001.0).reshape(100, 100)
EQUAL = {
    "ints": (3, 3),
    "an int for a float": (3, 3.0),
    "numpy scalars": (np.float32(0.5), 0.5),
    "a numpy int": (np.int64(7), 7),
    "a numpy bool": (np.bool_(True), True),
    "a numpy string": (np.str_("a"), "a"),
    "within tolerance": (1.000009, 1.0),
    "infinities": ([INF, -INF], [INF, -INF]),
    "NaN for NaN": (NAN, NAN),
    "minus zero": (-0.0, 0.0),
    "minus zero in a tensor": (t(-0.0), t(0.0)),
    "tensors": (t(1.0, NAN, -INF), t(1.0, NAN, -INF)),
    "a parameter": (torch.nn.Parameter(torch.ones(2)), torch.ones(2)),
    "no elements": (torch.ones(0, 3), torch.ones(0, 3)),
    "no axes": (torch.tensor(2.0), torch.tensor(2.0)),
    "another layout in memory": (BIG.t().contiguous().t(), BIG),
    "numbers from the back": (np.array([1, 2, 3])[::-1], np.array([3, 2, 1])),
    "a numpy scalar for an array": (np.float64(3), np.array(3.0)),
    "unsigned": (t(7, dtype=torch.uint16), t(7, dtype=torch.uint16)),
    "8-bit floats": (t(1.0).to(torch.float8_e4m3fn), t(1.0).to(torch.float8_e4m3fn)),
    "sparse": (torch.eye(3).to_sparse(), torch.eye(3).to_sparse()),
    "without data": (torch.empty(3, device="meta"), torch.empty(3, device="meta")),
    "words": (np.array(["a"]), np.array(["a"])),
    "a dict in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    "a Counter": (collections.Counter("aab"), {"a": 2, "b": 1}),
    "a named tuple": (Point(1, 2), (1, 2)),
    "large tensors in containers": ({"k": [BIG, (BIG, 1)]}, {"k": [BIG.clone(), (BIG.clone(), 1)]}),
    "a tuple for a shape": ((2, 3), torch.ones(2, 3).shape),
    "a shape for a tuple": (torch.ones(2, 3).shape, (2, 3)),
    "sets": ({1, 2}, {2, 1}),
    "copies of an enum": (ONE.Color.RED, TWO.Color.RED),
    "copies of an enum in containers": ({ONE.Color.RED: {ONE.Size.ONE}}, {TWO.Color.RED: {TWO.Size.ONE}}),
    "copies of a dataclass": (ONE.Request(1, [t(1.0)]), TWO.Request(1, [t(1.0)])),
    "a field that does not count": (ONE.Request(1, note="a"), ONE.Request(1, note="b")),
    "a class": (int, int),
    "a dataclass itself": (ONE.Request, ONE.Request),
    "what was yielded": (Yielded([1]), Yielded([1])),
}
DIFFERENT = {  # yours, right, kind, text
    "value": (2, 1, "value", "differs"),
    "large ints that are near": (1_000_001, 1_000_000, "value", "differs"),
    "token ids that are near": (t(100_001), t(100_000), "value", "differs at [0]"),
    "int64 beyond float64": (t(2**60 + 1), t(2**60), "value", "differs at [0]"),
    "int64 in numpy": (np.array([2**60 + 1]), np.array([2**60]), "value", "differs at [0]"),
    "just outside": (1.00002, 1.0, "value", "differs"),
    "a float for an int": (3.0, 3, "type", "a float, where an int is right"),
    "a bool for an int": (True, 1, "type", "a bool, where an int is right"),
    "an int for a bool": (1, True, "type", "an int, where a bool is right"),
    "a tensor for an int": (torch.tensor(3), 3, "type", "a Tensor, where an int is right: take .item()"),
    "a tensor of one": (t(3), 3, "type", "a Tensor, where an int is right"),
    "an array of one": (np.array([3.0]), 3.0, "type", "a ndarray, where a float is right"),
    "a bool in a tensor": (torch.tensor(True), True, "type", "a Tensor, where a bool is right: take .item()"),
    "a number for a tensor": (3.0, torch.tensor(3.0), "type", "a float, where a tensor is right"),
    "an array for a tensor": (np.ones(2), torch.ones(2), "type", "a ndarray, where a tensor is right"),
    "nothing": (None, 1.0, "type", "None, where a float is right"),
    "a string for bytes": ("a", b"a", "type", "a str, where a bytes is right"),
    "infinity's sign": (INF, -INF, "value", "differs"),
    "a number for infinity": (1e300, INF, "value", "differs"),
    "infinity's sign in a tensor": (t(1.0, INF), t(1.0, -INF), "value", "differs at [1]"),
    "an int beyond floats": (10**400, 1.0, "value", "differs"),
    "NaN": (NAN, 1.0, "nan", "NaN"),
    "no NaN": (1.0, NAN, "value", "differs"),
    "NaN in a tensor": (t(1.0, NAN), t(1.0, 2.0), "nan", "has NaN at [1]"),
    "NaN in a list": ([1.0, NAN], [1.0, 2.0], "nan", "NaN at [1]"),
    "broadcasting": (torch.ones(1), torch.ones(3), "shape", "shape (1,), where (3,) is right"),
    "an axis too many": (torch.ones(1, 3), torch.ones(3), "shape", "shape (1, 3), where (3,) is right"),
    "empty shapes": (torch.ones(0, 3), torch.ones(3, 0), "shape", "shape (0, 3), where (3, 0) is right"),
    "dtype": (t(1.0).double(), t(1.0), "dtype", "dtype float64, where float32 is right"),
    "dtype of whole numbers": (t(1, dtype=torch.int32), t(1), "dtype", "dtype int32, where int64 is right"),
    "booleans": (t(True, False), t(True, True), "value", "differs at [1]"),
    "an imaginary part": (t(1 + 2j), t(1 + 3j), "value", "differs at [0]"),
    "sparse storage": (torch.eye(2).to_sparse(), torch.eye(2), "type", "sparse_coo storage, where strided is right"),
    "no data": (torch.empty(2, device="meta"), torch.ones(2), "type", "meta storage, where strided is right"),
    "a list for a tuple": ([1], (1,), "type", "a list, where a tuple is right"),
    "a tuple for a named one": ((1, 2), Point(1, 2), "type", "a tuple, where a Point is right"),
    "a generator for a list": (Yielded([1]), [1], "type", "a generator, where a list is right"),
    "a list for a generator": ([1], Yielded([1]), "type", "a list, where a generator is right"),
    "too short": ([1], [1, 2], "length", "1 items, where 2 are right"),
    "too long": ((1, 2), (1,), "length", "2 items, where 1 are right"),
    "a missing key": ({}, {"a": 1}, "keys", "'a' is missing"),
    "a key too many": ({"a": 1, 2: 3}, {"a": 1}, "keys", "2 should not be there"),
    "deep down": ({"k": [(1, t(1.0, 2.0))]}, {"k": [(1, t(1.0, 3.0))]}, "value", "differs at [1] of ['k'][0][1]"),
    "a field": (ONE.Request(1, [2]), TWO.Request(1, [3]), "value", "differs at weight[0]"),
    "another class": (ONE.Plain(1), ONE.Request(1), "type", "a Plain, where a Request is right"),
    "an enum's name": (ONE.Color.RED, TWO.Color.BLUE, "value", "differs"),
    "an enum's value": (1, ONE.Color.RED, "type", "an int, where a Color is right"),
    "a set": ({1, 2}, {1, 3}, "value", "differs"),
}


@pytest.mark.parametrize("yours, right", EQUAL.values(), ids=EQUAL)
def test_right_values_pass(yours, right):
    assert compare(yours, right) is None


@pytest.mark.parametrize("yours, right, kind, text", DIFFERENT.values(), ids=DIFFERENT)
def test_wrong_values_differ_and_the_text_says_how(yours, right, kind, text):
    found = compare(yours, right)
    assert (found.kind, found.text) == (kind, text)


def test_the_tolerance_is_relative_to_the_right_value_alone():
    """As in torch.isclose: a wrong value must not widen its own tolerance by being large."""
    for yours, right in [(2.0, 1.0), (torch.tensor(2.0), torch.tensor(1.0)), (np.array(2.0), np.array(1.0))]:
        assert compare(yours, right, rel=0.5, abs=0) is not None
        assert compare(right, yours, rel=0.5, abs=0) is None
        assert compare(yours, right, rel=0.5, abs=0.5) is None


@pytest.mark.parametrize("right", [1, 1.0, "a", [Hostile()], {"a": 1}, torch.ones(1), ONE.Request(1), {1}, Hostile()])
def test_what_can_not_be_compared_differs_and_does_not_crash(right):
    assert compare(Hostile(), right) is not None


def test_recursive_values_neither_hang_nor_crash():
    one, two = [], []
    one.append(one), two.append(two)
    assert compare(one, two).text == "is nested too deeply to be compared"
    assert show(one).startswith("[[[") and len(show(one)) < 40


def test_of_large_values_the_places_that_differ_are_shown():
    wrong = BIG.clone()
    wrong[3, 4:9] = 0
    found = compare(wrong, BIG)
    assert found.text == "differs at [3, 4], [3, 5], [3, 6] and 2 more places"
    assert (found.yours, found.right) == ("0.0, 0.0, 0.0", "305.0, 306.0, 307.0")
    found = compare([*range(500), -1, *range(501, 999)], list(range(999)))
    assert (found.text, found.yours, found.right) == ("differs at [500]", "-1", "500")
    found = compare("a" * 500 + "b", "a" * 500 + "c")
    assert "aab'" in found.yours and "aac'" in found.right


def test_values_that_print_alike_are_printed_with_all_digits():
    found = compare([0.12345678], [0.12345699], rel=0, abs=1e-9)
    assert (found.yours, found.right) == ("0.12345678", "0.12345699")
    assert compare(1.0, 2.0).yours == "", "the two values themselves show it"


SHOWN = {
    "nan, inf": ([NAN, -INF, 2.0, 0.1 + 0.2], "[nan, -inf, 2.0, 0.3]"),
    "tensor": (t(1.0, 2.5), "[1.0, 2.5]"),
    "dtype": (t(1.0, 2.5).half(), "[1.0, 2.5] float16"),
    "large tensor": (torch.ones(SMALL + 1), f"float32 tensor of shape ({SMALL + 1},)"),
    "large array": (np.ones((9, 9)), "float64 array of shape (9, 9)"),
    "no data": (torch.empty(2, device="meta"), "float32 tensor of shape (2,)"),
    "sparse": (torch.eye(2).to_sparse(), "[[1.0, 0.0], [0.0, 1.0]]"),
    "numpy scalars": ([np.float32(0.5), np.int64(3)], "[0.5, 3]"),
    "one": ((1,), "(1,)"),
    "enum": (ONE.Color.RED, "Color.RED"),
    "dataclass": (ONE.Request(1, t(2.0)), "Request(id=1, weight=[2.0])"),
    "function": (math.sqrt, "sqrt"),
    "huge int": (1 << 40_000, "an int of 40001 bits"),
    "hostile": ([Hostile()], "a list that can't be printed"),
    "lines": (types.SimpleNamespace(a="\n"), "namespace(a='\\n')"),
}


@pytest.mark.parametrize("value, text", SHOWN.values(), ids=SHOWN)
def test_a_value_is_shown_on_one_line(value, text):
    assert show(value) == text


def test_what_is_long_is_cut():
    assert len(show("x" * 10**6, 80)) < 85 and len(show(list(range(10**6)))) <= 300
    assert show(dict.fromkeys(range(1000))).startswith("a dict of 1000 entries: {0: None, 1: None")


def test_values_cost_no_torch_and_no_numpy():
    """A level of plain Python answers in a second because nothing imports torch for it."""
    code = "import sys; from dojo.values import compare, show; compare([1.0], [1.0]); show([1]); "
    code += "print('torch' in sys.modules or 'numpy' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert run.stdout.strip() == "False", run.stderr


def test_an_enum_is_no_string_and_no_number():
    class Word(enum.StrEnum):
        A = "a"

    assert compare(Word.A, "a").kind == "type"
    assert compare("a", Word.A).kind == "type"


def test_a_model_s_parameters_and_a_long_config_are_named_not_listed():
    from dojo.models import TINY, random_params

    assert show(random_params(TINY)) == "a dict of 21 tensors"
    assert show(TINY, 120) == "Config(…)"

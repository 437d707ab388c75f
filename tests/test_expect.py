"""dojo.expect: what a call came to, what it did to its arguments, and whether another program does the same."""

import pickle
import subprocess
import sys
import types
from functools import partial
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
import torch

from dojo import expect as module
from dojo.expect import Expect, Mismatch

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as the plugin's way with a level's tests


@pytest.fixture
def expect():
    return Expect()


def lines(call) -> list[str]:
    with pytest.raises(Mismatch) as found:
        call()
    return found.value.lines


def double(x):
    return x * 2


def fail(error):
    raise error


# ---- outcomes


def test_a_right_value_passes_and_is_remembered(expect):
    expect(double, 3).equals(6)
    assert [case.yours.value for case in expect.seen] == [6]


def test_a_wrong_value_is_told_with_the_call(expect):
    x = torch.tensor([1.0, 2.0])
    told = lines(lambda: expect(double, x=x).equals(torch.tensor([2.0, 5.0])))
    assert told == ["double(x=[1.0, 2.0])", "yours  [2.0, 4.0]", "right  [2.0, 5.0]", "       differs at [1]"]


def test_an_exception_is_an_outcome(expect):
    expect(fail, ValueError("no")).raises(ValueError)
    expect(fail, UnicodeError("no")).raises(ValueError)
    told = lines(lambda: expect(fail, KeyError("a")).equals(1))
    assert told[1:] == ["yours  raises KeyError: 'a'", "right  1"]
    assert lines(lambda: expect(fail, TypeError("t")).raises(ValueError))[1] == "yours  raises TypeError: t"
    assert lines(lambda: expect(double, 1).raises(ValueError))[1:] == ["yours  2", "right  raises ValueError"]


def test_a_wrong_number_of_arguments_is_an_outcome(expect):
    assert "raises TypeError: double() missing" in lines(lambda: expect(double).equals(1))[1]


def test_an_exception_that_can_not_be_printed_is_one_all_the_same(expect):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert lines(lambda: expect(fail, Mute()).equals(1))[1].startswith("yours  raises Mute")


def test_an_unfilled_kata_passes_through(expect):
    unfilled = partial(fail, NotImplementedError("some.kata"))
    for use in (lambda: expect(unfilled).equals(1), lambda: expect(unfilled).raises(Exception)):
        with pytest.raises(NotImplementedError, match="some.kata"):
            use()
    with pytest.raises(NotImplementedError):
        expect(double, 1).holds(lambda _: unfilled(), "a check that calls another kata")


def test_holds_takes_a_boolean_or_a_reason(expect):
    for yes in (True, np.bool_(True), torch.tensor(True)):
        expect(double, 1).holds(lambda _, yes=yes: yes, "it is so")
    for no in (False, None, np.bool_(False), "", "it is odd"):
        told = lines(lambda no=no: expect(double, 1).holds(lambda _: no, "the value is odd"))
        assert told[1:3] == ["yours  2", "must   the value is odd"]
    assert lines(lambda: expect(double, 1).holds(lambda _: "it is even", "odd"))[3] == "       it is even"


def test_a_check_that_raises_does_not_hold(expect):
    told = lines(lambda: expect(double, 1).holds(lambda v: v.shape == (2,), "two"))
    assert told[3] == "       AttributeError: 'int' object has no attribute 'shape'"


def test_a_check_that_is_true_whatever_it_finds_is_refused(expect):
    """`lambda v: (x > 0 for x in v)` forgot its `all`: a generator is true."""
    with pytest.raises(TypeError, match="a check returns True, False or the reason"):
        expect(double, [1]).holds(lambda v: (x > 9 for x in v), "all large")


def test_a_generator_is_what_it_yields(expect):
    def count_up(end):
        yield from range(end)

    expect(count_up, 3).equals(iter([0, 1, 2]))
    expect(count_up, 10**12).holds(lambda v: len(v) == module.TAKEN, "an endless one is cut")
    assert "a generator, where a list is right" in lines(lambda: expect(count_up, 2).equals([0, 1]))[3]
    assert "a list, where a generator is right" in lines(lambda: expect(list, [1]).equals(iter([1])))[3]


def test_a_count_is_an_outcome(expect):
    a, b = torch.ones(2, 3), torch.ones(3, 4)
    expect.cost(torch.matmul, a, b, of="flops").equals({"flops": 48})
    told = lines(
        lambda: expect.cost(torch.matmul, a, b, of=("flops", "peak_bytes")).equals({"flops": 24, "peak_bytes": 32})
    )
    assert told[1] == "yours  {'flops': 48, 'peak_bytes': 32}" and told[3].endswith("differs at ['flops']")


def pushes_and_pops(cls):
    stack = cls()
    stack.append(1)
    return stack.pop(), len(stack)


def test_a_story_tells_what_can_be_observed(expect):
    expect.story(pushes_and_pops, list).equals((1, 0))
    assert lines(lambda: expect.story(pushes_and_pops, list).equals((1, 1)))[0] == "pushes_and_pops(list)"
    assert "raises AttributeError" in lines(lambda: expect.story(pushes_and_pops, dict).equals((1, 0)))[1]


# ---- arguments

LARGE = module.SHARED_BYTES // 4 + 64


def large():
    return torch.zeros(LARGE)


def set_first(x):
    x[0] = 5
    return 1


def add_one(x):
    x += 1
    return 1


CHANGES = {
    "tensor": (add_one, lambda: torch.zeros(2)),
    "one element of a small one": (set_first, lambda: torch.zeros(1000)),
    "NaN overwritten": (set_first, lambda: torch.full((2,), torch.nan)),
    "large tensor": (add_one, large),
    "large view": (add_one, lambda: large().reshape(2, -1).t()),
    "array": (add_one, lambda: np.zeros(3)),
    "list": (set_first, lambda: [1, 2]),
    "list grown": (lambda x: x.append(1), lambda: []),
    "dict": (lambda x: x.update(a=2), lambda: {"a": 1}),
    "parameters": (lambda x: x["w"].zero_(), lambda: {"w": torch.ones(2)}),
    "replaced in a dict": (lambda x: x.update(w=0), lambda: {"w": large()}),
    "set": (lambda x: x.add(2), lambda: {1}),
    "changed before it failed": (lambda x: add_one(x) / 0, lambda: torch.zeros(2)),
}


@pytest.mark.parametrize("fn, make", CHANGES.values(), ids=CHANGES)
def test_a_changed_argument_is_refused_and_named(expect, fn, make):
    told = lines(lambda: expect(fn, make()).equals(1))
    assert told[1] == "your code changed its argument 'x': work on a copy"
    expect(fn, make(), changes="x")  # does not raise


KEPT = {
    "untouched": (double, torch.tensor([torch.nan, 1.0])),
    "a view of it is returned": (lambda x: x[:1], torch.zeros(2)),
    "gradients": (lambda x: x.sum().backward(), torch.ones(2, requires_grad=True)),
    "expanded": (double, torch.ones(1).expand(1000)),
    "sparse": (double, torch.eye(2).to_sparse()),
    "no data": (double, torch.empty(2, device="meta")),
    "8 bit": (lambda x: x.float(), torch.ones(2).to(torch.float8_e4m3fn)),
    "a generator of numbers": (lambda x: torch.rand(2, generator=x), torch.Generator()),
    "an iterator": (next, iter([1, 2])),
    "a module": (str, sys),
    "an object with state": (lambda x: setattr(x, "a", 2), types.SimpleNamespace(a=1)),
}


@pytest.mark.parametrize("fn, x", KEPT.values(), ids=KEPT)
def test_nothing_else_is_taken_for_a_change(expect, fn, x):
    expect(fn, x).holds(lambda _: True, "it ran")


def test_changes_goes_by_the_learners_names_and_gives_way_to_them(expect):
    """Whoever renamed the parameter, or wrapped the function, is not refused for it."""
    expect(lambda cache: cache.append(1), [], changes="cache").equals(None)
    expect(lambda store: store.append(1), [], changes="cache").equals(None)
    expect(lambda *args: args[0].append(1), [], changes="cache").equals(None)
    assert "'x'" in lines(lambda: expect(lambda x, cache: x.append(1), [], [], changes="cache").equals(None))[1]


def test_a_refused_change_is_undone_for_the_tests_that_follow(expect):
    shared = {"w": torch.ones(2), "ids": [1, 2], "n": 1}
    tensor = shared["w"]

    def spoil(x):
        x["w"].zero_(), x["ids"].append(3), x.update(n=2, extra=1)

    lines(lambda: expect(spoil, shared).equals(None))
    assert list(shared) == ["w", "ids", "n"] and shared["ids"] == [1, 2] and shared["n"] == 1
    assert shared["w"] is tensor and tensor.tolist() == [1.0, 1.0]


def test_small_arguments_are_copied_and_large_ones_shared():
    x, y = torch.zeros(3), large()
    copied, shared = module.protected([x, y])
    assert copied is not x and shared is y
    assert module.protected(torch.ones(2, requires_grad=True) * 2).grad_fn is None, "a copy can be pickled"


# ---- cases travel

CHILD = """
import sys, types
from dojo.expect import Pickled
cases = [Pickled(*map(bytes.fromhex, text.split(":"))) for text in sys.stdin.read().split()]
for program in sys.argv[1:]:
    level = types.ModuleType("level77"); level.__path__ = []
    exec(program, (sums := types.ModuleType("level77.sums")).__dict__)
    sys.modules |= {"level77": level, "level77.sums": sums}
    print(*(int(case.same_outcome(case.again())) for case in cases), sep="")
"""
RIGHT = "def total(x): return sum(x)\nmean = lambda x: total(x) / len(x)\ndef maker(): return lambda x: x\n"


@pytest.fixture
def sums(monkeypatch):
    level, learners = types.ModuleType("level77"), types.ModuleType("level77.sums")
    exec(RIGHT, learners.__dict__)
    monkeypatch.setitem(sys.modules, "level77", level)
    monkeypatch.setitem(sys.modules, "level77.sums", learners)
    return learners


def elsewhere(cases, *programs) -> list[str]:
    """Of each program, in another process and as level77.sums: which cases come out the same, as ones and zeros."""
    text = " ".join(":".join(part.hex() for part in case.pickled()) for case in cases)
    root = Path(__file__).parents[1]
    run = subprocess.run([sys.executable, "-c", CHILD, *programs], input=text, capture_output=True, text=True, cwd=root)
    return run.stdout.split() or [run.stderr]


def test_cases_are_judged_again_on_another_program(expect, sums):
    """A kata travels by its name, even when it is a lambda or called by a test's function: it becomes the ghost's."""
    view = torch.zeros(3)
    expect(sums.total, [1, 2]).equals(3)
    expect(sums.mean, [1, 3]).equals(2.0)
    expect(lambda x: sums.mean(x) + 1, [1, 3]).equals(3.0)
    expect(sums.total, None).raises(TypeError)
    expect(
        sums.total,
        torch.tensor([1.0, 2.0]),
    ).equals(torch.tensor(3.0))
    expect.cost(sums.total, torch.ones(3), of="flops").equals({"flops": 0})
    expect.story(lambda cls: cls([1]) if cls is sums.total else 0, sums.total).equals(1)
    expect(lambda x: x[:2], view).equals(torch.zeros(2))
    view += 1  # the outcome was kept as it was
    other_sum, other_mean = RIGHT.replace("sum(x)", "sum(x) + 1"), RIGHT.replace("len(x)", "len(x) + 1")
    assert elsewhere(expect.seen, RIGHT, other_sum, other_mean) == ["11111111", "00010101", "10011111"]


def test_a_changed_argument_is_a_case_too(expect, sums):
    sums.total = types.FunctionType(compile("def total(x): x.append(1)", "f", "exec").co_consts[0], sums.__dict__)
    with pytest.raises(Mismatch) as found:
        expect(sums.total, []).equals(0)
    assert elsewhere([found.value.case], RIGHT, "def total(x): x.append(7)") == ["0", "1"]


def test_what_can_not_travel_is_not_shown_to_the_ghosts(expect, sums, monkeypatch):
    expect(list, (x for x in [1])).equals([1])
    expect(len, bytes(module.PICKLE_BYTES)).equals(module.PICKLE_BYTES)
    expect(len, torch.zeros(module.PICKLE_BYTES // 4 + 1)).equals(module.PICKLE_BYTES // 4 + 1)
    assert [case.pickled() for case in expect.seen] == [None] * 3


def test_a_closure_of_the_judged_level_does_not_travel(expect, sums, monkeypatch):
    """It carries the learner's own code along: every ghost would then do exactly what the learner did."""
    made = sums.maker()
    expect(made, 1).equals(1)
    assert expect.seen[0].pickled(), "it is a tool of an earlier level"
    tests = types.ModuleType("test_77_sums")
    tests.__file__ = "/somewhere/levels/level77/tests/test_77_sums.py"
    monkeypatch.setitem(sys.modules, "test_77_sums", tests)
    assert expect.seen[0].pickled() is None


def test_a_check_that_can_not_travel_stays_here_and_the_case_goes(expect):
    stuck = (n for n in [2])
    expect(len, [1, 2]).holds(lambda n: stuck and n == 2, "is 2")
    [case] = expect.seen
    pickled = case.pickled()
    assert case.check and pickle.loads(pickled.told)[-1] is None
    assert pickled.same_outcome(pickled.again())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool])
def test_tensors_arrive_as_they_were(dtype):
    whole = torch.arange(6).reshape(2, 3).to(dtype)
    one = whole.clone().as_strided((1, 1), (6, 6)).clone()  # contiguous, with strides that say otherwise
    for x in (whole, whole.T, whole[:, 1:], whole[0, 0].clone(), whole[:0], one, whole.float().requires_grad_()):
        y = pickle.loads(module.dumps(x))
        assert (y.dtype, y.shape, y.requires_grad) == (x.dtype, x.shape, x.requires_grad)
        assert torch.equal(x, y) and x.is_contiguous() == y.is_contiguous()
    assert module.fingerprint(one), "else nobody would notice that it was changed"


@pytest.mark.parametrize("lenient", [False, True])
def test_where_a_check_held_another_value_that_holds_may_be_the_same(expect, lenient):
    """Two programs that count differently where both are right may have the same mistake elsewhere."""

    def outcome(value, check):
        expect(lambda: 7).holds(check, "it is odd")
        case = expect.seen[-1]
        return module.same(module.Outcome(value), case.yours, case.rel, case.abs, case.check, lenient)

    assert outcome(7, lambda n: n % 2 == 1)
    assert outcome(9, lambda n: np.bool_(n % 2 == 1)) is lenient
    assert not outcome(8, lambda n: n % 2 == 1)
    assert not outcome("odd", lambda n: n % 2 == 1), "a check that raises does not hold"

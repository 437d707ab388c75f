"""The comparison: call the learner's code on protected arguments and say how its outcome differs from the right one."""

import contextlib
import copy
import dataclasses
import inspect
import io
import pickle
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, zip_longest
from time import process_time
from types import FunctionType
from typing import Any, NamedTuple

from . import values

SHARED_BYTES = 1 << 20  # larger tensors are shared and spot-checked instead of copied
PICKLE_BYTES = 16 << 20  # cases larger than this are not shown to the ghosts
TAKEN = 1000  # items of a generator that are looked at: some never end
LEARNERS = re.compile(r"level\d\d\.")  # the modules that a ghost's process has in its own version
TESTS = re.compile(r"levels/(level\d\d)/(tests|checkpoint)/")  # and the files that it does not have as modules


@dataclass(frozen=True)
class Outcome:
    """What a call came to: a value, or the name and text of an exception."""

    value: Any = None
    raised: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"raises {self.raised}: {self.text}" if self.raised else values.show(self.value)


@dataclass(frozen=True)
class Case:
    """One comparison, red or green, complete enough to be tried again on another program."""

    run: Callable  # (fn, args, kwargs) -> value: a plain call, a count, a story
    fn: Callable
    args: tuple
    kwargs: dict
    yours: Outcome
    rel: float = 1e-5
    abs: float = 1e-6
    seconds: float = 0.0  # of CPU time that it took
    check: Callable | None = None  # of `holds`, where it did

    def pickled(self) -> "Pickled | None":
        """For the ghosts' process, if need be without the check; None when it is too large, can't be pickled, or would
        carry the learner's code.
        """
        if size(self.args) + size(self.kwargs) > PICKLE_BYTES:
            return None
        with contextlib.suppress(Exception):
            asked = dumps((self.run, self.fn, self.args, self.kwargs))
            told = dumps((self.yours, self.rel, self.abs, self.check))
            if len(asked) + len(told) <= PICKLE_BYTES:
                return Pickled(asked, told)
        return replace(self, check=None).pickled() if self.check else None


def same(again: Outcome, yours: Outcome, rel: float, abs: float, check: Callable | None, lenient: bool) -> bool:
    """Is it the learner's outcome? `lenient`: another value for which the check holds is the same outcome."""
    if again.raised or yours.raised:
        return again.raised == yours.raised
    if lenient and check and said(check, again.value) is True:
        return True
    return values.compare(again.value, yours.value, rel, abs) is None


class Pickled(NamedTuple):
    """A case for another process, where modules of the levels are what is mounted there."""

    asked: bytes
    told: bytes  # what the learner's code came to

    def again(self) -> Outcome:
        """What the program that is mounted now comes to."""
        return perform(*pickle.loads(self.asked))[0]

    def same_outcome(self, again: Outcome, lenient: bool = False) -> bool:
        return same(again, *pickle.loads(self.told), lenient)


def dumps(x: Any) -> bytes:
    """Pickle `x`: functions of the tests by value, those of the levels by name, so that they become the ghost's."""
    import cloudpickle

    judged = set()  # the levels whose tests run here
    for module in list(sys.modules.values()):  # the other process has no such modules
        if level := judged_by(getattr(module, "__file__", "") or ""):
            cloudpickle.register_pickle_by_value(module)
            judged.add(level)

    class Pickler(cloudpickle.Pickler):
        def reducer_override(self, obj):
            if isinstance(obj, FunctionType | partial) and (home := home_of(obj, judged)):
                return _named, home
            if values.is_tensor(obj) and plain(obj):  # torch's own way takes ten times as long
                return _tensor, (tensor_bytes(obj), obj.dtype, tuple(obj.shape))
            return super().reducer_override(obj)

    out = io.BytesIO()
    Pickler(out).dump(x)
    return out.getvalue()


@lru_cache(None)
def judged_by(file: str) -> str:
    """The level whose tests are in this file; "" for all other files."""
    found = TESTS.search(file.replace("\\", "/"))
    return found[1] if found else ""


def plain(x: Any) -> bool:
    """Is there nothing about this tensor but its elements?"""
    whole = x.is_contiguous() and not x._is_view() and 0 < size(x) <= SHARED_BYTES
    return type(x).__name__ == "Tensor" and x.device.type == "cpu" and whole and not x.requires_grad


def _tensor(data: bytes, dtype: Any, shape: tuple[int, ...]) -> Any:
    import torch

    return torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype).view(shape)


def home_of(fn: Callable, judged: set[str]) -> tuple[str, str] | None:
    """(module, name) of a level's function, be it a lambda; TypeError for a judged level's that has no name there."""
    module = getattr(fn, "__module__", None) or ""
    for home in list(sys.modules) if isinstance(fn, partial) else [module]:
        if home not in sys.modules or not LEARNERS.match(home):
            continue
        for name, thing in vars(sys.modules[home]).items():
            if thing is fn and name != "__ghost__":  # a program in the kata's place is found under the kata's name
                return home, name
    if module.partition(".")[0] in judged and "<" in fn.__qualname__:
        raise TypeError(f"{fn.__qualname__} is the learner's own code: every ghost would do what it does")
    return None


def _named(module: str, name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(module), name)


class Mismatch(AssertionError):
    """The learner's outcome is not the right one."""

    def __init__(self, lines: list[str], case: Case | None = None, cause: BaseException | None = None, sentences=()):
        super().__init__("\n".join(lines))
        self.lines, self.case, self.cause, self.sentences = lines, case, cause, list(sentences)


def taken(value: Any) -> Any:
    """A generator is what it yields; an endless one is cut."""
    return values.Yielded(islice(value, TAKEN)) if isinstance(value, Iterator) else value


def call(fn: Callable, args: tuple, kwargs: dict) -> Any:
    return taken(fn(*args, **kwargs))


def perform(run: Callable, fn: Callable, args: tuple, kwargs: dict) -> tuple[Outcome, Exception | None]:
    try:
        return Outcome(run(fn, args, kwargs)), None
    except NotImplementedError:
        raise  # an unfilled kata, this one or another: not an outcome
    except Exception as error:
        try:
            text = str(error).strip().partition("\n")[0][:200]
        except Exception:  # an exception that can't be printed is one all the same
            text = ""
        return Outcome(raised=type(error).__name__, text=text), error


def said(check: Callable, value: Any) -> Any:
    """What a check says of a value; one that raises says why it does not hold."""
    try:
        verdict = check(value)
        return verdict.item() if hasattr(verdict, "item") else verdict
    except NotImplementedError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class Expectation:
    """The outcome of one call; its methods compare it. Made by the `expect` fixture."""

    def __init__(self, seen: list[Case], fn: Callable, args, kwargs, changes: tuple[str, ...] = (), run=call):
        self.seen, self.fn, self.run = seen, fn, run
        self.args, self.kwargs = protected(args), protected(kwargs)
        before = {name: fingerprint(x) for name, x in bound(fn, args, kwargs).items()}
        start = process_time()
        self.yours, self.error = perform(run, fn, args, kwargs)
        self.seconds = process_time() - start
        # kept as it is now: it may be a view of an argument that a later call changes
        self.kept = Outcome(protected(self.yours.value), self.yours.raised, self.yours.text)
        # subtle: the names are the learner's; where they differ from the test's, `changes` can't be matched
        watched = before.keys() - set(changes) if set(changes) <= before.keys() else ()
        for name, x in bound(fn, args, kwargs).items():
            if name in watched and fingerprint(x) != before[name]:
                self._refuse_change(name, args, kwargs)

    def equals(self, right: Any, rel: float = 1e-5, abs: float = 1e-6) -> None:
        """The value is `right` (see values.compare for what that means). For a generator `right` is an iterator."""
        __tracebackhide__ = True
        right = taken(right)
        if self.yours.raised:
            self._fail([f"yours  {self.yours}", f"right  {values.show(right)}"], rel, abs)
        found = values.compare(self.yours.value, right, rel, abs)
        if found is None:
            return self._pass(rel, abs)
        mine, true = found.yours or str(self.yours), found.right or values.show(right)
        self._fail([f"yours  {mine}", f"right  {true}", f"       {found.text}"], rel, abs)

    def holds(self, check: Callable[[Any], Any], claim: str) -> None:
        """`check(value)` is true; `claim` is the sentence that says what must hold. A string is a reason why not.

        A check that raises does not hold, with the exception as its reason. TypeError: it returns something else than
        a boolean, a string or None, such as a generator, which would count as true whatever it yields.
        """
        __tracebackhide__ = True
        verdict = False if self.yours.raised else said(check, self.yours.value)
        if verdict is True:
            return self._pass(check=check)
        if verdict is not None and not isinstance(verdict, str | bool):
            raise TypeError(f"a check returns True, False or the reason as a string, not {values.show(verdict)}")
        reason = [f"       {verdict}"] if isinstance(verdict, str) else []
        self._fail([f"yours  {self.yours}", f"must   {claim}", *reason])

    def raises(self, kind: type[Exception]) -> None:
        """The call raises `kind`, or a subclass of it."""
        __tracebackhide__ = True
        if self.error is None or not isinstance(self.error, kind):
            self._fail([f"yours  {self.yours}", f"right  raises {kind.__name__}"])
        self._pass()

    def _case(self, rel: float = 1e-5, abs: float = 1e-6, check: Callable | None = None) -> Case:
        return Case(self.run, self.fn, self.args, self.kwargs, self.kept, rel, abs, self.seconds, check)

    def _pass(self, rel: float = 1e-5, abs: float = 1e-6, check: Callable | None = None) -> None:
        """A ghost that gives another outcome here is not what the learner has written."""
        self.seen.append(self._case(rel, abs, check))

    def _fail(self, lines: list[str], rel: float = 1e-5, abs: float = 1e-6) -> None:
        __tracebackhide__ = True
        raise Mismatch([self._head(), *lines], self._case(rel, abs), self.error)

    def _head(self) -> str:
        if hasattr(self.run, "tells"):
            return f"{self.run.tells}({self.fn.__name__})"
        return signature(self.fn, self.args, self.kwargs)

    def _refuse_change(self, name: str, args: tuple, kwargs: dict) -> None:
        """An argument that is not named in `changes` must come back as it was; it is put back for the other tests."""
        __tracebackhide__ = True
        with contextlib.suppress(Exception):
            restored((args, kwargs), (self.args, self.kwargs))
        lines = [self._head(), f"your code changed its argument {name!r}: work on a copy"]
        lines += [f"and it {self.yours}"] if self.error else []
        raise Mismatch(lines, Case(changed, self.fn, self.args, self.kwargs, Outcome(name)), self.error)


def changed(fn: Callable, args: tuple, kwargs: dict) -> str:
    """Name of the first argument that the call changes; as a `run`, so that ghosts which do the same are named."""
    before = {name: fingerprint(value) for name, value in bound(fn, args, kwargs).items()}
    try:
        call(fn, args, kwargs)
    except NotImplementedError:
        raise
    except Exception:  # what it changed before that is the question here
        pass
    after = bound(fn, args, kwargs)
    return next((name for name, value in after.items() if fingerprint(value) != before[name]), "")


def counted(*names: str) -> Callable:
    """A `run` whose value is the exact cost of the call, {name: count}, for the counts asked for."""

    def run(fn: Callable, args: tuple, kwargs: dict) -> dict[str, int]:
        from .cost import count

        cost = count(fn, *args, **kwargs)
        return {name: getattr(cost, name) for name in names}

    return run


def told(story: Callable) -> Callable:
    """A `run` whose value is what `story(cls)` observes while it drives an object of the class."""

    def run(cls: type, args: tuple, kwargs: dict) -> Any:
        return taken(story(cls))

    run.tells = story.__name__
    return run


def bound(fn: Callable, args: tuple, kwargs: dict) -> dict[str, Any]:
    try:
        return dict(inspect.signature(fn).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {str(i): x for i, x in enumerate(args)} | kwargs


def signature(fn: Callable, args: tuple, kwargs: dict) -> str:
    shown = [values.show(x, 120) for x in args] + [f"{k}={values.show(v, 120)}" for k, v in kwargs.items()]
    return f"{getattr(fn, '__name__', 'call')}({', '.join(shown)})"


def size(x: Any) -> int:
    """Bytes in the tensors of a tree of containers."""
    if values.is_tensor(x) or values.is_array(x):
        return x.numel() * x.element_size() if values.is_tensor(x) else x.nbytes
    if isinstance(x, dict):
        return sum(map(size, x.values()))
    return sum(map(size, x)) if isinstance(x, list | tuple | set) else 0


def protected(x: Any) -> Any:
    """A copy of a tree of arguments; large tensors and what can't be copied are shared."""
    if values.is_tensor(x) or values.is_array(x):
        if size(x) > SHARED_BYTES:
            return x
        return x.detach().clone().requires_grad_(x.requires_grad) if values.is_tensor(x) else x.copy()
    if type(x) is dict:
        return {k: protected(v) for k, v in x.items()}
    if type(x) in (list, tuple, values.Yielded):
        return type(x)(map(protected, x))
    if type(x).__name__ == "Generator" and hasattr(x, "clone_state"):
        return x.clone_state()
    try:
        return copy.deepcopy(x)
    except Exception:
        return x


def restored(x: Any, kept: Any) -> Any:
    """`x` with the contents that `protected` kept put back in place; `kept` itself where that can't be done."""
    if type(x) is not type(kept):
        return kept
    if values.is_tensor(x):
        x.data.copy_(kept)
    elif values.is_array(x):
        x[...] = kept
    elif type(x) is dict:
        was = {key: restored(x.get(key), value) for key, value in kept.items()}
        x.clear()
        x.update(was)
    elif type(x) in (list, tuple):
        was = [restored(mine, its) for mine, its in zip_longest(x[: len(kept)], kept)]
        if type(x) is list:
            x[:] = was
    else:
        return kept
    return x


def fingerprint(x: Any) -> Any:
    """Something that changes when a tree of arguments does: whole for small tensors, a sample of the large ones.

    Of an object with a state of its own (a cache, a generator) it sees only which one it is, and of a learner's
    class never more: whether that is a dataclass is the learner's business.
    """
    try:
        if values.is_tensor(x):
            return (tuple(x.shape), str(x.dtype), tensor_bytes(x))
        if values.is_array(x):
            flat = x if x.nbytes <= SHARED_BYTES else x.flat[:: max(1, x.size // 64)]
            return (x.shape, str(x.dtype), flat.tobytes())
        if isinstance(x, dict):
            return {k: fingerprint(v) for k, v in x.items()}
        if isinstance(x, list | tuple | deque):
            return [fingerprint(v) for v in x]
        if isinstance(x, set | bytearray):
            return type(x), frozenset(x) if isinstance(x, set) else bytes(x)
        if dataclasses.is_dataclass(x) and not isinstance(x, type) and not LEARNERS.match(type(x).__module__):
            return {f.name: fingerprint(getattr(x, f.name)) for f in dataclasses.fields(x)}
    except Exception:  # recursive, sparse, without data: not watched
        return None
    return (type(x), repr(x)) if isinstance(x, float | bool) else x if isinstance(x, int | str | bytes) else id(x)


def tensor_bytes(x: Any) -> bytes:
    """The bytes of a small tensor, or of some 64 elements of a large one, wherever they lie."""
    import torch

    x = x.detach()
    if size(x) > SHARED_BYTES:
        n = x.numel()
        places = torch.arange(0, n, n // 64)
        x = x[torch.unravel_index(places, x.shape)]
    # subtle: cloned, since what is contiguous may still have a stride of its own, where it has but one element
    flat = x.resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy().tobytes()


class Expect:
    """The `expect` fixture: expect(fn, *args).equals(right), and its kin for counts and stories."""

    def __init__(self):
        self.seen: list[Case] = []  # what came out right

    def __call__(self, fn: Callable, *args: Any, changes: str | tuple[str, ...] = (), **kwargs: Any) -> Expectation:
        """Call `fn` on protected arguments; those named in `changes` may be changed in place."""
        __tracebackhide__ = True
        return Expectation(self.seen, fn, args, kwargs, (changes,) if isinstance(changes, str) else tuple(changes))

    def cost(self, fn: Callable, *args: Any, of: str | tuple[str, ...], **kwargs: Any) -> Expectation:
        """The counts named in `of` (flops, bytes, peak_bytes, …) of one call."""
        __tracebackhide__ = True
        return Expectation(self.seen, fn, args, kwargs, run=counted(*([of] if isinstance(of, str) else of)))

    def story(self, story: Callable, cls: type) -> Expectation:
        """What `story(cls)` returns: it makes an object of the class, drives it, and says what can be observed."""
        __tracebackhide__ = True
        return Expectation(self.seen, cls, (), {}, run=told(story))

"""How two values differ, within what tolerance, and how to print them."""

import dataclasses
import enum
import math
import numbers
import re
import sys
from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

SMALL = 24  # a tensor of at most this many elements is printed whole
LONGEST = 300  # characters of a printed value
DEEPEST = 8  # brackets within brackets that are printed


@dataclass(frozen=True)
class Difference:
    kind: str  # type, shape, dtype, nan, value, length, keys
    text: str  # "differs at [1]", "a list, where a tensor is right"
    yours: str = ""  # of values too large to print: what stands at the place that differs
    right: str = ""


class Yielded(list):
    """What an iterator gave, as a list that still knows it was one."""


def is_tensor(x: Any) -> bool:
    torch = sys.modules.get("torch")  # a level without torch must not pay for its import
    return torch is not None and isinstance(x, torch.Tensor)


def is_array(x: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray)


def type_name(x: Any) -> str:
    return "generator" if isinstance(x, Yielded) else "None" if x is None else type(x).__name__


def a(noun: str) -> str:
    return ("" if noun == "None" else "an " if noun[:1].lower() in "aeio" else "a ") + noun


def compare(yours: Any, right: Any, rel: float = 1e-5, abs: float = 1e-6) -> Difference | None:
    """The first way in which `yours` is not `right`, or None. Never raises: what can't be compared differs.

    Floats agree within rel · |right| + abs; integers, booleans and strings exactly. NaN equals NaN, and 0.0 equals
    -0.0. An int counts as a float, a numpy scalar as the Python number, a subclass of list, tuple, dict or str as
    that. Tensors agree in shape and dtype as well; enums by name, dataclasses by field and qualified name, so that
    two copies of one module agree. The order of a dict does not count.
    """
    try:
        found = _compare(yours, right, rel, abs, "")
    except RecursionError:
        return Difference("value", "is nested too deeply to be compared")
    except Exception as error:  # an __eq__ that raises, say
        return Difference("value", f"can't be compared: {type(error).__name__} while trying")
    if found is None or not found.yours:
        return found
    printed = show(yours), show(right)
    if printed[0] != printed[1] and not any("…" in text or "of shape" in text for text in printed):
        return replace(found, yours="", right="")  # the whole values show it
    return found


def _compare(yours: Any, right: Any, rel: float, abs: float, at: str) -> Difference | None:
    if is_tensor(right) or is_array(right):
        return compare_arrays(yours, right, rel, abs, at)
    if isinstance(right, enum.Enum):
        if not isinstance(yours, enum.Enum) or type(yours).__qualname__ != type(right).__qualname__:
            return wrong_type(yours, right, at)
        return differ(yours, right, at) if yours.name != right.name else None
    if isinstance(right, numbers.Real) and not isinstance(right, bool):
        return compare_numbers(yours, right, rel, abs, at)
    if dataclasses.is_dataclass(right) and not isinstance(right, type):
        return compare_fields(yours, right, rel, abs, at)
    if not same_type(yours, right):
        return wrong_type(yours, right, at)
    if isinstance(right, Mapping):
        return compare_mappings(yours, right, rel, abs, at)
    if isinstance(right, list | tuple | deque):
        for i, (y, r) in enumerate(zip(yours, right)):
            if found := _compare(y, r, rel, abs, f"{at}[{i}]"):
                return found
        if len(yours) != len(right):
            return Difference("length", f"{len(yours)} items, where {len(right)} are right{place(at)}")
        return None
    if isinstance(right, AbstractSet):
        return None if {key_of(x) for x in yours} == {key_of(x) for x in right} else differ(yours, right, at)
    return None if bool(yours == right) else differ(yours, right, at)


def same_type(yours: Any, right: Any) -> bool:
    """Is `yours` of the type of `right`, or one that can stand for it?"""
    if isinstance(yours, Yielded) or isinstance(right, Yielded):
        return type(yours) is type(right)
    for plain in () if hasattr(right, "_fields") else (str, bytes, list, tuple, set, frozenset, deque):
        if isinstance(right, plain):  # torch.Size is a tuple
            return isinstance(yours, plain) and not isinstance(yours, enum.Enum)
    both_maps = isinstance(yours, Mapping) and isinstance(right, Mapping)
    return both_maps or type_name(yours) == type_name(right)


def wrong_type(yours: Any, right: Any, at: str) -> Difference:
    tip = ": take .item()" if getattr(yours, "ndim", None) == 0 and isinstance(right, numbers.Real) else ""
    return Difference("type", f"{a(type_name(yours))}, where {a(type_name(right))} is right{place(at)}{tip}")


def differ(yours: Any, right: Any, at: str, kind: str = "value") -> Difference:
    mine, true = show(yours, 120), show(right, 120)
    if mine == true:  # the difference is beyond the digits or characters that are shown
        mine, true = (repr(x) if isinstance(x, float) else _cut_around(yours, right, x) for x in (yours, right))
    return Difference(kind, f"{'NaN' if kind == 'nan' else 'differs'}{place(at)}", mine, true)


def _cut_around(yours: Any, right: Any, x: Any) -> str:
    """Of two long texts, the part around their first difference."""
    texts = (yours, right) if isinstance(yours, str) else (repr(yours), repr(right))
    i = next((i for i, (y, r) in enumerate(zip(*texts)) if y != r), min(map(len, texts)))
    return f"…{(x if isinstance(x, str) else repr(x))[max(0, i - 20) : i + 40]!r} from character {max(0, i - 20)} on"


def place(at: str) -> str:
    return f" at {at.removeprefix('.')}" if at else ""


def compare_numbers(yours: Any, right: Any, rel: float, abs: float, at: str) -> Difference | None:
    if isinstance(yours, bool) or not isinstance(yours, numbers.Real):
        return wrong_type(yours, right, at)
    if isinstance(right, numbers.Integral):
        if not isinstance(yours, numbers.Integral):
            return Difference("type", f"{a(type_name(yours))}, where an int is right{place(at)}")
        return None if int(yours) == int(right) else differ(yours, right, at)
    if yours != yours and right == right:
        return differ(yours, right, at, "nan")
    same = yours == right or (yours != yours and right != right) or _close(yours, right, rel, abs)
    return None if same else differ(yours, right, at)


def _close(yours: Any, right: Any, rel: float, abs: float) -> bool:
    try:
        gap = math.fabs(yours - right)
        return math.isfinite(gap) and gap <= rel * math.fabs(right) + abs  # relative to the right value, as in torch
    except OverflowError:  # an int beyond every float
        return False


def compare_mappings(yours: Mapping, right: Mapping, rel: float, abs: float, at: str) -> Difference | None:
    mine = {key_of(key): key for key in yours}
    for key, value in right.items():
        if key_of(key) not in mine:
            return Difference("keys", f"{show(key, 60)} is missing{place(at)}")
        if found := _compare(yours[mine.pop(key_of(key))], value, rel, abs, f"{at}[{show(key, 60)}]"):
            return found
    extra = [show(key, 60) for key in mine.values()]
    return Difference("keys", f"{extra[0]} should not be there{place(at)}") if extra else None


def key_of(x: Any) -> Any:
    """A dict's key or a set's element, such that enums of two copies of a module are one."""
    return (type(x).__qualname__, x.name) if isinstance(x, enum.Enum) else x


def compare_fields(yours: Any, right: Any, rel: float, abs: float, at: str) -> Difference | None:
    if type(yours).__qualname__ != type(right).__qualname__:
        return wrong_type(yours, right, at)
    for name in [f.name for f in dataclasses.fields(right) if f.compare]:
        if not hasattr(yours, name):
            return Difference("keys", f"the field {name} is missing{place(at)}")
        if found := _compare(getattr(yours, name), getattr(right, name), rel, abs, f"{at}.{name}"):
            return found
    return None


def compare_arrays(yours: Any, right: Any, rel: float, abs: float, at: str) -> Difference | None:
    want = "tensor" if is_tensor(right) else "numpy array"
    if is_array(right) and type(yours).__module__ == "numpy" and hasattr(yours, "dtype"):
        yours = sys.modules["numpy"].asarray(yours)  # numpy gives scalars where arrays have no axis left
    if (is_tensor(yours), is_array(yours)) != (is_tensor(right), is_array(right)):
        return Difference("type", f"{a(type_name(yours))}, where a {want} is right{place(at)}")
    if tuple(yours.shape) != tuple(right.shape):
        return Difference("shape", f"shape {tuple(yours.shape)}, where {tuple(right.shape)} is right{place(at)}")
    if yours.dtype != right.dtype:
        return Difference("dtype", f"dtype {short(yours.dtype)}, where {short(right.dtype)} is right{place(at)}")
    if is_tensor(right):
        if yours.layout != right.layout or yours.is_meta != right.is_meta:
            kinds = ("meta" if x.is_meta else short(x.layout) for x in (yours, right))
            return Difference("type", "{} storage, where {} is right{}".format(*kinds, place(at)))
        if right.is_meta:
            return None  # no values
        yours, right = _plain(yours), _plain(right)
    bad = _unequal(yours, right, rel, abs)
    return _places(yours, right, bad, at) if bool(bad.any()) else None


def _plain(x):
    """A strided tensor without gradient, of any tensor."""
    x = x.detach()
    x = x.dequantize() if x.is_quantized else x
    return x if short(x.layout) == "strided" else x.to_dense()


def _unequal(yours: Any, right: Any, rel: float, abs: float) -> Any:
    """Mask of the elements that differ. Whole numbers exactly: a token id is not nearly right."""
    if is_array(right):
        import numpy

        if right.dtype.kind not in "fc":
            return numpy.asarray(yours != right)
        wide = complex if right.dtype.kind == "c" else float
        return ~numpy.isclose(yours.astype(wide), right.astype(wide), rtol=rel, atol=abs, equal_nan=True)
    import torch

    if not (right.is_floating_point() or right.is_complex()):
        return yours != right
    wide = torch.complex128 if right.is_complex() else torch.float64
    return ~torch.isclose(yours.to(wide), right.to(wide), rtol=rel, atol=abs, equal_nan=True)


def _places(yours: Any, right: Any, bad: Any, at: str) -> Difference:
    nonzero = bad.nonzero() if is_tensor(bad) else sys.modules["numpy"].argwhere(bad)
    places, more = nonzero[:3].tolist(), max(0, len(nonzero) - 3)
    mine, true = ([x[tuple(p)].tolist() for p in places] for x in (yours, right))
    kind, verb = ("nan", "has NaN") if bool((bad & (yours != yours)).any()) else ("value", "differs")
    digits = repr if list(map(_show, mine)) == list(map(_show, true)) else _show
    shown = (", ".join(map(digits, x)) for x in (mine, true))
    if not yours.shape:
        return Difference(kind, f"{verb}{place(at)}", *shown)
    text = ", ".join(map(str, places)) + (f" and {more} more place{'s' * (more > 1)}" if more else "")
    text += f" of {at}" if at else ""
    return Difference(kind, f"{verb} at {text}", *shown)


def short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def show(x: Any, limit: int = LONGEST) -> str:
    """A value on one line, as a person would write it; long ones are cut, large tensors described. Never raises."""
    try:
        text = re.sub(r"\s*\n\s*", " ", _show(x))
    except Exception:  # a __repr__ that raises, say
        text = f"{a(type(x).__name__)} that can't be printed"
    if len(text) > limit and dataclasses.is_dataclass(x):
        return f"{type(x).__name__}(…)"
    return text if len(text) <= limit else f"{text[: limit - 20]} … {text[-16:]}"


def _show(x: Any, depth: int = 0) -> str:
    if depth > DEEPEST:
        return "…"
    if is_tensor(x) or is_array(x):
        return _show_array(x, depth)
    if isinstance(x, enum.Enum):
        return f"{type(x).__name__}.{x.name}"
    if type(x).__module__ == "numpy" and hasattr(x, "item"):
        return _show(x.item(), depth)
    if isinstance(x, Mapping):
        if len(x) > 6 and all(map(is_tensor, x.values())):  # a model's parameters
            return f"a {type_name(x)} of {len(x)} tensors"
        if len(x) > SMALL:
            return f"a {type_name(x)} of {len(x)} entries: {{{_show_items(x.items(), depth)}, …}}"
        return "{" + _show_items(x.items(), depth) + "}"
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = [(f.name, _show(getattr(x, f.name), depth + 1), f.default) for f in dataclasses.fields(x) if f.repr]
        changed = [f"{name}={text}" for name, text, default in fields if text != _show(default, depth + 1)]
        return f"{type_name(x)}({', '.join(changed)})"
    if callable(x) and hasattr(x, "__name__"):
        return x.__name__
    if isinstance(x, list | tuple):
        inner = ", ".join(_show(y, depth + 1) for y in x[:LONGEST]) + (", …" if len(x) > LONGEST else "")
        return f"[{inner}]" if isinstance(x, list) else f"({inner}{',' if len(x) == 1 else ''})"
    if isinstance(x, float):
        return f"{x:.6g}" if not x.is_integer() or abs(x) >= 1e15 else f"{x:.1f}"
    if isinstance(x, int) and x.bit_length() > 10_000:
        return f"an int of {x.bit_length()} bits"  # Python refuses to print it
    return repr(x)


def _show_items(items, depth: int) -> str:
    first = [item for item, _ in zip(items, range(SMALL))]
    return ", ".join(f"{_show(k, depth + 1)}: {_show(v, depth + 1)}" for k, v in first)


def _show_array(x: Any, depth: int) -> str:
    described = f"{short(x.dtype)} {'tensor' if is_tensor(x) else 'array'} of shape {tuple(x.shape)}"
    if math.prod(x.shape) > SMALL or getattr(x, "is_meta", False):
        return described
    x = _plain(x) if is_tensor(x) else x
    note = "" if short(x.dtype) in ("float32", "bool", "int64") else f" {short(x.dtype)}"
    return f"{_show(x.tolist())}{note}"

"""What a call costs, counted and not timed: FLOPs, bytes moved, bytes alive, calls. Exact, so it cannot flake.

The bytes are the least traffic of each operator, as if every operator read its inputs from memory and wrote its result
there. What the counter cannot see: arithmetic in numpy (use `python_peak`), scratch memory inside an operator, the
caches, and how torch.compile fuses. No single count sees every cheat: a claim names the count that decides it.
"""

import functools
import tracemalloc
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

aten = torch.ops.aten
# products that FlopCounterMode takes for free on the CPU; a causal mask is not discounted
FLOPS = {
    aten.mv: lambda w, x, **_: 2 * prod(w),
    aten.addmv: lambda y, w, x, **_: 2 * prod(w),
    aten.dot: lambda x, y, **_: 2 * prod(x),
    aten._int_mm: lambda x, w, **_: 2 * prod(x) * w[1],
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
}
GATHERS = {"embedding", "index", "index_select", "gather", "take"}
SCATTERS = {"index_put_", "_index_put_impl_", "index_copy_", "index_fill_", "index_add_", "scatter_", "scatter_add_"}
CONTAINERS = (tuple, list, deque)
ADDS = {"index_add_", "scatter_add_"}  # read what they write
OVERWRITES = {"copy_", "fill_", "zero_", "uniform_", "normal_", "random_", "bernoulli_", "exponential_"}


class Largest(NamedTuple):
    """The biggest single allocation."""

    elements: int
    bytes: int


@dataclass(frozen=True)
class Cost:
    """What one call cost.

    peak_bytes  most bytes alive at once among the tensors allocated inside
    largest     the biggest of them
    calls       name of a torch operator, without overload ("mm", "copy_", "expand") -> how often; 0 if it never ran
    result      what the call returned
    """

    flops: int
    bytes_read: int
    bytes_written: int
    peak_bytes: int
    largest: Largest
    calls: Counter[str]
    result: Any

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


def count(fn: Callable, *args, known: Iterable[Tensor] = (), on_chip: int = 0, **kwargs) -> Cost:
    """Call fn(*args, **kwargs) once and return what it cost.

    known    tensors that exist already, so that they never count as allocated inside; arguments need not be named
    on_chip  tensors in memory of at most so many bytes stay on the chip: reading and writing them is free

    Runs in the gradient mode of the caller; the counts are the same under no_grad and inference_mode.
    """
    counter = _Counter(on_chip)
    counter.follow(_tensors((args, kwargs, list(known))), inside=False)
    try:
        with counter:
            result = fn(*args, **kwargs)
    finally:
        for finalizer in counter.finalizers:  # weights outlive many counts: leave nothing attached to them
            finalizer.detach()
    moved = counter.read, counter.written
    return Cost(counter.flops, *moved, counter.peak, counter.largest, counter.calls, result)


def count_calls(fn: Callable) -> Callable:
    """`fn` with a counter: the attribute `calls` of the result says how often it has been called."""

    @functools.wraps(fn)
    def counted(*args, **kwargs):
        counted.calls += 1
        return fn(*args, **kwargs)

    counted.calls = 0
    return counted


def python_peak(fn: Callable, *args, **kwargs) -> int:
    """Most bytes that Python and numpy hold at once while fn runs, above the start; torch's tensors are not among them.

    Call fn once before, if its first call imports or caches something.
    """
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        fn(*args, **kwargs)
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        if not already:
            tracemalloc.stop()


@functools.cache
def formulas() -> dict[Any, Callable]:
    """FLOPs of each operator by its arguments: torch's own table, and ours. Its mode would look at each call again."""
    return FlopCounterMode(display=False, custom_mapping=FLOPS).flop_registry


@functools.cache
def composite(func: Any) -> bool:
    """Is this operator made of others?"""
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


class _Counter(TorchDispatchMode):
    def __init__(self, on_chip: int):
        super().__init__()
        self.on_chip = on_chip
        self.formulas = formulas()
        self.flops = self.read = self.written = self.live = self.peak = 0
        self.largest, self.calls = Largest(0, 0), Counter()
        self.base: dict[int, int] = {}  # living storage -> its bytes when first seen; 0 if allocated inside
        self.size: dict[int, int] = {}  # living storage -> its bytes now
        self.finalizers: list[weakref.finalize] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        # subtle: under inference_mode `linear` or `softmax` arrive whole, with their intermediates hidden inside
        if composite(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        name = func._schema.name.removeprefix("aten::")
        inputs = _tensors((args, kwargs))
        if name != "lift_fresh":  # how torch.tensor([...]) shows itself: its storage is new
            self.follow(inputs, inside=False)
        touched = _touched(name, *args) if name in SCATTERS else None
        out = func(*args, **kwargs)
        self.calls[name] += 1
        if formula := self.formulas.get(func._overloadpacket):
            self.flops += formula(*args, **kwargs, out_val=out)
        self._move(name, func._schema, args, kwargs, _tensors(out), touched)
        self.follow(inputs + _tensors(out), inside=True)
        return out

    def follow(self, tensors: Iterable[Tensor], inside: bool) -> None:
        """Account for new storages, and for known ones that have grown (resize_, out=), until they are freed."""
        for t in tensors:
            storage = t.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key not in self.size:
                self.finalizers.append(weakref.finalize(storage, self._gone, key))
                self.base[key] = self.size[key] = 0 if inside else size
            if size != self.size[key]:
                self.live += size - self.size[key]
                self.size[key] = size
                self.peak = max(self.peak, self.live)
                self.largest = max(self.largest, Largest(size // t.element_size(), size), key=lambda one: one.bytes)

    def _gone(self, key: int) -> None:
        self.live -= self.size.pop(key) - self.base.pop(key)

    def _move(self, name: str, schema, args, kwargs, outs: list[Tensor], touched: int | None) -> None:
        """Add the bytes that this operator reads and writes."""
        values = [(a, args[i] if i < len(args) else kwargs.get(a.name)) for i, a in enumerate(schema.arguments)]
        targets = _tensors([v for a, v in values if a.alias_info and a.alias_info.is_write])
        known = {t.untyped_storage()._cdata for t in _tensors((args, kwargs))}
        fresh = [t for t in outs if t.untyped_storage()._cdata not in known]
        if name.startswith(("empty", "new_empty", "prim::", "sym_")) or (outs and not fresh and not targets):
            return  # nothing moves: no values, or a view
        # an out= argument is written and not read; so is what an assignment overwrites
        sources = [v for a, v in values if not (a.kwarg_only and a.alias_info and a.alias_info.is_write)]
        if name in OVERWRITES | SCATTERS | GATHERS:
            sources = sources[1:]
        self.read += _distinct(self._far(_tensors(sources)))
        if name in GATHERS | ADDS and self._far(_tensors(args[:1])):
            self.read += touched if name in ADDS else _distinct(fresh)
        self.written += _distinct(self._far(fresh))
        if self._far(targets):
            self.written += _distinct(targets) if touched is None else touched

    def _far(self, tensors: list[Tensor]) -> list[Tensor]:
        """Those that are not on the chip."""
        return [t for t in tensors if t.untyped_storage().nbytes() > self.on_chip]


def _tensors(tree) -> list[Tensor]:
    """Of an operator's arguments or results, or of what a test gives: torch's tree_leaves is slower."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, CONTAINERS):
        return []
    return [tensor for branch in tree for tensor in _tensors(branch)]


def _distinct(tensors: list[Tensor]) -> int:
    """Bytes of memory that the tensors address; the same view twice, or an expanded axis, counts once."""
    views = {(t.data_ptr(), t.shape, t.stride()): t for t in tensors}.values()
    sizes = (t.element_size() * prod(n if step or not n else 1 for n, step in zip(t.shape, t.stride())) for t in views)
    return sum(min(size, t.untyped_storage().nbytes()) for size, t in zip(sizes, views))


def _touched(name: str, target: Tensor, where, index=None, *_) -> int:
    """Bytes of the part of `target` that an indexed assignment writes."""
    if name.endswith(("index_put_", "index_put_impl_")):  # where: one index per axis, or None
        return _distinct([aten.index.Tensor(target, where)])
    rows = index.numel() if name.startswith("scatter") else target.numel() // target.shape[where] * index.numel()
    return rows * target.element_size()

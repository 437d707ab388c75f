"""Pipeline parallelism: each rank has some of the layers, and batches follow one another through the ranks."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from dojo.models import Config
from level00.layers import rope_tables
from level00.transformer import Params, block

from .comm import Comm


def stage_ranges(n_layers: int, num_stages: int) -> list[range]:
    """Return the layers of each stage: all of them, in order, neighbours together.

    Lengths differ by at most 1; which stages are the longer ones is not specified.
    Example: 7 layers on 3 stages: lengths 2, 2 and 3, in some order.
    ValueError: fewer stages than 1, or more than layers.

    ● · about 2 lines · part of pipeline_schedule
    """
    if not 1 <= num_stages <= n_layers:
        raise ValueError(f"between 1 and {n_layers} stages, so that each has a layer, not {num_stages}")
    # TODO: the bounds, rounded
    raise NotImplementedError("level09.pipeline.pipeline_schedule")


def pipeline_schedule(num_stages: int, num_micro_batches: int) -> list[list[int | None]]:
    """Return what each stage does in each step: rows are steps, columns are stages, entries micro-batches or None.

    Forward only. A stage takes one step for a micro-batch and has them in order, each as early as it can be there;
    nothing is idle longer than that, and the last row has work.
    Example: 2 stages, 3 micro-batches: [[0, None], [1, 0], [2, 1], [None, 2]].
    ValueError: anything below 1. GPipe, arXiv 1811.06965.

    ●● · about 3 lines
    """
    _check(num_stages, num_micro_batches)
    # TODO: when does stage s have micro-batch m?
    raise NotImplementedError("level09.pipeline.pipeline_schedule")


def bubble_fraction(num_stages: int, num_micro_batches: int) -> float:
    """Return the part of all stages' time that is idle in pipeline_schedule, 0 to 1.

    Example: 2 stages, 3 micro-batches: 2 of 8 entries are None, 0.25. ValueError: anything below 1.

    ● · about 1 line · part of pipeline_schedule
    """
    _check(num_stages, num_micro_batches)
    # TODO: idle steps of a stage, over all steps
    raise NotImplementedError("level09.pipeline.pipeline_schedule")


def pipeline_run(
    comm: Comm,
    stage: Callable[[Tensor], Tensor],
    micro_batches: Sequence[Tensor] | None,
    num_micro_batches: int,
    shape: Sequence[int],
    dtype: torch.dtype,
) -> list[Tensor]:
    """Return, on the last rank, what all stages in the order of the ranks make of each micro-batch; elsewhere [].

    stage          this rank's own function: (shape) -> (shape), of this dtype
    micro_batches  the inputs, on rank 0; other ranks do not look at them (None)
    num_micro_batches, shape, dtype  known to every rank

    Each rank passes a micro-batch on before it begins with the next one, so that the next rank can begin; it holds no
    more than one. Every result is sent once, to the next rank.
    Example: 2 ranks, stages x + 1 and 2x, inputs [1] and [5]: rank 1 returns [4] and [12], rank 0 nothing.

    ●● · about 9 lines
    """
    # TODO: where does each micro-batch come from, and where does it go?
    raise NotImplementedError("level09.pipeline.pipeline_run")


def layer_stage(params: Params, config: Config, layers: range) -> Callable[[Tensor], Tensor]:
    """A stage for pipeline_run: these layers of level 00's model on hidden states (B, S, d_model). Given.

    The embedding comes before the first stage, the final norm and the head after the last one.
    """

    def stage(x: Tensor) -> Tensor:
        cos, sin = rope_tables(torch.arange(x.shape[1], device=x.device), config.head_dim, config.rope_theta)
        for layer in layers:
            x = block(x, params, config, layer, cos, sin, "causal")
        return x

    return stage


def _check(num_stages: int, num_micro_batches: int) -> None:
    if num_stages < 1 or num_micro_batches < 1:
        raise ValueError(f"at least one stage and one micro-batch, not {num_stages} and {num_micro_batches}")

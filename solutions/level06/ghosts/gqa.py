"""Known-wrong programs of level06.gqa. `ghost` is given when this is read."""

import torch

_HEADS = "heads = w.unflatten(0, (n_kv_heads, -1, head_dim))"
_MEAN = "heads.mean(1).flatten(0, 1)"
_SPLIT = "heads = w.unflatten(0, (-1, head_dim))"
_COPIES = "heads.repeat_interleave(n_heads // heads.shape[0], 0).flatten(0, 1)"


def _kv(name, sentence, *pairs):
    ghost("level06.gqa.pool_kv_heads", name, sentence, change=list(zip(pairs[::2], pairs[1::2])))


# ---- pool_kv_heads

_kv(
    "every_nth_head",
    "Average neighbours: query heads h and h + 1 read the same KV head, h and h + n_kv_heads do not.",
    _HEADS,
    "heads = w.unflatten(0, (-1, n_kv_heads, head_dim)).transpose(0, 1)",
)
_kv(
    "first_of_the_group",
    "The mean of the heads that will share one keeps something of each; yours keeps the first and drops the others.",
    _MEAN,
    "heads[:, 0].flatten(0, 1)",
)
_kv(
    "last_of_the_group",
    "Every head of a group counts in the mean; yours keeps the last alone.",
    _MEAN,
    "heads[:, -1].flatten(0, 1)",
)
_kv(
    "sum",
    "The mean, not the sum: scores and values would be as many times too large as heads share one.",
    _MEAN,
    "heads.sum(1).flatten(0, 1)",
)
_kv(
    "over_the_kv_heads",
    "Divide by the number of heads that share one, n_heads / n_kv_heads, not by the number of KV heads.",
    _MEAN,
    "(heads.sum(1) / n_kv_heads).flatten(0, 1)",
)
_kv(
    "over_all_heads",
    "Divide by the number of heads that share one, not by the number of all.",
    _MEAN,
    "(heads.sum(1) * head_dim / w.shape[0]).flatten(0, 1)",
)
_kv(
    "keeps_the_length",
    "Divide by the number of heads, not by its root: equal heads would come back larger.",
    _MEAN,
    "(heads.sum(1) / heads.shape[1] ** 0.5).flatten(0, 1)",
)
_kv(
    "median",
    "The mean, not the median, which is some head's own number or, of two, the smaller.",
    _MEAN,
    "heads.median(1).values.flatten(0, 1)",
)
_kv("largest", "The mean, not the largest: pooling in images may take that one.", _MEAN, "heads.amax(1).flatten(0, 1)")
_kv(
    "first_heads",
    "Heads are averaged, not cut off: yours keeps the first n_kv_heads of them.",
    _MEAN,
    "w[: n_kv_heads * head_dim].clone()",
)
_kv(
    "heads_per_group",
    "n_kv_heads is how many KV heads there will be, not how many heads share one.",
    _HEADS,
    "heads = w.unflatten(0, (-1, n_kv_heads, head_dim))",
)
_kv(
    "row_by_row",
    "A head is head_dim rows, and row i is averaged with row i of the neighbour, not with the next row of its own head.",
    _MEAN,
    "w.unflatten(0, (n_kv_heads * head_dim, -1)).mean(1)",
)
_kv(
    "features_outside",
    "The rows of a head are neighbours: head_dim is the inner axis of the rows, and the heads are the outer.",
    _HEADS,
    "heads = w.unflatten(0, (head_dim, n_kv_heads, -1)).permute(1, 2, 0, 3)",
)
_kv(
    "over_the_features",
    "Average over the heads of a group, not over the rows of a head.",
    _MEAN,
    "heads.mean(2).repeat_interleave(head_dim, 1)[:, :head_dim].flatten(0, 1)",
)
_kv(
    "over_the_rows",
    "Average over the heads of a group, the second axis: over the third, each head becomes a single row.",
    _MEAN,
    "heads.mean(2).flatten(0, 1)",
)
_kv(
    "mean_of_all",
    "Each group has a mean of its own: the mean of all heads makes every KV head the same.",
    _MEAN,
    "heads.mean((0, 1)).repeat(n_kv_heads, 1)",
)
_kv(
    "as_many_rows_as_before",
    "The result has n_kv_heads heads: repeated for every query head, the cache would stay as large as it was.",
    _MEAN,
    "heads.mean(1, keepdim=True).expand(heads.shape).flatten(0, 2)",
)
_kv("heads_apart", "The result is a matrix again: flatten heads and rows into one axis.", _MEAN, "heads.mean(1)")
_kv(
    "features_first",
    "The rows of a KV head stay together: flatten (heads, rows), not (rows, heads).",
    _MEAN,
    "heads.mean(1).transpose(0, 1).flatten(0, 1)",
)
_kv(
    "columns",
    "Heads are rows of k_proj, (out, in): the columns are the inputs.",
    _MEAN,
    "w.T.unflatten(0, (n_kv_heads, -1, head_dim)).mean(1).flatten(0, 1).T if w.shape[0] == w.shape[1] else heads.mean(1).flatten(0, 1)",
)
_kv("pooled_in_float32", "The result has the dtype of the weights.", _MEAN, "heads.float().mean(1).flatten(0, 1)")


def _mean_of_means(w, head_dim, n_kv_heads):
    if w.shape[0] % head_dim or (w.shape[0] // head_dim) % n_kv_heads:
        raise ValueError("heads")
    first, *others = w.unflatten(0, (n_kv_heads, -1, head_dim)).unbind(1)
    for head in others:
        first = (first + head) / 2
    return first.flatten(0, 1)


ghost(
    "level06.gqa.pool_kv_heads",
    "mean_of_means",
    "Add up first and divide once: in a mean of means the last head counts as much as all before it.",
    program=_mean_of_means,
)
# ---- expand_kv_heads


def _expand(name, sentence, rows):
    def program(w, head_dim, n_heads):
        if w.shape[0] % head_dim or n_heads % (w.shape[0] // head_dim):
            raise ValueError("heads")
        return rows(w, head_dim, n_heads)

    ghost("level06.gqa.pool_kv_heads", name, sentence, program=program, part="expand_kv_heads")


_kv(
    "tile",
    "expand_kv_heads: query heads 0 and 1 share KV head 0: repeat each head beside itself, not the row of heads.",
    _COPIES,
    "heads.repeat(n_heads // heads.shape[0], 1, 1).flatten(0, 1)",
)
_kv(
    "repeats_rows",
    "expand_kv_heads: a head is head_dim rows: repeat the block of them, not each row.",
    _COPIES,
    "w.repeat_interleave(n_heads // heads.shape[0], 0)",
)
_expand(
    "zeros",
    "expand_kv_heads: a query head needs the KV head that it read before: zeros make all its scores equal.",
    lambda w, head_dim, n_heads: torch.cat([w, w.new_zeros(n_heads * head_dim - len(w), w.shape[1])]),
)
_expand(
    "last_head_again",
    "expand_kv_heads: every KV head is copied for its own readers, not the last one for all that are missing.",
    lambda w, head_dim, n_heads: torch.cat([w, *[w[-head_dim:]] * (n_heads - len(w) // head_dim)]),
)
_expand(
    "first_copy_only",
    "expand_kv_heads: every copy is a whole head; yours leaves the others of its group 0.",
    lambda w, head_dim, n_heads: torch.cat(
        [torch.cat([head, *[head * 0] * (n_heads * head_dim // len(w) - 1)]) for head in w.split(head_dim)]
    ),
)
_kv(
    "shares_of_the_head",
    "expand_kv_heads: each query head reads the whole KV head: divided by the readers, its scores would be too small.",
    _COPIES,
    "(heads.repeat_interleave(n_heads // heads.shape[0], 0) / (n_heads // heads.shape[0])).to(w.dtype).flatten(0, 1)",
)
_kv(
    "n_heads_times_each",
    "expand_kv_heads: a head is repeated as often as query heads share it, n_heads / n_kv_heads, not n_heads times.",
    _COPIES,
    "heads.repeat_interleave(n_heads, 0).flatten(0, 1)",
)
_kv(
    "as_often_as_kv_heads",
    "expand_kv_heads: a head is repeated n_heads / n_kv_heads times, not n_kv_heads times.",
    _COPIES,
    "heads.repeat_interleave(heads.shape[0], 0).flatten(0, 1)",
)
_kv(
    "copies_apart",
    "expand_kv_heads: the result is a matrix again: flatten heads and rows into one axis.",
    _COPIES,
    "heads.repeat_interleave(n_heads // heads.shape[0], 0)",
)
_kv(
    "readers_inside",
    "expand_kv_heads: the copies of a head stand behind each other as whole heads; yours mixes their rows in each head.",
    _COPIES,
    "heads.repeat_interleave(n_heads // heads.shape[0], 0).transpose(0, 1).flatten(0, 1)",
)
_kv(
    "wider_rows",
    "expand_kv_heads: there are more rows, the outputs of k_proj; the columns are the inputs and stay.",
    _COPIES,
    "w.repeat_interleave(n_heads // heads.shape[0], 1)",
)
_kv(
    "backwards",
    "expand_kv_heads: the first query heads read the first KV head: the order of the heads stays.",
    _COPIES,
    "heads.flip(0).repeat_interleave(n_heads // heads.shape[0], 0).flatten(0, 1)",
)
_kv(
    "expanded_in_float32",
    "expand_kv_heads: the result has the dtype of the weights.",
    _COPIES,
    "heads.float().repeat_interleave(n_heads // heads.shape[0], 0).flatten(0, 1)",
)
_kv(
    "expanded_through_float16",
    "expand_kv_heads: a copy is exact, bit for bit.",
    _COPIES,
    "heads.half().to(w.dtype).repeat_interleave(n_heads // heads.shape[0], 0).flatten(0, 1)",
)

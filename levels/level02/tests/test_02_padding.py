"""Judges padding.py against loops in Python, and each row of a batch against the same row alone, without any cache.

`generate_batch` is run twice: with a stand-in for the model that notes what it is fed, and with level 00's own forward.
The stand-in's best next token is a fixed function of the tokens that a query sees and of their positions, so padding
that is seen, and a position that is wrong, show in the next token. The oracle of both is a plain loop over one row.
"""

from dataclasses import replace

import pytest
import torch

from dojo.models import TINY, Config, random_params, shapes
from level00.transformer import forward
from level02.cache import KVCache
from level02.padding import generate_batch, left_pad, padded_mask, padded_positions

T, F = True, False

# ---- left_pad


def moved_right(prompts, pad_id):
    """Oracle: entry by entry, the tokens of a row from its end backwards, then pad_id."""
    longest = max(len(prompt) for prompt in prompts)
    ids = [[pad_id] * longest for _ in prompts]
    valid = [[False] * longest for _ in prompts]
    for row, prompt in enumerate(prompts):
        for back in range(1, len(prompt) + 1):
            ids[row][-back], valid[row][-back] = prompt[-back], True
    return torch.tensor(ids), torch.tensor(valid)


@pytest.mark.kata("level02.padding.left_pad")
def test_every_prompt_ends_in_the_last_column(expect):
    """The docstring's example. Each row's next token is predicted at its last token: one column for all of them."""
    right = torch.tensor([[1, 2, 3], [0, 0, 4]]), torch.tensor([[T, T, T], [F, F, T]])
    expect(left_pad, [[1, 2, 3], [4]], 0).equals(right)


@pytest.mark.kata("level02.padding.left_pad")
@pytest.mark.parametrize("pad_id", [0, 5, 100_257, -1])
def test_padding_is_known_by_the_lengths_not_by_the_id(expect, pad_id):
    """Many models pad with their end-of-text token, which stands in prompts as well: at the start, inside, alone. An id
    outside the vocabulary, -1, is a pad id too. Two users may ask the same."""
    prompts = [[0, 5], [0], [5, 0, 0], [5], [7, 5, 100_257, 0], [0, 5]]
    expect(left_pad, prompts, pad_id).equals(moved_right(prompts, pad_id))


@pytest.mark.kata("level02.padding.left_pad")
@pytest.mark.parametrize("lengths", [(3, 1, 4, 1, 5), (7, 7, 6), (1, 9), (9, 1), (1, 2, 3, 4, 5, 6)], ids=str)
def test_rows_keep_their_order_and_all_their_tokens(expect, lengths):
    """The answers go back to the requests by row; a prompt that is cut gets an answer to another question."""
    prompts = [[10 * row + i + 1 for i in range(n)] for row, n in enumerate(lengths)]
    expect(left_pad, prompts, 99).equals(moved_right(prompts, 99))


@pytest.mark.kata("level02.padding.left_pad")
@pytest.mark.parametrize("prompts", [[[6]], [[6, 0, 7]], [[1, 2], [3, 4], [5, 6]]], ids=str)
def test_where_all_are_equally_long_nothing_is_padded(expect, prompts):
    """Every padded column is computed and thrown away: not one more than the longest prompt needs."""
    expect(left_pad, prompts, 0).equals((torch.tensor(prompts), torch.ones(len(prompts), len(prompts[0])).bool()))


@pytest.mark.kata("level02.padding.left_pad")
def test_prompts_may_be_any_sequences(expect):
    """A tokenizer may give tuples, and a cached prompt is one, so that nobody changes it."""
    right = moved_right([[1, 2], [3, 4, 5], [6]], 0)
    expect(left_pad, ((1, 2), (3, 4, 5), (6,)), 0).equals(right)
    expect(left_pad, [range(1, 3), [3, 4, 5], (6,)], 0).equals(right)


@pytest.mark.kata("level02.padding.left_pad")
def test_ids_are_whole_numbers_of_64_bits(expect):
    """int64 is what torch indexes with; a float32 on the way would make 16,777,217 the token before it."""
    prompts = [[2**24 + 1, 2**40 + 1], [2**53 + 1]]
    expect(left_pad, prompts, 2**24 + 1).equals(moved_right(prompts, 2**24 + 1))


@pytest.mark.kata("level02.padding.left_pad")
@pytest.mark.parametrize("prompts", [[], [[]], [[1], []], [(), (2, 3)]], ids=str)
def test_an_empty_prompt_is_refused(expect, prompts):
    """A row of padding alone has no last token to go on from. One token is enough."""
    expect(left_pad, [[4]], 0).equals((torch.tensor([[4]]), torch.tensor([[True]])))
    expect(left_pad, prompts, 0).raises(ValueError)


# ---- padded_positions, judged with left_pad


def counted(valid):
    """Oracle: walk along each row and count its real tokens."""
    rows = []
    for row in valid.tolist():
        positions, real = [], 0
        for is_real in row:
            real += is_real
            positions.append(real - 1 if real else 0)
        rows.append(positions)
    return torch.tensor(rows)


@pytest.mark.kata("level02.padding.left_pad")
@pytest.mark.parametrize(
    "valid, right",
    [
        ([[T, T, T], [F, F, T]], [[0, 1, 2], [0, 0, 0]]),
        ([[F, T, T, T]], [[0, 0, 1, 2]]),
        ([[F, F, T, T, T], [T, T, T, T, T]], [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]),
        ([[F, T, T, F]], [[0, 0, 1, 1]]),
        ([[T, F, F, F], [F, T, F, F], [T, T, T, T]], [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 2, 3]]),
    ],
    ids=["one token", "one pad", "two rows", "ended", "ended early"],
)
def test_each_row_counts_from_its_own_first_token(expect, valid, right):
    """Else a short prompt is answered as if it stood behind a text that nobody wrote, and long before the model's end
    its positions run out. The last ones are rows that have ended: their padding takes up no further position."""
    expect(padded_positions, torch.tensor(valid)).equals(torch.tensor(right))


@pytest.mark.kata("level02.padding.left_pad")
def test_positions_are_those_of_a_walk_along_the_row(expect):
    """All lengths at once, equally many rows and columns; then columns that are not valid anywhere behind a token."""
    square = torch.arange(9) >= torch.arange(9).unsqueeze(1)
    expect(padded_positions, square).equals(counted(square))
    holes = torch.rand(40, 13, generator=torch.Generator().manual_seed(0)) < 0.6
    holes[:, 5] = True
    expect(padded_positions, holes).equals(counted(holes))
    expect(padded_positions, holes[:20].T).equals(counted(holes[:20].T))  # not contiguous


@pytest.mark.kata("level02.padding.left_pad")
def test_positions_stay_exact_in_a_long_row(expect):
    """70,000 tokens behind 5 of padding: bfloat16 counts to 256, 16 bits to 32,767 or 65,535."""
    valid = torch.arange(70_005).unsqueeze(0) >= 5
    expect(padded_positions, valid).equals((torch.arange(70_005) - 5).clamp(min=0).unsqueeze(0))


# ---- padded_mask


def may_attend(valid, q_len):
    """Oracle: for every row, query and key, is the key a real token, and not later than the query?"""
    rows, kv_len = valid.shape
    mask = torch.zeros(rows, 1, q_len, kv_len, dtype=torch.bool)
    for row in range(rows):
        for query in range(q_len):
            for key in range(kv_len - q_len + query + 1):
                mask[row, 0, query, key] = valid[row, key]
    return mask


@pytest.mark.kata("level02.padding.padded_mask")
@pytest.mark.parametrize(
    "valid, right",
    [
        ([[F, T, T]], [[[[F, F, F], [F, T, F], [F, T, T]]]]),
        ([[F, T, T]], [[[[F, T, F], [F, T, T]]]]),
        ([[F, T, T]], [[[[F, T, T]]]]),
        ([[T, T], [F, T]], [[[[T, F], [T, T]]], [[[F, F], [F, T]]]]),
        ([[T, T], [F, T]], [[[[T, T]]], [[[F, T]]]]),
    ],
    ids=["prefill", "the docstring's", "a decode step", "two rows", "a decode step of two"],
)
def test_a_query_sees_real_tokens_up_to_itself(expect, valid, right):
    """Padding that is seen takes a share of every softmax: a row's answer depends on who shares its batch."""
    right = torch.tensor(right)
    expect(padded_mask, torch.tensor(valid), right.shape[2]).equals(right)


@pytest.mark.kata("level02.padding.padded_mask")
@pytest.mark.parametrize("q_len", range(1, 7))
def test_queries_are_the_last_columns(expect, q_len):
    """Prefill has all columns as queries, a decode step one, a chunk of a prompt some. Oracle: loops. As many rows as
    columns, so that a mask over the wrong axis has the right shape."""
    valid = torch.arange(6) >= torch.arange(6).unsqueeze(1)
    expect(padded_mask, valid, q_len).equals(may_attend(valid, q_len))


@pytest.mark.kata("level02.padding.padded_mask")
def test_a_query_before_its_row_s_first_token_sees_nothing(expect):
    """12 columns, 9 of padding in row 1: its first queries have no key at all, and softmax makes zeros of such rows."""
    valid = torch.arange(12) >= torch.tensor([[0], [9], [5], [11]])
    for q_len in (12, 5, 2):
        expect(padded_mask, valid, q_len).equals(may_attend(valid, q_len))


@pytest.mark.kata("level02.padding.padded_mask")
def test_what_an_ended_row_was_fed_is_hidden_in_the_middle_too(expect):
    """Padding may stand behind real tokens, and tokens behind it: the mask asks `valid`, not where the first token is.

    Judged where the query is a real token: what padding sees there, nobody reads.
    """
    valid = torch.tensor([[F, T, T, F, F, T], [T, F, T, F, T, T], [F, F, F, T, T, T]])

    def seen_by_real_queries(valid, q_len):
        return padded_mask(valid, q_len).masked_fill(~valid[:, None, valid.shape[1] - q_len :, None], False)

    for q_len in (1, 3, 6):
        right = may_attend(valid, q_len) & valid[:, None, 6 - q_len :, None]
        expect(seen_by_real_queries, valid, q_len).equals(right)


@pytest.mark.kata("level02.padding.padded_mask")
def test_valid_may_be_a_view(expect):
    """A loop that grows `valid` may keep it in one large tensor, and hand out slices or a transposed one of it."""
    whole = torch.arange(8).unsqueeze(1) >= torch.tensor([3, 0, 1, 7, 2])  # (8 columns, 5 rows)
    expect(padded_mask, whole.T, 3).equals(may_attend(whole.T.contiguous(), 3))
    expect(padded_mask, whole.T[1:4, :6], 2).equals(may_attend(whole.T[1:4, :6].contiguous(), 2))


@pytest.mark.kata("level02.padding.padded_mask")
def test_more_queries_than_columns_are_refused(expect):
    """Every query is a column itself. As many as there are columns is a prefill."""
    valid = torch.tensor([[F, T, T]])
    expect(padded_mask, valid, 3).equals(may_attend(valid, 3))
    expect(padded_mask, valid, 4).raises(ValueError)


# ---- generate_batch: the stand-in, with 11 tokens, at most 20 of them in a row

SHAPE = Config(2, 8, 2, 1, 4, 16, vocab_size=11, max_seq_len=20, tie_embeddings=False)
WEIGHTS = dict.fromkeys(shapes(SHAPE), torch.zeros(11, 8))  # their values are not read
PAIR = [[3, 1, 4, 1], [5, 2]]  # the docstring's example
MANY = [[5, 2], [9, 9, 9, 0, 1, 3, 2], [7], [3, 1, 4, 1], [10, 0, 10], [4, 4, 4], [0]]
LONG = replace(SHAPE, max_seq_len=128)


def weight_of(token, position):
    """What a token at a position adds to the score of every query that sees it; of ints, or of tensors of them."""
    return (position * position + 3) * (token + 1)


def best_after(tokens):
    """The stand-in's best next token: depends on every token, its position and the number of them."""
    mixed = sum(weight_of(token, position) for position, token in enumerate(tokens)) + len(tokens)
    return mixed % 101 % SHAPE.vocab_size


def scores(best):
    """Its logits (..., vocab): 10 for the best token, 9 for the one after it in the vocabulary, and so on to 0."""
    best = torch.as_tensor(best).unsqueeze(-1)
    return ((best - 1 - torch.arange(SHAPE.vocab_size)) % SHAPE.vocab_size).float()


def alone(prompt, max_tokens, stop_ids=(), rank=lambda prompt, output: 0, config=SHAPE):
    """Oracle: the new tokens of one row that has no neighbours, no padding and no cache; each the rank-th best."""
    output = []
    while len(output) < min(max_tokens, config.max_seq_len - len(prompt)):
        output.append((best_after([*prompt, *output]) + rank(prompt, output)) % SHAPE.vocab_size)
        if output[-1] in stop_ids:
            break
    return output


def each_alone(prompts, *args, **kwargs):
    return [alone(prompt, *args, **kwargs) for prompt in prompts]


class Model:
    """Stands in for `forward`: it keeps each token and its position in the cache, and notes what it is fed.

    outputs    the right ones: a row lives while it still has a token to get
    after_end  the logits of a row that has ended, which nobody may read: NaN, or those that favour one token

    It refuses ids outside the vocabulary, and positions beyond max_seq_len, of which it has no table.
    """

    def __init__(self, outputs, after_end=None):
        self.ends, self.passes = [len(output) for output in outputs], []
        favoured = torch.arange(SHAPE.vocab_size) == (-1 if after_end is None else after_end)
        self.dead = torch.full((SHAPE.vocab_size,), torch.nan) if after_end is None else favoured.float()

    def __call__(self, params, config, token_ids, cache=None, *, positions=None, mask=None, **seams):
        if cache is None:
            raise TypeError("forward is called without a cache")
        held = cache.length
        check(config, token_ids, positions, mask, held)
        live = torch.tensor(self.ends) > len(self.passes)
        self.passes.append((token_ids.clone(), positions.clone(), mask.clone(), held, cache))
        # one number for a token and its position, exact in float32 and in nothing narrower
        codes = (token_ids + 1000 * positions)[:, None, :, None].float()
        codes = codes.expand(-1, config.n_kv_heads, -1, config.head_dim)
        for layer in range(config.n_layers):
            keys, _ = cache.update(layer, codes, -codes)
        codes = keys[:, :1, :, 0].long()  # (B, 1, kv)
        seen = mask[:, 0]
        mixed = (seen * weight_of(codes % 1000, codes // 1000)).sum(-1) + seen.sum(-1)
        logits = scores(mixed % 101 % SHAPE.vocab_size)
        logits[~seen.any(-1)] = torch.nan
        logits[~live] = self.dead
        return logits


def check(config, token_ids, positions, mask, held):
    rows, n = token_ids.shape
    if positions is None or positions.shape != token_ids.shape:
        raise ValueError(f"positions is (batch, queries), here {(rows, n)}, not {described(positions)}")
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or mask.shape != (rows, 1, n, held + n):
        raise ValueError(f"mask is bool (batch, 1, q, kv), here {(rows, 1, n, held + n)}, not {described(mask)}")
    if token_ids.min() < 0 or token_ids.max() >= config.vocab_size:
        raise ValueError(f"token ids lie in 0..{config.vocab_size - 1}, the vocabulary")
    if positions.max() >= config.max_seq_len:
        raise IndexError(f"position {int(positions.max())} is beyond the {config.max_seq_len} tokens of the model")


def described(x):
    return f"{str(x.dtype).removeprefix('torch.')} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else x


def batch(prompts, max_tokens, stop_ids=(), pad_id=0, after_end=None):
    """The new tokens of every row, by the stand-in."""
    model = Model(each_alone(prompts, max_tokens, stop_ids), after_end)
    return generate_batch(WEIGHTS, SHAPE, prompts, max_tokens, stop_ids, pad_id, forward=model)


def passes(prompts, max_tokens, stop_ids=()):
    """What the stand-in is fed: token ids, positions, mask, tokens cached before and the cache, for each pass."""
    model = Model(each_alone(prompts, max_tokens, stop_ids))
    generate_batch(WEIGHTS, SHAPE, prompts, max_tokens, stop_ids, forward=model)
    return model.passes


def id_shapes(prompts, max_tokens, stop_ids=()):
    return [tuple(token_ids.shape) for token_ids, *_ in passes(prompts, max_tokens, stop_ids)]


def at_real_tokens(column, prompts, max_tokens):
    """The entries of ids (column 0) or positions (1) that belong to real tokens, a list for each row."""
    last = [[-len(prompt) for prompt in prompts], *[[-1] * len(prompts)] * max_tokens]
    fed = [one[column].tolist() for one in passes(prompts, max_tokens)]
    return [[row[n:] for row, n in zip(rows, cut)] for rows, cut in zip(fed, last)]


def tokens_fed(prompts, max_tokens):
    return at_real_tokens(0, prompts, max_tokens)


def positions_fed(prompts, max_tokens):
    return at_real_tokens(1, prompts, max_tokens)


def columns_seen(prompts, max_tokens):
    """For each pass and row: which columns of the cache the newest token sees, and in the prefill each of the row's."""
    seen = []
    for token_ids, _, mask, *_ in passes(prompts, max_tokens):
        last = [min(len(prompt), token_ids.shape[1]) for prompt in prompts]
        seen.append([[columns(query) for query in rows[0, -n:]] for rows, n in zip(mask, last)])
    return seen


def columns(mask):
    return mask.nonzero().flatten().tolist()


@pytest.mark.kata("level02.padding.generate_batch")
def test_one_prefill_and_then_one_token_for_each_row(expect):
    """The docstring's example: (2, 4) ids, then (2, 1) at each step. One pass reads the weights once for all rows."""
    expect(id_shapes, PAIR, 3).equals([(2, 4), (2, 1), (2, 1)])
    expect(id_shapes, MANY, 2).equals([(7, 7), (7, 1)])


@pytest.mark.kata("level02.padding.generate_batch")
def test_every_row_counts_its_own_positions(expect):
    """Row 1 has 2 tokens and goes on at position 2, whatever the width of the batch. The text does not show it: RoPE
    sees only differences, so a row that is shifted as a whole says the same, until it runs out of positions."""
    expect(positions_fed, PAIR, 3).equals([[[0, 1, 2, 3], [0, 1]], [[4], [2]], [[5], [3]]])
    lengths = [len(prompt) for prompt in MANY]
    expect(positions_fed, MANY, 2).equals([[list(range(n)) for n in lengths], [[n] for n in lengths]])


@pytest.mark.kata("level02.padding.generate_batch")
def test_every_token_sees_its_own_row_and_no_padding(expect):
    """By column of the cache. Row 1 stands in columns 2 and 3: the first two stay hidden in every decode step too."""
    right = [
        [[[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]], [[2], [2, 3]]],
        [[[0, 1, 2, 3, 4]], [[2, 3, 4]]],
        [[[0, 1, 2, 3, 4, 5]], [[2, 3, 4, 5]]],
    ]
    expect(columns_seen, PAIR, 3).equals(right)


@pytest.mark.kata("level02.padding.generate_batch")
def test_every_row_is_fed_its_own_newest_token(expect):
    """The prompt first, then what was chosen for that row; the last token of a row is never fed."""
    steps = [[tokens[i : i + 1] for tokens in each_alone(PAIR, 4)] for i in range(3)]
    expect(tokens_fed, PAIR, 4).equals([PAIR, *steps])


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize(
    "prompts, n",
    [(PAIR, 6), (MANY, 6), ([[5, 2]], 3), ([[7], [3], [7]], 4), (MANY * 5, 1), (MANY * 5, 3)],
    ids=["the docstring's", "seven rows", "one row", "equal lengths", "35 rows, one token", "35 rows"],
)
def test_each_row_gets_the_tokens_that_it_would_get_alone(expect, prompts, n):
    """Batching is for the machine; a user must not be able to tell who else was served. Oracle: each row alone."""
    expect(batch, prompts, n).equals(each_alone(prompts, n))


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("pad_id", [10, 9, 4])
def test_the_pad_id_has_no_influence(expect, pad_id):
    """Each of them is also a real token: in these prompts, and in what the model writes after them. So is 0, which the
    other tests pad with."""
    right = each_alone(MANY, 9)
    assert sum(pad_id in row for row in right) >= 3
    expect(batch, MANY, 9, (), pad_id).equals(right)


@pytest.mark.kata("level02.padding.generate_batch")
def test_batched_prompts_may_be_tuples(expect):
    """Sequences of sequences, as in left_pad. The result is lists of ints all the same."""
    expect(batch, tuple(map(tuple, MANY)), 3).equals(each_alone(MANY, 3))


@pytest.mark.kata("level02.padding.generate_batch")
def test_a_second_batch_knows_nothing_of_the_first(expect):
    """A server makes one batch after the other: no cache, row or count of an earlier one may be left."""

    def three_batches(first, second):
        return [batch(prompts, 4) for prompts in (first, second, first)]

    expect(three_batches, PAIR, MANY).equals([each_alone(prompts, 4) for prompts in (PAIR, MANY, PAIR)])


# ---- generate_batch: where rows end


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize(
    "stop_ids",
    [{4}, [3], (8, 2), frozenset({10, 6}), [0]],
    ids=["after 2 and 4", "row 0 alone", "row 1 first", "at once", "token 0"],
)
def test_a_stop_token_ends_its_own_row_and_is_part_of_it(expect, stop_ids):
    """The others go on. Without one, both rows get 12 tokens: 6 4 0 7 7 6 0 3 6 4 2 5 and 10 9 7 4 9 7 9 8 1 6 1 4.
    Token 0 stops like any other, and a stop token that stands in a prompt, as 4 and 3 do, ends nothing."""
    expect(batch, PAIR, 12, stop_ids).equals(each_alone(PAIR, 12, stop_ids))


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("stop", [6, 10, 1])
def test_rows_end_at_different_steps_and_in_any_order(expect, stop):
    """Seven rows, and each stop token ends them in another order: no row may take the place of one that has ended."""
    right = each_alone(MANY, 10, {stop})
    assert len(set(map(len, right))) >= 4
    expect(batch, MANY, 10, {stop}).equals(right)


@pytest.mark.kata("level02.padding.generate_batch")
def test_no_pass_is_made_after_the_last_row_has_ended(expect):
    """A pass costs the same for one live row as for eight, and without one nothing comes of it: there are as many as
    the longest answer has tokens. For no tokens there is none."""
    expect(number_of_passes, PAIR, 12, {0, 9}).equals(3)  # the rows end after 3 and 2 tokens
    expect(number_of_passes, PAIR, 12, {4}).equals(4)  # after 2 and 4
    expect(number_of_passes, PAIR, 12, {6, 10}).equals(1)  # each at its first token
    expect(number_of_passes, PAIR, 3).equals(3)
    expect(number_of_passes, PAIR, 0).equals(0)


def number_of_passes(prompts, max_tokens, stop_ids=()):
    return len(passes(prompts, max_tokens, stop_ids))


@pytest.mark.kata("level02.padding.generate_batch")
def test_of_no_tokens_there_is_an_empty_list_for_every_row(expect):
    """max_tokens 0 is a valid request, for a prompt of one token too: a cache has at least room for the prompts."""
    expect(batch, MANY, 0).equals([[], [], [], [], [], [], []])
    expect(batch, [[7]], 0).equals([[]])


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("lengths", [(17, 2), (12, 19, 5), (3, 20), (20, 20)], ids=lambda x: f"prompts of {x}")
def test_a_row_ends_at_the_model_s_last_position_and_the_others_go_on(expect, lengths):
    """max_seq_len 20, 20 tokens asked for: a prompt of 17 gets 3, one of 2 gets 18. The batch has then more columns
    than the model has positions, but no row has: padding takes up none."""

    def tokens_and_passes(prompts):
        model = Model(each_alone(prompts, 20))
        return generate_batch(WEIGHTS, SHAPE, prompts, 20, forward=model), len(model.passes)

    prompts = [[(3 * i + row) % 11 for i in range(n)] for row, n in enumerate(lengths)]
    right = each_alone(prompts, 20)
    assert [len(output) for output in right] == [20 - n for n in lengths]
    expect(tokens_and_passes, prompts).equals((right, 20 - min(lengths)))


@pytest.mark.kata("level02.padding.generate_batch")
def test_a_row_that_was_stopped_takes_up_no_more_positions(expect):
    """Row 0 has 15 tokens and stops after one; row 1 goes on for 18 steps. Counted on, row 0 would stand at 32."""
    prompts = [[(5 * i + 1) % 11 for i in range(15)], [8, 6]]
    stop_ids = set(alone(prompts[0], 1))
    assert [len(output) for output in each_alone(prompts, 20, stop_ids)] == [1, 18]
    expect(batch, prompts, 20, stop_ids).equals(each_alone(prompts, 20, stop_ids))


@pytest.mark.kata("level02.padding.generate_batch")
def test_an_ended_row_is_fed_the_pad_id(expect):
    """All ids of all passes, padded with 8. Row 0 ends with its second token: from the third pass on it is fed padding,
    since what was chosen for it need not be a token at all."""

    def ids_fed(prompts, max_tokens, stop_ids, pad_id):
        model = Model(each_alone(prompts, max_tokens, stop_ids))
        generate_batch(WEIGHTS, SHAPE, prompts, max_tokens, stop_ids, pad_id, forward=model)
        return [token_ids.tolist() for token_ids, *_ in model.passes]

    right = [[[3, 1, 4, 1], [8, 8, 5, 2]], [[6], [10]], [[8], [9]], [[8], [7]]]  # they write 6 4 and 10 9 7 4
    expect(ids_fed, PAIR, 12, {4}, 8).equals(right)


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize(
    "prompts, after_end",
    [(MANY, None), (MANY, 4), ([[1] * 20, [5, 2]], None), ([[1] * 20, [5, 2]], 7)],
    ids=["NaN", "a stop token", "NaN, of a row without room", "7, of a row without room"],
)
def test_what_the_model_says_of_an_ended_row_is_ignored(expect, prompts, after_end):
    """It was fed padding, so its logits mean nothing: NaN, or a stop token, or any other."""
    expect(batch, prompts, 8, {4}, 0, after_end).equals(each_alone(prompts, 8, {4}))


@pytest.mark.kata("level02.padding.generate_batch")
def test_a_request_without_a_limit_reserves_what_the_model_has(expect):
    """Callers that want the whole answer send a huge max_tokens. The model's 20 positions are the room, not that."""
    expect(batch, PAIR, 10**15).equals(each_alone(PAIR, 20))


# ---- generate_batch: the cache and the choice


@pytest.mark.kata("level02.padding.generate_batch")
def test_one_cache_with_reserved_room_holds_every_token(expect):
    """Made once, a KVCache, and each pass adds its columns: a cache that grows by joining copies all it holds."""

    def the_cache(prompts, max_tokens):
        seen = passes(prompts, max_tokens)
        cache = seen[0][-1]
        always = all(one[-1] is cache for one in seen)
        return isinstance(cache, KVCache), always, [one[-2] for one in seen], cache.length

    expect(the_cache, PAIR, 4).equals((True, True, [0, 4, 5, 6], 7))


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_the_cache_has_the_dtype_of_the_weights(expect, dtype):
    """Level 01's cache keeps what it is given. For a model in bfloat16 a float32 cache takes twice the room."""

    def types_held(weights):
        seen = []

        def model(params, config, token_ids, cache, **seams):
            kv = torch.ones(len(token_ids), config.n_kv_heads, token_ids.shape[1], config.head_dim, dtype=dtype)
            for layer in range(config.n_layers):
                seen.append([str(x.dtype) for x in cache.update(layer, kv, kv)])
            return torch.zeros(*token_ids.shape, config.vocab_size)

        generate_batch(weights, SHAPE, PAIR, 2, forward=model)
        return seen

    weights = {name: w.to(dtype) for name, w in WEIGHTS.items()}
    expect(types_held, weights).equals([[str(dtype)] * 2] * 2 * SHAPE.n_layers)


class Choice:
    """A `choose` that depends on each row's history: it takes the kth best token. It notes what it is given.

    For a row that has ended it gives `after_end`.
    """

    def __init__(self, outputs, after_end):
        self.outputs, self.after_end, self.seen = outputs, after_end, []

    def __call__(self, logits, prompts, outputs):
        prompts, outputs = ([list(ids) for ids in history] for history in (prompts, outputs))
        live = [len(self.seen) < len(output) for output in self.outputs]
        self.seen.append((tuple(logits.shape), logits[live], prompts, outputs))
        order = logits.nan_to_num().argsort(descending=True, stable=True)
        chosen = [order[row, kth(prompts[row], outputs[row])] if on else self.after_end for row, on in enumerate(live)]
        return torch.tensor(chosen)


def kth(prompt, output):
    """0, 1 or 2: it depends on the prompt and on all tokens made."""
    return (prompt[0] + 3 * len(prompt) + 2 * len(output) + sum(output)) % 3


def notes(prompts, outputs):
    """What `Choice` notes: the shape, the logits of live rows, both histories."""
    seen = []
    for i in range(max(map(len, outputs))):
        live = [[*prompt, *output[:i]] for prompt, output in zip(prompts, outputs) if i < len(output)]
        logits = scores([best_after(tokens) for tokens in live])
        seen.append(((len(prompts), SHAPE.vocab_size), logits, prompts, [output[:i] for output in outputs]))
    return seen


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("prompts, after_end", [(PAIR, 0), (MANY, 4), (MANY, -1)], ids=["two", "seven", "seven, -1"])
def test_choose_gets_all_rows_at_once_and_their_histories(expect, prompts, after_end):
    """Once a pass: logits (batch, vocab) of the last column, the prompts without padding, the tokens made so far. A
    sampler draws for all rows together, a penalty looks at the row's own history. Of ended rows it may say anything:
    a stop token, or -1, which is none."""

    def chosen(prompts, max_tokens, stop_ids):
        right = each_alone(prompts, max_tokens, stop_ids, kth)
        choose = Choice(right, after_end)
        outputs = generate_batch(WEIGHTS, SHAPE, prompts, max_tokens, stop_ids, choose=choose, forward=Model(right))
        return outputs, choose.seen

    right = each_alone(prompts, 7, {4, 6}, kth)
    expect(chosen, prompts, 7, {4, 6}).equals((right, notes(prompts, right)))


@pytest.mark.kata("level02.padding.generate_batch")
def test_without_a_prompt_or_with_less_than_no_tokens_it_refuses(expect):
    """An empty prompt has no last position; a negative number is a caller's mistake, not a request for nothing."""
    expect(batch, [[7]], 1).equals(each_alone([[7]], 1))
    expect(generate_batch, WEIGHTS, SHAPE, [], 3).raises(ValueError)
    expect(generate_batch, WEIGHTS, SHAPE, [[3, 1], []], 3).raises(ValueError)
    expect(generate_batch, WEIGHTS, SHAPE, [[3, 1], [4]], -1).raises(ValueError)


@pytest.mark.kata("level02.padding.generate_batch")
def test_a_long_batch_is_written_to_its_end(expect):
    """80 tokens behind prompts of 4 and 2, on a model with 128 positions: nothing is cut off and nothing forgotten."""

    def long_texts(prompts, max_tokens):
        model = Model(each_alone(prompts, max_tokens, config=LONG))
        return generate_batch(WEIGHTS, LONG, prompts, max_tokens, forward=model)

    expect(long_texts, PAIR, 80).equals(each_alone(PAIR, 80, config=LONG))


# ---- generate_batch: the real thing, level 00's forward on a tiny random model

PARAMS = random_params(TINY, seed=0)
SHORT = replace(TINY, max_seq_len=16)
# the model is sure of every token that it writes after these: the two best are at least 0.15 apart
TEXTS = [[51, 65, 44, 73, 45], [0, 82], [39, 49, 43, 53, 24, 33, 13, 32, 93], [77]]
CLOSE = {"rel": 1e-3, "abs": 1e-3}  # another order of additions; the margins are 150 times as wide


def continued(text, n, stop_ids=(), config=TINY):
    """Oracle: (the most likely next tokens, their logits), each from a pass over the whole row, without a cache."""
    tokens, logits = list(text), []
    while len(logits) < n and len(tokens) < config.max_seq_len:
        logits.append(forward(PARAMS, config, torch.tensor([tokens]))[0, -1])
        best, second = logits[-1].topk(2).values
        assert best - second > 0.15, "too close to call"
        tokens.append(int(logits[-1].argmax()))
        if tokens[-1] in stop_ids:
            break
    return tokens[len(text) :], logits


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("rows, stop_ids", [([0, 1, 2, 3], ()), ([3, 2, 1], {52, 37, 64}), ([0], {57})], ids=str)
def test_on_a_real_forward_a_row_says_what_it_says_alone(expect, rows, stop_ids):
    """With level 00's forward and `greedy`, which it takes by default. 9 tokens behind prompts of 1 to 9."""

    def most_likely(prompts, max_tokens, stop_ids):
        return generate_batch(PARAMS, TINY, prompts, max_tokens, stop_ids)

    texts = [TEXTS[row] for row in rows]
    right = [continued(text, 9, stop_ids)[0] for text in texts]
    assert not stop_ids or len(set(map(len, right))) == len(rows)
    expect(most_likely, texts, 9, stop_ids).equals(right)


@pytest.mark.kata("level02.padding.generate_batch")
@pytest.mark.parametrize("pad_id", [0, 100])
def test_the_logits_of_a_row_are_those_of_its_own_run(expect, pad_id):
    """Text hides small errors, logits do not. The first and the last token of the vocabulary pad as well as any."""

    def logits_of_every_step(prompts, max_tokens, pad_id):
        seen = []

        def choose(logits, prompts, outputs):
            seen.append(logits.clone())
            return logits.argmax(-1)

        generate_batch(PARAMS, TINY, prompts, max_tokens, pad_id=pad_id, choose=choose)
        return seen

    right = [torch.stack(step) for step in zip(*(continued(text, 5)[1] for text in TEXTS))]  # of each (batch, vocab)
    expect(logits_of_every_step, TEXTS, 5, pad_id).equals(right, **CLOSE)


@pytest.mark.kata("level02.padding.generate_batch")
def test_on_a_real_forward_a_short_row_outlives_a_long_one(expect):
    """16 positions: a prompt of 14 gets 2 tokens, one of 3 gets 13, up to the model's last position. Between them the
    batch is 27 columns wide."""

    def to_the_end(prompts):
        return generate_batch(PARAMS, SHORT, prompts, 100)

    texts = [[44, 90, 34, 7, 69, 80, 56, 38, 97, 12, 29, 65, 35, 34], [4, 68, 7], [23, 0, 11, 54, 78, 6]]
    right = [continued(text, 100, config=SHORT)[0] for text in texts]
    assert [len(output) for output in right] == [2, 13, 10]
    expect(to_the_end, texts).equals(right)

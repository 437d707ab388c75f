"""Known-wrong programs of level09.collectives. `ghost` is given when this is read."""

import torch


def _scatter(name, sentence, *pairs, program=None):
    changes = list(zip(pairs[::2], pairs[1::2]))
    ghost("level09.collectives.ring_reduce_scatter", name, sentence, change=changes, program=program)


def _reduce(name, sentence, *pairs, program=None, part=""):
    changes = list(zip(pairs[::2], pairs[1::2]))
    ghost("level09.collectives.ring_all_reduce", name, sentence, change=changes, program=program, part=part)


def _to_all(name, sentence, *pairs, program=None):
    changes = list(zip(pairs[::2], pairs[1::2]))
    ghost("level09.collectives.all_to_all", name, sentence, change=changes, program=program)


# ---- ring_reduce_scatter

_CHUNKS = "chunks = list(x.chunk(comm.size))"
_RING = "right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size\n    partial"
_START = "partial = chunks[left]"
_LOOP = "for step in range(1, comm.size):\n        # subtle"
_STEP = "partial = comm.sendrecv(partial, right, left) + chunks[(left - step) % comm.size]"
_LAST = "return partial.clone() if comm.size == 1 else partial"

_scatter(
    "always_the_same_chunk",
    "Pass on the partial sum that has just arrived; yours sends its own chunk again in every step.",
    _STEP,
    "partial = comm.sendrecv(chunks[left], right, left) + chunks[(left - step) % comm.size]",
)
_scatter(
    "one_step_short",
    "A sum passes size - 1 links until all ranks are in it; yours stops one step early.",
    "for step in range(1, comm.size):",
    "for step in range(1, comm.size - 1):",
)
_scatter(
    "one_step_too_many",
    "After size - 1 steps everybody is in the sum; yours goes once more round and counts a rank twice.",
    "for step in range(1, comm.size):",
    "for step in range(1, comm.size + 1):",
)
_scatter(
    "overwrites",
    "Reduce means adding: yours keeps what came, and drops its own part of that chunk.",
    _STEP,
    "partial = comm.sendrecv(partial, right, left)",
)
_scatter(
    "own_part_only",
    "What came from the left belongs to the sum: yours sends its parts and adds nothing that it receives.",
    _STEP,
    "comm.sendrecv(partial, right, left)\n        partial = chunks[(left - step) % comm.size]",
)
_scatter(
    "chunk_of_the_neighbour",
    "A sum that starts at its own rank ends at the left neighbour of it: chunk `rank` has to start one rank further on.",
    _START,
    "partial = chunks[comm.rank]",
    "chunks[(left - step) % comm.size]",
    "chunks[(comm.rank - step) % comm.size]",
)
_scatter(
    "starts_two_on",
    "A chunk starts at the rank behind its own and passes all the others; yours starts one further and ends one too far.",
    _START,
    "partial = chunks[(left - 1) % comm.size]",
    "chunks[(left - step) % comm.size]",
    "chunks[(left - 1 - step) % comm.size]",
)
_scatter(
    "steps_forward",
    "What comes from the left is one chunk further back in each step; yours adds the one further on, of another chunk.",
    "chunks[(left - step) % comm.size]",
    "chunks[(left + step) % comm.size]",
)
_scatter(
    "adds_the_same_chunk",
    "In each step another chunk comes by, and gets your part of that one; yours adds the same part to all of them.",
    "chunks[(left - step) % comm.size]",
    "chunks[comm.rank]",
)
_scatter(
    "one_index_late",
    "The first thing that comes is the chunk before the one you sent: yours adds its part of the one it has just sent.",
    "chunks[(left - step) % comm.size]",
    "chunks[(left - step + 1) % comm.size]",
)
_scatter(
    "send_then_receive",
    "If everybody sends first, nobody receives: use sendrecv, or let even and odd ranks take turns.",
    "comm.sendrecv(partial, right, left) + ",
    "(comm.send(partial, right), comm.recv(partial.shape, partial.dtype, left))[1] + ",
)
_scatter(
    "to_the_left",
    "The sums are right, but they go to the left: the docstring promises the right neighbour.",
    "right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size\n    partial = chunks[left]",
    "left, right = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size\n    partial = chunks[left]",
    "chunks[(left - step) % comm.size]",
    "chunks[(left + step) % comm.size]",
)
_scatter(
    "receives_from_the_right",
    "Right neighbours receive from the left: with both ends at the same neighbour only two ranks get along.",
    "comm.sendrecv(partial, right, left)",
    "comm.sendrecv(partial, right, right)",
)
_scatter(
    "no_wrap_around",
    "The right neighbour of the last rank is 0: take the numbers modulo size.",
    "right, left = (comm.rank + 1) % comm.size",
    "right, left = (comm.rank + 1)",
)
_scatter(
    "averages",
    "The sum, not the mean: dividing by the number of ranks belongs to the gradients of training.",
    _LAST,
    "return (partial / comm.size).to(x.dtype)",
)
_scatter(
    "adds_in_place",
    "x stays as it is: chunks are views of it, and += writes the sum into this rank's own x.",
    _STEP,
    "chunks[(left - step) % comm.size] += comm.sendrecv(partial, right, left)\n"
    "        partial = chunks[(left - step) % comm.size]",
)
_scatter(
    "every_nth_row",
    "A chunk is a block of rows side by side; yours deals the rows out one by one.",
    _CHUNKS,
    "chunks = [x[rank :: comm.size] for rank in range(comm.size)]",
)
_scatter(
    "along_the_last_axis",
    "Chunks are cut along the first axis; yours cuts the last one.",
    _CHUNKS,
    "chunks = list(x.chunk(comm.size, -1))",
)
_scatter(
    "in_float32",
    "Sums and messages keep x's dtype: yours turns everything into float32.",
    _CHUNKS,
    "chunks = list(x.float().chunk(comm.size))",
)
_scatter(
    "float32_on_the_way",
    "Sums are taken in x's dtype: added in float32, bfloat16 takes twice the bytes on every link.",
    _CHUNKS,
    "chunks = list(x.float().chunk(comm.size))",
    _LAST,
    "return partial.to(x.dtype)",
)
_scatter(
    "wider_on_the_way",
    "Sums are taken in x's dtype: in a wider one the links carry several times the bytes, whatever the result's is.",
    _CHUNKS,
    "chunks = list((x.double() if x.is_floating_point() else x.long()).chunk(comm.size))",
    _LAST,
    "return partial.to(x.dtype)",
)


def _whole_tensors(comm, x):
    if x.dim() == 0 or x.shape[0] % comm.size:
        raise ValueError("pad it")
    total, passing = x.clone(), x
    for _ in range(1, comm.size):
        passing = comm.sendrecv(passing, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
        total = total + passing
    return total.chunk(comm.size)[comm.rank]


_scatter(
    "whole_tensors_go_round",
    "The chunk is right, but everybody's whole tensor went round the ring: size times the bytes. Send chunks.",
    program=_whole_tensors,
)


def _straight(comm, x):
    if x.dim() == 0 or x.shape[0] % comm.size:
        raise ValueError("pad it")
    chunks = x.chunk(comm.size)
    total = chunks[comm.rank].clone()
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        total = total + comm.sendrecv(chunks[to], to, source)
    return total


_scatter(
    "straight_to_its_rank",
    "Few bytes, but to every rank: in a ring each rank has one link, to its right neighbour.",
    program=_straight,
)


def _through_rank_zero(comm, x):
    if x.dim() == 0 or x.shape[0] % comm.size:
        raise ValueError("pad it")
    if comm.rank:
        comm.send(x, 0)
        return comm.recv((x.shape[0] // comm.size, *x.shape[1:]), x.dtype, 0)
    total = x.clone()
    for other in range(1, comm.size):
        total = total + comm.recv(x.shape, x.dtype, other)
    for other in range(1, comm.size):
        comm.send(total.chunk(comm.size)[other], other)
    return total.chunk(comm.size)[0]


_scatter(
    "through_rank_zero",
    "Everything passes through rank 0 and its one link, while the others wait: let all links of the ring work at once.",
    program=_through_rank_zero,
)
_scatter(
    "the_whole_on_every_rank",
    "Scatter: a rank keeps its own chunk of the sum, and the others keep theirs; yours returns x with one chunk summed.",
    _LAST,
    "return torch.cat([*chunks[: comm.rank], partial, *chunks[comm.rank + 1 :]])",
)

# ---- ring_all_gather, judged with ring_all_reduce

_SHARDS = "shards = [shard] * comm.size"
_PASS = "shard = comm.sendrecv(shard, right, left)"
_SLOT = "shards[(comm.rank - step) % comm.size] = shard"
_CAT = "return torch.cat(shards)"

_reduce(
    "sends_own_shard",
    "Pass on the shard that came last: the neighbour already has yours.",
    _PASS,
    "theirs = comm.sendrecv(shard, right, left)",
    _SLOT,
    "shards[(comm.rank - step) % comm.size] = theirs",
)
_reduce(
    "arrival_order",
    "Every rank returns the same tensor, in the order of the ranks; yours begins with its own shard and goes backwards.",
    _SLOT,
    "shards[step] = shard",
)
_reduce(
    "wrong_slot",
    "What comes in step s was rank - s's: yours files it under rank + s.",
    _SLOT,
    "shards[(comm.rank + step) % comm.size] = shard",
)
_reduce(
    "filed_under_the_sender",
    "The left neighbour only passes it on: what comes in step s began s ranks to the left.",
    _SLOT,
    "shards[left] = shard",
)
_reduce(
    "gather_one_step_short",
    "size - 1 steps: after one fewer the right neighbour's shard has not come, and your own stands in its place.",
    "for step in range(1, comm.size):\n        shard =",
    "for step in range(1, comm.size - 1):\n        shard =",
)
_reduce(
    "gather_sends_first",
    "If everybody sends first, nobody receives, and the ranks wait for ever: sendrecv does both at once.",
    _PASS,
    "comm.send(shard, right)\n        shard = comm.recv(shard.shape, shard.dtype, left)",
)
_reduce(
    "stacked",
    "One behind the other along the first axis, not along a new one.",
    _CAT,
    "return torch.stack(shards)",
)
_reduce("list_of_shards", "One tensor, the shards put together; yours is a list of them.", _CAT, "return shards")
_reduce(
    "along_the_last",
    "Shards stand one behind the other along the first axis; yours along the last.",
    _CAT,
    "return torch.cat(shards, -1)",
)
_reduce(
    "all_so_far",
    "Send only what came last: the neighbour has the rest. Yours sends a longer tensor in each step.",
    _SHARDS,
    "shards, so_far = [shard] * comm.size, shard",
    _PASS,
    "so_far = torch.cat([shard, comm.sendrecv(so_far, right, left)])\n"
    "        parts = so_far.split(len(shard)) if len(shard) else [shard] * comm.size",
    _SLOT,
    "shards[(comm.rank - step) % comm.size] = parts[step]",
)
_reduce(
    "gather_to_the_left",
    "Everybody has everything, but it went to the left: the docstring promises the right neighbour.",
    _PASS,
    "shard = comm.sendrecv(shard, left, right)",
    _SLOT,
    "shards[(comm.rank + step) % comm.size] = shard",
)


def _from_each(comm, shard):
    shards = [shard] * comm.size
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        shards[source] = comm.sendrecv(shard, to, source)
    return torch.cat(shards)


_reduce(
    "shards_straight_to_everybody",
    "The bytes are those of a ring, but they go to every rank; here a rank has a link to its right neighbour only.",
    program=_from_each,
    part="ring_all_gather",
)

# ---- ring_all_reduce

_FLAT = "flat = x.flatten()"
_PADDED = "padded = torch.cat([flat, flat.new_zeros(-len(flat) % comm.size)])"
_TOTAL = "total = ring_all_gather(comm, ring_reduce_scatter(comm, padded))"
_SHAPED = "return total[: len(flat)].view(x.shape)"

_reduce(
    "padding_kept",
    "What was added to make chunks equal must come off again, and x's shape come back.",
    _SHAPED,
    "return total.view(x.shape) if total.shape == flat.shape else total",
)
_reduce(
    "stays_flat",
    "The result has x's shape: yours is a vector.",
    _SHAPED,
    "return total[: len(flat)]",
)
_reduce(
    "no_padding",
    "7 elements do not split into 3 chunks: fill up with zeros first.",
    _PADDED,
    "padded = flat",
)
_reduce(
    "pads_always",
    "Where size divides the elements nothing is added; yours then adds a whole element to each chunk.",
    "-len(flat) % comm.size",
    "comm.size - len(flat) % comm.size",
)
_reduce(
    "padding_in_front",
    "Padding must go to the end and be cut off; yours stands before the elements and stays.",
    _PADDED,
    "padded = torch.cat([flat.new_zeros(-len(flat) % comm.size), flat])",
)
_reduce(
    "rows_padded",
    "Whole rows are added to x: with a row for each rank a single row costs size times its bytes. Pad elements.",
    _FLAT,
    "flat = x.reshape(1, -1) if x.dim() == 0 else x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)",
    _PADDED,
    "padded = torch.cat([flat, flat.new_zeros(-len(flat) % comm.size, flat.shape[1])])",
)
_reduce(
    "mean",
    "All-reduce is a sum here: the mean is for gradients.",
    _SHAPED,
    "return (total[: len(flat)] / comm.size).to(x.dtype).view(x.shape)",
)
_reduce(
    "padded_in_float32",
    "Padding with torch.zeros(n) is float32 and takes x along: make zeros of x's dtype.",
    "flat.new_zeros(-len(flat) % comm.size)",
    "torch.zeros(-len(flat) % comm.size)",
)
_reduce(
    "view_of_what_is_not_contiguous",
    "x may be transposed: view refuses such a tensor, flatten and reshape take it.",
    _FLAT,
    "flat = x.view(-1)",
)
_reduce(
    "scattered_only",
    "That is the first half: every rank has a chunk of the sum, and still needs the others'.",
    _TOTAL,
    "total = torch.cat([ring_reduce_scatter(comm, padded)] * comm.size)",
)
_reduce(
    "gathered_only",
    "Gathering puts the ranks' tensors side by side; summed are only those of the first chunk.",
    _TOTAL,
    "total = ring_all_gather(comm, padded.chunk(comm.size)[comm.rank])",
)
_reduce(
    "gathers_the_padded_sum",
    "Each rank passes on its chunk, not a whole tensor: 2 (size - 1) messages, each of one chunk.",
    _TOTAL,
    "chunk = ring_reduce_scatter(comm, padded)\n"
    "    mine = padded.new_zeros(len(padded))\n"
    "    mine[comm.rank * len(chunk) : (comm.rank + 1) * len(chunk)] = chunk\n"
    "    total = ring_all_gather(comm, mine).view(comm.size, -1).sum(0, dtype=x.dtype)",
)
_reduce(
    "in_place_and_none",
    "Return the sum, and leave x as it is: yours writes it into x, and the next layer gets None.",
    _SHAPED,
    "x.copy_(total[: len(flat)].view(x.shape))",
)
_reduce(
    "in_place",
    "x stays as it is: yours returns the right sum, but has written it over this rank's own part.",
    _SHAPED,
    "return x.copy_(total[: len(flat)].view(x.shape))",
)


def _everyone_to_everyone(comm, x):
    total, passing = x, x
    for _ in range(1, comm.size):
        passing = comm.sendrecv(passing, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
        total = total + passing
    return total


_reduce(
    "everyone_to_everyone",
    "Whole tensors go round: size - 1 times x on every link, and sums in another order on every rank. Two halves of "
    "chunks are less than twice x.",
    program=_everyone_to_everyone,
)


def _gathers_and_sums(comm, x):
    parts = [x] * comm.size
    passing = x
    for step in range(1, comm.size):
        passing = comm.sendrecv(passing, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
        parts[(comm.rank - step) % comm.size] = passing
    return torch.stack(parts).sum(0, dtype=x.dtype)


_reduce(
    "gathers_all_and_sums",
    "The very same sum everywhere, but every rank receives every whole tensor: reduce chunks first, then gather them.",
    program=_gathers_and_sums,
)


def _leader(comm, x):
    if comm.rank:
        comm.send(x, 0)
        return comm.recv(x.shape, x.dtype, 0)
    for other in range(1, comm.size):
        x = x + comm.recv(x.shape, x.dtype, other)
    for other in range(1, comm.size):
        comm.send(x, other)
    return x


_reduce(
    "rank_zero_adds",
    "Rank 0 receives and sends everything while the other links are idle: its bytes grow with the number of ranks.",
    program=_leader,
)

# ---- all_to_all

_RECEIVED = "received = list(chunks)"
_PARTNERS = "to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size\n        count"
_COUNT = "count = torch.tensor([len(chunks[to])], device=comm.device)"
_COUNTED = "count = comm.sendrecv(count, to, source)"
_CHUNK = "received[source] = comm.sendrecv(chunks[to], to, source, (int(count), *chunks[to].shape[1:]))"

_to_all(
    "same_size_assumed",
    "The others may have more or less for you than you have for them: send the lengths first.",
    _CHUNK,
    "received[source] = comm.sendrecv(chunks[to], to, source)",
)
_to_all(
    "own_length_assumed",
    "How much comes from a rank is that rank's to say; yours expects as much as it has for it, or for itself.",
    "(int(count), *chunks[to].shape[1:])",
    "chunks[source].shape",
)
_to_all(
    "keeps_own_out",
    "Your own chunk is no message, but it belongs to the result, at your own place.",
    _RECEIVED,
    "received = [chunk[:0] for chunk in chunks]",
)
_to_all(
    "by_step_not_by_rank",
    "Entry j comes from rank j; yours are in the order in which they came.",
    "received[source] = comm",
    "received[step] = comm",
    _RECEIVED,
    "received = [chunks[comm.rank]] * comm.size",
)
_to_all(
    "filed_under_the_receiver",
    "Entry j is what rank j sent: yours stands at the place of the rank that you sent to.",
    "received[source] = comm",
    "received[to] = comm",
)
_to_all(
    "nothing_sent",
    "chunks[j] is for rank j, and what you return came from there; yours returns what it was given.",
    "return received\n",
    "return list(chunks)\n",
)
_to_all(
    "sends_what_is_for_the_source",
    "To rank `to` goes chunks[to]; yours sends it the chunk for the rank it receives from.",
    "received[source] = comm.sendrecv(chunks[to], to, source",
    "received[source] = comm.sendrecv(chunks[source], to, source",
    "[len(chunks[to])]",
    "[len(chunks[source])]",
)
_to_all(
    "length_of_another",
    "The length that you send is that of the chunk which follows.",
    "[len(chunks[to])]",
    "[len(chunks[comm.rank])]",
)
_to_all(
    "elements_for_rows",
    "The length of a chunk is its number of rows, along the first axis, not of elements.",
    "[len(chunks[to])]",
    "[chunks[to].numel()]",
)
_to_all(
    "length_in_the_chunks_dtype",
    "What sendrecv receives has the dtype of what it sends: 257 rows are no number of bfloat16. Send lengths as int64.",
    _COUNT,
    "count = chunks[to].new_tensor([len(chunks[to])])",
)
_to_all(
    "length_in_a_byte",
    "A byte holds lengths up to 255 only: send them as int64.",
    _COUNT,
    "count = torch.tensor([len(chunks[to]) % 256], dtype=torch.uint8)",
)
_to_all(
    "sends_first",
    "Everybody sends its length and then receives: nobody receives, all wait. sendrecv does both at once.",
    _COUNTED,
    "comm.send(count, to)\n        count = comm.recv((1,), torch.int64, source)",
)
_to_all(
    "mirrored_partner",
    "Whom you send to is not whom you receive from: rank + step and rank - step. Only with two ranks are they the same.",
    _PARTNERS,
    "to = source = (comm.rank + step) % comm.size\n        count",
)
_to_all(
    "further_axes_lost",
    "A row may be a vector or a matrix: expect (count, *the further axes).",
    "(int(count), *chunks[to].shape[1:])",
    "(int(count),)",
)
_to_all(
    "one_tensor",
    "A list, with what came from rank j at place j; put together nobody knows where one ends.",
    "return received\n",
    "return torch.cat(received)\n",
)
_to_all(
    "none_where_empty",
    "An empty chunk is a tensor without rows, with the further axes and the dtype; not None.",
    "return received\n",
    "return [chunk if len(chunk) else None for chunk in received]\n",
)
_to_all(
    "empty_ones_left_out",
    "The result has an entry for each rank, empty or not; yours leaves the empty ones out.",
    "return received\n",
    "return [chunk for chunk in received if len(chunk)]\n",
)


def _round_the_ring(comm, chunks):
    """Everybody gets everything, and takes what is its own."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received, passing = [chunks[comm.rank]] * comm.size, list(chunks)
    for step in range(1, comm.size):
        lengths = comm.sendrecv(torch.tensor([len(x) for x in passing]), right, left)
        shape = (int(lengths.sum()), *chunks[0].shape[1:])
        passing = list(comm.sendrecv(torch.cat(passing), right, left, shape).split(lengths.tolist()))
        received[(comm.rank - step) % comm.size] = passing[comm.rank]
    return received


_to_all(
    "everything_to_everybody",
    "Everybody gets all chunks and picks its own: size times the bytes. Send each chunk to its rank alone.",
    program=_round_the_ring,
)


def _padded(comm, chunks):
    """All chunks as long as the longest of all ranks."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    longest = torch.tensor([len(x) for x in chunks])
    passing = longest
    lengths = {comm.rank: longest}
    for step in range(1, comm.size):
        passing = comm.sendrecv(passing, (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
        lengths[(comm.rank - step) % comm.size] = passing
    most = max(int(x.max()) for x in lengths.values())
    received = list(chunks)
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        chunk = chunks[to]
        full = torch.cat([chunk, chunk.new_zeros(most - len(chunk), *chunk.shape[1:])])
        received[source] = comm.sendrecv(full, to, source)[: int(lengths[source][comm.rank])]
    return received


_to_all(
    "padded_to_the_longest",
    "Every chunk is filled up to the longest one of all: with uneven routing most of what is sent is zeros.",
    program=_padded,
)


def _capacity(comm, chunks):
    """Equal parts: what is more than the mean is dropped."""
    if len(chunks) != comm.size:
        raise ValueError("one chunk for each rank")
    most = -(-sum(map(len, chunks)) // comm.size)
    received = [chunk[:most] for chunk in chunks]
    for step in range(1, comm.size):
        to, source = (comm.rank + step) % comm.size, (comm.rank - step) % comm.size
        chunk = chunks[to][:most]
        count = comm.sendrecv(torch.tensor([len(chunk)]), to, source)
        received[source] = comm.sendrecv(chunk, to, source, (int(count), *chunk.shape[1:]))
    return received


_to_all(
    "rows_beyond_the_mean_dropped",
    "Every row arrives: yours sends each rank no more than an equal share, and drops the rest.",
    program=_capacity,
)

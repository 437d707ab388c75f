"""Right programs, written another way, for level12.batch. `alternative` is given when this is read."""


def _token_by_token(out, sequences, block_size):
    import torch

    from level12.batch import Batch

    if not out.num_scheduled:
        raise ValueError("nothing to run")
    ids, positions, slots, first, lengths = [], [], [], [0], []
    for id, tokens in out.num_scheduled.items():
        text, table, start = sequences[id].tokens, out.tables[id], out.starts[id]
        if start + tokens > len(table) * block_size:
            raise ValueError("the table is too short")
        for position in range(start, start + tokens):
            block, offset = divmod(position, block_size)
            ids.append(text[position])
            positions.append(position)
            slots.append(table[block] * block_size + offset)
        first.append(first[-1] + tokens)
        lengths.append(start + tokens)
    tables = [list(out.tables[id]) for id in out.num_scheduled]
    return Batch(*map(torch.tensor, (ids, positions, slots)), first, lengths, tables)


def _columns(out, sequences, block_size):
    """All sequences at once: a row for each token, and tables filled up in a matrix of their own."""
    import torch

    from level12.batch import Batch

    if not out.num_scheduled:
        raise ValueError("nothing to run")
    tokens = torch.tensor(list(out.num_scheduled.values()))
    ends = torch.tensor([sequences[id].computed for id in out.num_scheduled])
    tables = [out.tables[id] for id in out.num_scheduled]
    room = torch.tensor([len(table) * block_size for table in tables])
    if bool((ends > room).any()):
        raise ValueError("the table is too short")
    first = torch.cat([torch.zeros(1, dtype=torch.int64), tokens.cumsum(0)])
    row = torch.arange(len(tokens)).repeat_interleave(tokens)
    positions = torch.arange(len(row)) - first[row] + (ends - tokens)[row]
    matrix = torch.zeros(len(tables), max(map(len, tables)), dtype=torch.int64)
    for i, table in enumerate(tables):
        matrix[i, : len(table)] = torch.tensor(table)
    slots = matrix[row, positions // block_size] * block_size + positions % block_size
    texts = [sequences[id].tokens for id in out.num_scheduled]
    ids = torch.tensor([texts[i][at] for i, at in zip(row.tolist(), positions.tolist())])
    return Batch(ids, positions, slots, first.tolist(), ends.tolist(), tables)


alternative("level12.batch.build_batch", "token_by_token", program=_token_by_token)
alternative("level12.batch.build_batch", "columns", program=_columns)

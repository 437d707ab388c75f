"""Right programs, written another way, for level01.simple_cache. `alternative` is given when this is read."""

import torch


class _InPieces:
    """Keeps what came as it came, and joins it when it is asked for; another dict for each layer."""

    def __init__(self, n_layers):
        self.n_layers, self.pieces = n_layers, {}

    def update(self, layer, k, v):
        if layer not in range(self.n_layers):
            raise ValueError(f"there is no layer {layer}")
        self.pieces.setdefault(layer, []).append((k.clone(), v.clone()))
        return tuple(torch.cat(side, dim=-2) for side in zip(*self.pieces[layer]))

    @property
    def length(self):
        return min(sum(k.shape[-2] for k, _ in self.pieces.get(i, [])) for i in range(self.n_layers))

    def truncate(self, n):
        if n < 0 or n > self.length:
            raise ValueError(f"cannot keep {n} of {self.length}")
        for layer, pieces in self.pieces.items():
            k, v = (torch.cat(side, dim=-2).narrow(-2, 0, n) for side in zip(*pieces))
            self.pieces[layer] = [(k, v)]


class _WithRoom:
    """A buffer that doubles when it is full, keys and values in one tensor, and a count for each layer.

    What it returns are views, so tokens that were truncated and written over change in them.
    """

    def __init__(self, n_layers):
        self.n_layers, self.rooms, self.counts = n_layers, [None] * n_layers, [0] * n_layers

    def update(self, layer, k, v):
        if layer < 0 or layer >= self.n_layers:
            raise ValueError(f"there is no layer {layer}")
        new, start = torch.stack([k, v]), self.counts[layer]
        end = self.counts[layer] = start + new.shape[3]
        room = self.rooms[layer]
        if room is None or room.shape[3] < end:
            B, G, D = new.shape[1], new.shape[2], new.shape[4]
            grown = new.new_full((2, B, G, 2 * end, D), torch.nan)
            if start:
                grown[:, :, :, :start] = room[:, :, :, :start]
            room = self.rooms[layer] = grown
        room[:, :, :, start:end] = new
        return room[0, :, :, :end], room[1, :, :, :end]

    @property
    def length(self):
        return self.counts[-1]

    def truncate(self, n):
        if not 0 <= n <= self.length:
            raise ValueError(f"cannot keep {n} of {self.length}")
        self.counts = [min(n, count) for count in self.counts]


class _Counting:
    """Empty tensors at the start, and a number that is moved by the last layer."""

    def __init__(self, n_layers):
        self.n_layers, self.length = n_layers, 0
        self.layers = {layer: (torch.empty(0), torch.empty(0)) for layer in range(n_layers)}

    def update(self, layer, k, v):
        if layer not in self.layers:
            raise ValueError(f"there is no layer {layer}")
        old_k, old_v = self.layers[layer]
        if old_k.dim() == 4:
            k, v = torch.concat((old_k, k), 2), torch.concat((old_v, v), 2)
        self.layers[layer] = k, v
        if layer == self.n_layers - 1:
            self.length = k.size(2)
        return self.layers[layer]

    def truncate(self, n):
        if n not in range(self.length + 1):
            raise ValueError(f"cannot keep {n} of {self.length}")
        self.length = n
        self.layers = {i: (k[..., :n, :], v[..., :n, :]) for i, (k, v) in self.layers.items() if k.dim() == 4} | {
            i: pair for i, pair in self.layers.items() if pair[0].dim() != 4
        }


alternative("level01.simple_cache.SimpleCache", "in_pieces", program=_InPieces)
alternative("level01.simple_cache.SimpleCache", "with_room_to_grow", program=_WithRoom)
alternative("level01.simple_cache.SimpleCache", "counting", program=_Counting)

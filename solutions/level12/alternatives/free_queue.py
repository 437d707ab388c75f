"""Right programs, written another way, for level12.free_queue. `alternative` is given when this is read."""

from collections import OrderedDict
from itertools import count


class _Ordered:
    """An OrderedDict is linked both ways, and moves to either end."""

    def __init__(self, ids=()):
        self.row = OrderedDict()
        self.append_n(ids)

    def __len__(self):
        return len(self.row)

    def __contains__(self, block):
        return block in self.row

    def ids(self):
        return list(self.row)

    def popleft(self):
        if not self.row:
            raise ValueError("empty")
        return self.row.popitem(last=False)[0]

    def remove(self, block):
        if block not in self.row:
            raise ValueError("not there")
        del self.row[block]

    def _new(self, ids):
        ids = list(ids)
        if len({*ids}) != len(ids) or not self.row.keys().isdisjoint(ids):
            raise ValueError("twice")
        return ids

    def append_n(self, ids):
        for block in self._new(ids):
            self.row[block] = True

    def prepend_n(self, ids):
        for block in self._new(ids)[::-1]:
            self.row[block] = True
            self.row.move_to_end(block, last=False)


class _Node:
    def __init__(self, block=None):
        self.block, self.left, self.right = block, self, self


class _Nodes:
    """Nodes with two pointers, one of them before the first and behind the last."""

    def __init__(self, ids=()):
        self.head, self.at = _Node(), {}
        self.append_n(ids)

    def __len__(self):
        return len(self.at)

    def __contains__(self, block):
        return block in self.at

    def ids(self):
        node, found = self.head.right, []
        while node is not self.head:
            found.append(node.block)
            node = node.right
        return found

    def popleft(self):
        block = self.head.right.block
        if block is None:
            raise ValueError("empty")
        self.remove(block)
        return block

    def remove(self, block):
        try:
            node = self.at.pop(block)
        except KeyError:
            raise ValueError("not there") from None
        node.left.right, node.right.left = node.right, node.left

    def _insert(self, ids, left, right):
        ids = list(ids)
        if len(set(ids)) < len(ids) or any(block in self.at for block in ids):
            raise ValueError("twice")
        for block in ids:
            node = self.at[block] = _Node(block)
            node.left, left.right, left = left, node, node
        left.right, right.left = right, left

    def append_n(self, ids):
        self._insert(ids, self.head.left, self.head)

    def prepend_n(self, ids):
        self._insert(ids, self.head, self.head.right)


class _Stamped:
    """Two stacks of (block, stamp), one of them turned over; who has another stamp by now is skipped."""

    def __init__(self, ids=()):
        self.front, self.back, self.first, self.stamp, self.stamps = [], [], 0, {}, count()
        self.append_n(ids)

    def __len__(self):
        return len(self.stamp)

    def __contains__(self, block):
        return block in self.stamp

    def _good(self, pair):
        return self.stamp.get(pair[0]) == pair[1]

    def ids(self):
        return [pair[0] for pair in [*self.front[::-1], *self.back[self.first :]] if self._good(pair)]

    def popleft(self):
        while self.front or self.first < len(self.back):
            if self.front:
                pair = self.front.pop()
            else:
                pair, self.first = self.back[self.first], self.first + 1
            if self._good(pair):
                del self.stamp[pair[0]]
                return pair[0]
        raise ValueError("empty")

    def remove(self, block):
        if self.stamp.pop(block, None) is None:
            raise ValueError("not there")

    def _stamp(self, ids):
        ids = list(ids)
        if len(set(ids)) < len(ids) or any(block in self.stamp for block in ids):
            raise ValueError("twice")
        pairs = [(block, next(self.stamps)) for block in ids]
        self.stamp.update(pairs)
        return pairs

    def append_n(self, ids):
        self.back.extend(self._stamp(ids))

    def prepend_n(self, ids):
        self.front.extend(reversed(self._stamp(ids)))


alternative("level12.free_queue.FreeQueue", "ordered_dict", program=_Ordered)
alternative("level12.free_queue.FreeQueue", "nodes", program=_Nodes)
alternative("level12.free_queue.FreeQueue", "stamped", program=_Stamped)

"""Which blocks of the key-value pool are whose: ids and reference counts, no tensors.

Every block is in exactly one of three states. *Live*: at least one sequence holds it. *Idle*: nobody
holds it, but what it keeps may be wanted again; idle blocks are ordered by least recent use. *Empty*:
nobody holds it and it keeps nothing. Idle blocks are given away only when no empty one is left, the
least recently used first. Siblings share blocks, so live blocks are counted once, however many hold them.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence


class Blocks:
    """The accounts of `total` blocks of `size` tokens each.

    >>> blocks = Blocks(total=4, size=16)
    >>> block = blocks.take()
    >>> blocks.release(block, keep=False)
    >>> blocks.available
    4
    """

    def __init__(self, total: int, size: int) -> None:
        if total < 1 or size < 1:
            raise ValueError(f"a pool needs blocks that hold tokens, not {total} blocks of {size}")
        self.total, self.size = total, size
        self._holders = [0] * total
        self._empty = deque(range(total))
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def available(self) -> int:
        """How many blocks could be taken now, idle ones included."""
        return len(self._empty) + len(self._idle)

    def holders(self, block: int) -> int:
        return self._holders[block]

    def spanned(self, tokens: int) -> int:
        """How many blocks `tokens` tokens fill or begin."""
        return -(-tokens // self.size)

    def take(self) -> int:
        """A block for one holder; what it kept is lost.

        Raises:
            IndexError: none is available; ask `available` first.
        """
        if self._empty:
            block = self._empty.popleft()
        elif self._idle:
            block, _ = self._idle.popitem(last=False)
        else:
            raise IndexError("no block is available")
        self._holders[block] = 1
        return block

    def hold(self, block: int) -> None:
        """One more holder of a live or idle block."""
        if self._holders[block] == 0:
            del self._idle[block]
        self._holders[block] += 1

    def release(self, block: int, keep: bool) -> None:
        """One holder less; with the last one gone, the block is idle where `keep`, else empty."""
        if self._holders[block] == 0:
            raise ValueError(f"block {block} is held by nobody")
        self._holders[block] -= 1
        if self._holders[block] == 0:
            if keep:
                self._idle[block] = None
            else:
                self._empty.append(block)

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Hold the accounts against the tables of everybody who should hold blocks.

        Raises:
            AssertionError: a block is lost, counted twice, or its holders are miscounted.
        """
        held = Counter(block for table in tables for block in table)
        counted = {block: count for block, count in enumerate(self._holders) if count}
        assert held == counted, f"held {dict(held)}, counted {counted}"
        states = [*self._empty, *self._idle, *counted]
        assert sorted(states) == list(range(self.total)), "a block is lost or in two states"

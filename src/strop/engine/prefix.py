"""Finding keys and values that were computed before.

The key of a full block is a hash over the key of the block that really precedes it, its tokens, and the
set of weight versions under which its own keys and values were computed. A key therefore names all that
the block's content depends on: the same tokens under other weights, or after a prefix that was computed
under other weights, have another key. A new request asks for keys of the current version alone, so a
weight update needs no reset: older blocks are never found again and die by least recent use. Seeding
only the chain's beginning with a version would be wrong: a sequence that crosses an update with its
cache kept would file blocks that rest on old keys and values as if they were new.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence

from strop.engine.blocks import Blocks

ROOT = bytes(16)
"""What the first block of every sequence follows."""


def link(previous: bytes, tokens: Sequence[int], versions: Iterable[int]) -> bytes:
    """The key of a full block; `previous` is the key of the block before it, or `ROOT`.

    The encoding is unambiguous because all keys and all blocks of a pool have one size.
    """
    body = array("q", tokens)
    body.extend(sorted(versions))
    return hashlib.blake2b(previous + body.tobytes(), digest_size=16).digest()


def chain(tokens: Sequence[int], size: int, version: int) -> tuple[bytes, ...]:
    """The keys a new request asks for: full blocks computed wholly under `version`.

    At least one token is left out, since the last token's logits have to be computed in any case.
    """
    keys: list[bytes] = []
    for start in range(0, len(tokens) - size, size):
        keys.append(link(keys[-1] if keys else ROOT, tokens[start : start + size], (version,)))
    return tuple(keys)


class PrefixCache:
    """Blocks that can be found by key; full blocks stay findable after their last holder is gone."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._block_of: dict[bytes, int] = {}
        self._key_of: dict[int, bytes] = {}

    def known(self, keys: Sequence[bytes]) -> int:
        """How many of `keys` can be found, counted from the first without a gap."""
        for count, key in enumerate(keys):
            if key not in self._block_of:
                return count
        return len(keys)

    def match(self, keys: Sequence[bytes]) -> list[int]:
        """Hold the blocks of `keys`, all of which are known."""
        found = [self._block_of[key] for key in keys]
        for block in found:
            self.blocks.hold(block)
        return found

    def take(self) -> int:
        """A block to write into; what could be found there no longer can."""
        block = self.blocks.take()
        key = self._key_of.pop(block, None)
        if key is not None:
            del self._block_of[key]
        return block

    def file(self, key: bytes, block: int) -> None:
        """Make a full block findable; where another block has the key already, this one stays private."""
        if key not in self._block_of:
            self._block_of[key] = block
            self._key_of[block] = key

    def release(self, table: Sequence[int]) -> None:
        """Give up a sequence's blocks, the deepest first: a block is of no use without those before it."""
        for block in reversed(table):
            self.blocks.release(block, keep=block in self._key_of)

    def check(self, tables: Iterable[Sequence[int]]) -> None:
        """Hold the index and the accounts against the tables of all sequences.

        Raises:
            AssertionError: they disagree.
        """
        self.blocks.check(tables)
        assert {block: key for key, block in self._block_of.items()} == self._key_of

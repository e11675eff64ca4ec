"""How the owner and an init talk: a JSON header and a blob of bytes, each preceded by its length.

Requests carry an id that their answer repeats, so answers may come in any order and one that nobody
awaits any longer can be dropped.
"""

import json
import struct
from typing import Any

PREFIX = struct.Struct("!II")

LARGEST_BLOB = 4 * 1024 * 1024
"""Bytes of blob that the owner puts into one frame; larger files travel in pieces."""
LARGEST_PART = 1 << 30


def head(header: dict[str, Any], size: int = 0) -> bytes:
    """A frame up to its blob, of which `size` bytes must follow."""
    text = json.dumps(header).encode()
    return PREFIX.pack(len(text), size) + text


class Unpacker:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[dict[str, Any], bytes]]:
        """The frames that `data` completes.

        Raises:
            ValueError: the bytes are no frames.
        """
        buffer = self._buffer
        buffer += data
        frames = []
        while len(buffer) >= PREFIX.size:
            head, blob = PREFIX.unpack_from(buffer)
            if max(head, blob) > LARGEST_PART:
                raise ValueError(f"a frame of {head} and {blob} bytes is too large to be one")
            end = PREFIX.size + head + blob
            if len(buffer) < end:
                break
            header = json.loads(buffer[PREFIX.size : PREFIX.size + head])
            if not isinstance(header, dict):
                raise ValueError(f"a frame's header is no object: {header!r}")
            frames.append((header, bytes(buffer[PREFIX.size + head : end])))
            del buffer[:end]
        return frames

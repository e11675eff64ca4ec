import pytest

from strop.sandbox.frames import PREFIX, Unpacker, head


def test_frames_survive_being_cut_anywhere():
    stream = (
        head({"id": 1}) + head({"id": 2, "text": "ü"}, 8) + b"blobmore" + head({}, 256) + bytes(range(256))
    )
    whole = [({"id": 1}, b""), ({"id": 2, "text": "ü"}, b"blobmore"), ({}, bytes(range(256)))]
    for size in (1, 2, 7, 8, 9, 64, len(stream)):
        unpacker = Unpacker()
        found = []
        for at in range(0, len(stream), size):
            found += unpacker.feed(stream[at : at + size])
        assert found == whole, size


def test_what_is_no_frame_is_refused():
    with pytest.raises(ValueError, match="no object"):
        Unpacker().feed(PREFIX.pack(2, 0) + b"[]")
    with pytest.raises(ValueError, match="too large"):
        Unpacker().feed(PREFIX.pack(0xFFFFFFFF, 0))
    with pytest.raises(ValueError):
        Unpacker().feed(PREFIX.pack(3, 0) + b"{x}")

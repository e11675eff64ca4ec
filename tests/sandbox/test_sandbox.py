import errno

import pytest

from strop.sandbox.frames import LARGEST_BLOB
from strop.sandbox.sandbox import _pieces
from strop.tasks.task import Limits
from strop.tasks.workspace import Command, File


def test_files_arrive_with_content_mode_and_missing_folders(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write(
            [
                File("/app/a", b"first"),
                File("/app/deep/er/run.sh", b"#!/bin/sh\necho ran\n", 0o755),
                File("/srv/new line\n", b"\xff\x00"),
                File("/app/empty", b"", 0o600),
            ]
        )
        ran = await sandbox.run(
            Command("/app/deep/er/run.sh; stat -c '%a %U %s' /app/a /app/empty /app/deep")
        )
        return ran.stdout, await sandbox.read("/srv/new line\n"), await sandbox.read("/app/empty")

    out, odd, empty = in_sandbox(scenario)
    assert out.startswith(b"ran\n644 root 5\n600 root 0\n755 root ")
    assert (odd, empty) == (b"\xff\x00", b"")


def test_a_file_is_replaced_whole_and_a_link_is_not_followed(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("echo precious > /app/target; ln -s /app/target /app/link"))
        await sandbox.write([File("/app/link", b"new")])
        listing = await sandbox.run(Command("cat /app/target; ls -A /app"))
        return listing.stdout, await sandbox.read("/app/link")

    listing, content = in_sandbox(scenario)
    assert listing == b"precious\nlink\ntarget\n", "no temporary file may be left beside it"
    assert content == b"new"


def test_large_files_travel_in_pieces(in_sandbox):
    data = bytes(range(251)) * 50_000  # 12.5 MB

    async def scenario(sandbox):
        await sandbox.write([File("/app/small", b"s"), File("/app/large", data), File("/app/last", b"l")])
        return [await sandbox.read(f"/app/{name}") for name in ("small", "large", "last")]

    assert in_sandbox(scenario) == [b"s", data, b"l"]


def test_files_pass_through_an_init_that_is_short_of_memory(in_sandbox):
    data = bytes(16 << 20)

    async def scenario(sandbox):
        await sandbox.write([File("/app/large", data)])
        return [await sandbox.read("/app/large") for _ in range(3)]

    assert in_sandbox(scenario, Limits(memory_mb=1, storage_mb=17)) == [data] * 3


@pytest.mark.parametrize("size", [0, 1, LARGEST_BLOB - 1, LARGEST_BLOB, LARGEST_BLOB + 1, 2 * LARGEST_BLOB])
def test_pieces_cover_every_file_once_and_stay_small(size):
    files = [File("/a", b"abc"), File("/b", b"x" * size), File("/c", b"")]
    rebuilt: dict[str, bytes] = {}
    finished = []
    for entries, blob in _pieces(files):
        assert len(blob) <= LARGEST_BLOB
        at = 0
        for path, _, length, more in entries:
            rebuilt[path] = rebuilt.get(path, b"") + blob[at : at + length]
            at += length
            if not more:
                finished.append(path)
        assert at == len(blob)
    assert rebuilt == {file.path: file.data for file in files}
    assert finished == ["/a", "/b", "/c"]


def test_reading_says_what_is_wrong(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(
            Command(
                "mkfifo /app/fifo; mkdir /app/folder; head -c 100 /dev/zero > /app/big; ln -s loop /app/loop"
            )
        )
        found = {}
        for path in (
            "/app/none",
            "/app/folder",
            "/app/fifo",
            "/dev/zero",
            "/app/big",
            "/app/loop",
            "/app/big/x",
        ):
            with pytest.raises(OSError) as caught:
                await sandbox.read(path, max_bytes=99)
            found[path] = type(caught.value), caught.value.errno
            assert caught.value.filename == path
        return found, await sandbox.read("/app/big", max_bytes=100)

    found, data = in_sandbox(scenario)
    assert found == {
        "/app/none": (FileNotFoundError, errno.ENOENT),
        "/app/folder": (IsADirectoryError, errno.EISDIR),
        "/app/fifo": (OSError, errno.EINVAL),
        "/dev/zero": (OSError, errno.EINVAL),
        "/app/big": (OSError, errno.EFBIG),
        "/app/loop": (OSError, errno.ELOOP),
        "/app/big/x": (NotADirectoryError, errno.ENOTDIR),
    }
    assert data == bytes(100)


def test_writing_says_what_is_wrong_and_leaves_nothing(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("mkdir /app/folder; echo x > /app/file"))
        found = {}
        cases = {
            "/app/folder": b"",
            "/app/file/below": b"",
            "/proc/none": b"",
            "/dev/none": b"",
            "/app/large": bytes(40 << 20),
        }
        for path, data in cases.items():
            with pytest.raises(OSError) as caught:
                await sandbox.write([File(path, data)])
            found[path] = caught.value.errno
            assert caught.value.filename == path
        left = await sandbox.run(Command("ls -A /app; df --output=used /app | tail -1"))
        return found, left.stdout.split()

    found, left = in_sandbox(scenario)
    assert found["/app/folder"] == errno.EISDIR
    assert found["/app/file/below"] in (errno.EEXIST, errno.ENOTDIR)
    assert found["/proc/none"] in (errno.ENOENT, errno.EACCES)
    assert found["/dev/none"] == errno.EROFS
    assert found["/app/large"] in (errno.ENOSPC, errno.EFBIG)
    assert left[:2] == [b"file", b"folder"] and int(left[2]) < 1024


def test_an_interrupted_file_does_not_show(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write([File("/app/kept", b"old")])
        with pytest.raises(OSError, match=r"space|large"):
            await sandbox.write([File("/app/first", b"1"), File("/app/kept", bytes(40 << 20))])
        return await sandbox.read("/app/kept"), await sandbox.read("/app/first")

    assert in_sandbox(scenario) == (b"old", b"1")

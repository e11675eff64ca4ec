import os
import subprocess
import sys

from strop.sandbox.reaper import PREFIX, owner_lives, reap, token

MAKE = "from strop.sandbox.reaper import token; print(token())"


def dead_token() -> str:
    """The token of a process that has ended."""
    return subprocess.run(
        [sys.executable, "-c", MAKE], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_token_names_a_process_and_no_other():
    mine = f"{PREFIX}{token()}-0"
    assert owner_lives(mine)
    namespace, pid, start = token().split("-")
    assert int(pid) == os.getpid()
    assert not owner_lives(f"{PREFIX}{namespace}-{pid}-{int(start) + 1}-0"), "the number was taken again"
    assert not owner_lives(f"{PREFIX}{dead_token()}-0")


def test_what_cannot_be_judged_is_left_alone():
    namespace, pid, start = dead_token().split("-")
    assert owner_lives(f"{PREFIX}{int(namespace) + 1}-{pid}-{start}-0"), "another container's"
    for name in ("strop-mine", "other", f"{namespace}-{pid}-{start}", "strop-a-b-c"):
        assert owner_lives(name)


def test_what_the_dead_left_is_removed_and_nothing_else(tmp_path):
    dead, alive = tmp_path / f"{PREFIX}{dead_token()}-x", tmp_path / f"{PREFIX}{token()}-x"
    for folder in (dead, alive, tmp_path / "verifier-1"):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep/file").write_text("x")
    assert reap(tmp_path) == [dead]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive.name, "verifier-1"])


def test_groups_lose_empty_folders_only(tmp_path):
    empty, busy = tmp_path / f"{PREFIX}{dead_token()}-0", tmp_path / f"{PREFIX}{dead_token()}-1"
    (empty / "0").mkdir(parents=True)
    (busy / "0/member").mkdir(parents=True)
    assert reap(tmp_path, groups=True) == [empty]
    assert busy.exists()

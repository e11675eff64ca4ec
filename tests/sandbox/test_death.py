"""However the owner ends, nothing of its sandboxes stays."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

USER = Path(__file__).with_name("user.py")


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until_gone(pids, groups) -> tuple[list[int], list[str]]:
    """What is left after at most ten seconds."""
    for _ in range(1000):
        left = [pid for pid in pids if lives(pid)], [group for group in groups if Path(group).exists()]
        if not any(left):
            break
        time.sleep(0.01)
    return left


@pytest.fixture
def user(open_pool, cache):
    """A process at work in a sandbox; it is killed after the test if it still lives."""
    del open_pool  # which skips where no sandbox can start
    command = [sys.executable, "-W", "error", str(USER), str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            found = json.loads(process.stdout.readline())
            assert len(found["family"]) >= 1 + 3 + 1, "the parent, three sandboxes, the sleep in one"
            yield process, found["family"], found["groups"]
        finally:
            process.kill()


def test_a_killed_owner(user):
    process, family, groups = user
    process.kill()
    assert wait_until_gone(family, groups) == ([], [])


def test_a_terminated_owner(user):
    process, family, groups = user
    process.terminate()
    assert wait_until_gone(family, groups) == ([], [])


def test_control_c(user):
    process, family, groups = user
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "interrupted\n", "")
    assert [pid for pid in family if lives(pid)] == []
    assert [group for group in groups if Path(group).exists()] == []


def test_control_c_again_and_again(user):
    process, family, groups = user
    for _ in range(5):
        process.send_signal(signal.SIGINT)
        time.sleep(0.003)
    process.communicate(timeout=60)
    assert wait_until_gone(family, groups) == ([], [])


def test_control_c_at_a_terminal_reaches_the_owner_alone(user):
    """Ctrl-C goes to a whole process group: the parent must not be in it, to be ended in good order."""
    process, family, _ = user
    groups = {os.getpgid(pid) for pid in family}
    assert os.getpgid(process.pid) not in groups


def test_a_killed_parent_takes_its_sandboxes_along(user):
    process, family, groups = user
    os.kill(family[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert "SandboxFault" in err
    assert wait_until_gone(family, groups) == ([], [])


def test_an_owner_that_was_forked_does_not_keep_its_sandboxes_alive(open_pool, cache):
    """A child of the owner inherits the socket to the parent; the owner's death must count all the same."""
    del open_pool
    program = (
        "import asyncio, os, sys, time\n"
        "sys.path.insert(0, sys.argv.pop(1))\n"
        "import user\n"
        "family = user.family\n"
        "def fork_and_look(pid):\n"
        "    if pid == root():\n"
        "        child = os.fork()\n"
        "        if child == 0: time.sleep(60); os._exit(0)\n"
        "        print(child, flush=True)\n"
        "    return family(pid)\n"
        "def root(): return int(open(f'/proc/{os.getpid()}/task/{os.getpid()}/children').read().split()[0])\n"
        "user.family = fork_and_look\n"
        "asyncio.run(user.main())\n"
    )
    command = [sys.executable, "-c", program, str(USER.parent), str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        try:
            found = json.loads(process.stdout.readline())
            process.kill()
            assert wait_until_gone(found["family"], found["groups"]) == ([], [])
            assert lives(child)
        finally:
            process.kill()
            os.kill(child, signal.SIGKILL)

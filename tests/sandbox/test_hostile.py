"""Attacks on limits: each must fail, and the sandbox, or at least its neighbours, must go on."""

import asyncio

import pytest

from strop.errors import SandboxFault
from strop.tasks.task import Limits
from strop.tasks.workspace import Command
from tests.sandbox.conftest import SMALL

EAT = "a = []\nwhile True: a.append(bytearray(8 << 20))"


@pytest.fixture
def attack(in_sandbox):
    """Runs a line, then shows that the sandbox still works; gives what the line gave."""

    def run(line, limits=SMALL, **options):
        async def scenario(sandbox):
            completed = await sandbox.run(Command(line, **options))
            after = await sandbox.run(Command("echo alive"))
            assert after.stdout == b"alive\n", after
            return completed

        return in_sandbox(scenario, limits)

    return run


def test_one_process_eating_memory_is_killed(attack, is_root):
    completed = attack(("python3", "-c", EAT), timeout=60)
    assert completed.exit_code == 137 if is_root else b"MemoryError" in completed.stderr


def test_many_processes_eating_memory_are_killed(attack, is_root):
    if not is_root:
        pytest.skip("memory is held per process where control groups cannot be written")
    line = "\n".join(
        f"python3 -c 'x = bytearray(60 << 20); x[::4096] = bytes(len(x) // 4096); print(len(x))' & p{i}=$!"
        for i in range(8)
    )
    line += "\nfor p in $p0 $p1 $p2 $p3 $p4 $p5 $p6 $p7; do wait $p; echo $?; done; sleep 0"
    out = attack(line, timeout=60).stdout.split()
    codes = [code for code in out if len(code) <= 3]
    assert codes.count(b"137") >= 1
    assert codes.count(b"0") >= 1


def test_files_count_towards_memory_but_a_full_disk_kills_nobody(attack):
    limits = Limits(memory_mb=64, storage_mb=64, processes=64)
    completed = attack(
        "cat /dev/zero > /tmp/fill; python3 -c 'print(len(bytearray(30 << 20)))'; rm /tmp/fill", limits
    )
    assert b"No space left" in completed.stderr
    assert completed.stdout == b"31457280\n"


@pytest.mark.parametrize("place", ["/app", "/tmp", "/dev/shm", "/usr/local/bin", "/etc", "/root"])
def test_the_disk_is_held_wherever_it_is_filled(attack, place):
    line = f"""
        cd {place}; for i in 1 2 3 4; do head -c 20M /dev/zero > fill$i; done
        du -sm {place} | cut -f1; rm {place}/fill*; echo x > {place}/y
    """
    completed = attack(line)
    assert b"No space left on device" in completed.stderr
    assert 28 <= int(completed.stdout) <= 33
    assert completed.exit_code == 0, "it can be used again after files are removed"


def test_all_places_share_one_disk(attack):
    line = """
        for p in /app /tmp /dev/shm /usr/local /etc; do head -c 10M /dev/zero > $p/fill; done
        cat /app/fill /tmp/fill /dev/shm/fill /usr/local/fill /etc/fill | wc -c
    """
    assert 28 << 20 < int(attack(line).stdout) <= 32 << 20


def test_the_number_of_files_is_held(attack):
    many = (
        "try:\n    for i in range(100_000): open(f'/tmp/{i}', 'w').close()\n"
        "except OSError as e: print(i, e.errno)"
    )
    count, number = map(int, attack(("python3", "-c", many), timeout=60).stdout.split())
    assert 3000 < count <= 4096 and number == 28


def test_sparse_files_are_held_too(attack):
    completed = attack("trap '' XFSZ; truncate -s 1T /tmp/sparse; truncate -s 33M /tmp/sparse && echo fits")
    assert b"File too large" in completed.stderr and completed.stdout == b"fits\n"


def test_a_fork_bomb_is_held(attack):
    completed = attack("bomb() { bomb | bomb & }; bomb; sleep 0.5", timeout=2)
    assert completed.exit_code in (0, 1, 128 + 9, 254)


def test_processes_are_held(attack):
    forks = (
        "import os, signal\nchildren = []\ntry:\n    while True:\n        pid = os.fork()\n"
        "        if pid == 0: signal.pause()\n        children.append(pid)\n"
        "except OSError as e: print(len(children), e.errno)\nfor pid in children: os.kill(pid, 9)"
    )
    count, number = map(int, attack(("python3", "-c", forks)).stdout.split())
    assert 60 <= count < 64 and number == 11


def test_a_fork_bomb_that_outruns_its_command_is_ended_at_the_deadline(attack):
    bomb = "trap '' TERM INT HUP; f() { (setsid bash -c 'f() { f | f & }; f; wait' &); sleep 30; }; f"
    assert attack(bomb, timeout=1).timed_out


def test_open_files_are_held(attack):
    many = "import os\ntry:\n    while True: os.dup(0)\nexcept OSError as e: print(e.errno)"
    assert attack(("python3", "-c", many)).stdout == b"24\n"


def test_limits_cannot_be_raised_again(attack):
    line = (
        "ulimit -n 100000; ulimit -u 100000; ulimit -f unlimited; ulimit -n; ulimit -u; "
        "prlimit --pid 1 --nofile=100000:100000"
    )
    completed = attack(line)
    assert completed.stdout.split() == [b"4096", b"65"]
    assert completed.exit_code != 0


def test_a_stopped_or_unkillable_looking_process_goes_at_the_deadline(attack):
    completed = attack("trap '' SIGTERM SIGINT SIGHUP SIGQUIT; kill -STOP $$", timeout=0.5)
    assert completed.timed_out and completed.exit_code == 137


def test_a_gigabyte_on_one_line_is_drained(attack):
    completed = attack("head -c 1000000000 /dev/zero", timeout=120)
    assert completed.omitted == {"stdout": 1_000_000_000 - 65_536}


def test_a_command_that_writes_without_end_leaves_the_neighbour_alone(open_pool):
    async def main():
        async with open_pool() as pool, pool.lease(Limits()) as noisy, pool.lease(Limits()) as quiet:
            flood = asyncio.create_task(noisy.run(Command("yes", timeout=1)))
            answers = [await quiet.run(Command("echo hi")) for _ in range(20)]
            return await flood, answers

    flood, answers = asyncio.run(main())
    assert flood.timed_out
    assert all(answer.stdout == b"hi\n" for answer in answers)


def test_if_the_init_dies_its_user_hears_of_it_and_the_pool_goes_on(open_pool):
    async def main():
        async with open_pool() as pool:
            async with pool.lease(Limits()) as sandbox:
                waiting = asyncio.create_task(sandbox.run(Command("sleep 100", timeout=200)))
                await asyncio.sleep(0.1)
                sandbox._machine.kill(SandboxFault("lost", "killed by the test"))
                with pytest.raises(SandboxFault) as caught:
                    await waiting
                with pytest.raises(SandboxFault):
                    await sandbox.read("/etc/hostname")
                with pytest.raises(SandboxFault):
                    async with sandbox.verification():
                        pass
            async with pool.lease(Limits()) as other:
                return caught.value.code, (await other.run(Command("echo fine"))).stdout

    assert asyncio.run(main()) == ("lost", b"fine\n")

import asyncio
import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from strop.config import check
from strop.errors import Refusal, SandboxFault
from strop.sandbox import kernel
from strop.sandbox.limits import INIT_MB, Hierarchy
from strop.sandbox.pool import PoolSettings, SandboxPool
from strop.tasks.task import Limits
from strop.tasks.workspace import Command, File
from tests.sandbox.conftest import SMALL, WallClock


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def holdings(pid: int) -> tuple[int, int]:
    """How many descriptors and mounts a process has."""
    process = Path(f"/proc/{pid}")
    return len(list((process / "fd").iterdir())), len((process / "mounts").read_text().splitlines())


def links(pid: int) -> list[str]:
    return [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]


def test_nothing_is_skipped_where_everything_is_there(cache):
    host = kernel.Host()
    real = host.user == 0 and int(host.setting("user.max_user_namespaces") or 0) > 0
    if host.system != "Linux" or not real:
        pytest.skip("only on Linux, as root, with user namespaces")
    from tests.sandbox.conftest import refusal

    assert refusal(cache) == ""


def test_a_used_sandbox_is_never_lent_again(open_pool):
    async def main():
        seen = []
        async with open_pool(maximum=1, spare=1) as pool:
            for _ in range(4):
                async with pool.lease(SMALL) as sandbox:
                    seen.append((await sandbox.run(Command("ls /app; touch /app/used"))).stdout)
        return seen

    assert asyncio.run(main()) == [b""] * 4


def test_leases_wait_in_order_while_all_are_out(open_pool):
    async def main():
        order = []
        async with open_pool(maximum=2, spare=1) as pool:

            async def user(name):
                async with pool.lease(SMALL) as sandbox:
                    order.append(name)
                    await sandbox.run(Command("sleep 0.05"))
                    assert pool._settings.maximum - pool._out._value <= 2

            await asyncio.gather(*(user(name) for name in range(8)))
            return order, pool.metrics()

    order, metrics = asyncio.run(main())
    assert order == list(range(8))
    assert metrics.commands == 8 and metrics.failed == 0


def test_a_lease_that_waits_too_long_is_a_fault(open_pool):
    async def main():
        async with open_pool(maximum=1, lease_seconds=0.1) as pool, pool.lease(SMALL) as first:
            with pytest.raises(SandboxFault) as caught:
                async with pool.lease(SMALL):
                    raise AssertionError("only one may be out")
            alive = await first.run(Command("echo alive"))
            return caught.value.code, alive.stdout

    assert asyncio.run(main()) == ("lease-timeout", b"alive\n")


def test_the_next_lease_works_after_one_that_timed_out_or_was_cancelled(open_pool):
    async def main():
        async with open_pool(maximum=1, lease_seconds=5) as pool:
            async with pool.lease(SMALL):

                async def late():
                    async with pool.lease(SMALL):
                        pass

                waiting = [asyncio.create_task(late()) for _ in range(3)]
                await asyncio.sleep(0.05)
                for task in waiting:
                    task.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
            async with pool.lease(SMALL) as sandbox:
                return (await sandbox.run(Command("echo fine"))).stdout

    assert asyncio.run(main()) == b"fine\n"


def test_a_lease_cancelled_while_its_sandbox_starts_leaves_the_sandbox_to_others(open_pool):
    async def main():
        async with open_pool(maximum=3, spare=0) as pool:
            async with pool.lease(SMALL):

                async def user():
                    async with pool.lease(SMALL) as sandbox:
                        return (await sandbox.run(Command("echo fine"))).stdout

                for delay in (0, 0.001, 0.005, 0.01, 0.02):
                    hasty = asyncio.create_task(user())
                    await asyncio.sleep(delay)
                    hasty.cancel()
                    await asyncio.gather(hasty, return_exceptions=True)
                assert await user() == b"fine\n"
            return pool.metrics().failed

    assert asyncio.run(main()) == 0


def test_spares_are_made_off_the_way(open_pool):
    async def main():
        async with open_pool(maximum=4, spare=3) as pool:
            while pool.metrics().spare < 3:
                await asyncio.sleep(0.005)
            before = pool.metrics().started
            async with pool.lease(SMALL), pool.lease(SMALL), pool.lease(SMALL):
                taken = pool.metrics()
                while pool.metrics().spare < 3:
                    await asyncio.sleep(0.005)
            return before, taken, pool.metrics()

    before, taken, after = asyncio.run(main())
    assert before == 3
    assert taken.lease_seconds < after.start_seconds / after.started, "a spare is handed out, not made"
    assert after.started >= 6


def test_limits_are_those_of_the_lease(open_pool, is_root):
    async def main():
        found = []
        async with open_pool(maximum=1, spare=1) as pool:
            for limits in (SMALL, Limits(memory_mb=300, storage_mb=100, processes=20), SMALL):
                async with pool.lease(limits) as sandbox:
                    line = "df -m --output=size /app /dev/shm | tail -2; ulimit -u; ulimit -f"
                    found.append([int(word) for word in (await sandbox.run(Command(line))).stdout.split()])
        return found

    small = [32, 32, 65, 33 * 1024]
    assert asyncio.run(main()) == [small, [100, 100, 21, 101 * 1024], small]


def test_two_pools_of_one_process_do_not_get_in_each_others_way(open_pool, is_root):
    async def main():
        async with open_pool() as one, open_pool() as other, one.lease(SMALL) as first:
            async with other.lease(SMALL) as second:
                answers = [await box.run(Command("echo hi")) for box in (first, second)]
            return [answer.stdout for answer in answers], one.limits_note() == other.limits_note()

    assert asyncio.run(main()) == ([b"hi\n", b"hi\n"], True)


def test_metrics_count(open_pool):
    async def main():
        async with open_pool(maximum=2, spare=1) as pool:
            async with pool.lease(SMALL) as sandbox:
                await sandbox.run(Command("true"))
                during = pool.metrics()
            async with pool.lease(SMALL) as sandbox:
                await sandbox.run(Command("true"))
                await sandbox.run(Command("true"))
        return during, pool.metrics()

    during, after = asyncio.run(main())
    assert during.commands == 1 and during.live >= 1
    assert (after.commands, after.live, after.spare, after.failed) == (3, 0, 0, 0)
    assert after.started == after.destroyed >= 2
    assert after.start_seconds > 0 and after.lease_seconds >= 0


def test_a_lost_parent_is_replaced(open_pool):
    async def main():
        async with open_pool(maximum=2, spare=1) as pool:
            async with pool.lease(SMALL) as sandbox:
                os.kill(pool._parent._process.pid, signal.SIGKILL)
                with pytest.raises(SandboxFault) as caught:
                    await sandbox.run(Command("sleep 10"))
                assert caught.value.code == "lost"
            while pool.metrics().live:
                await asyncio.sleep(0.005)
            async with pool.lease(SMALL) as sandbox:
                return (await sandbox.run(Command("echo again"))).stdout

    assert asyncio.run(main()) == b"again\n"


def test_a_parent_that_cannot_start_is_a_refusal_that_helps(open_pool, monkeypatch):
    async def main():
        async with open_pool():
            raise AssertionError("must not open")

    monkeypatch.setattr("strop.sandbox.parent._BOOT", "import sys; sys.exit('no zygote today')")
    with pytest.raises(Refusal, match="no zygote today") as caught:
        asyncio.run(main())
    assert caught.value.remedy


def test_when_no_sandbox_starts_any_longer_leases_fail_and_do_not_hang(open_pool):
    async def main():
        async with open_pool(maximum=2, spare=0, lease_seconds=30) as pool:
            async with pool.lease(SMALL):
                pass

            async def refuse(slot):
                raise SandboxFault("start", "not today")

            pool._parent.sandbox = refuse
            with pytest.raises(SandboxFault) as caught:
                async with pool.lease(SMALL):
                    raise AssertionError("nothing can be lent")
            return caught.value.message, pool.metrics().failed

    assert asyncio.run(main()) == ("not today", 3)


def test_two_hundred_cycles_leave_nothing(open_pool):
    async def cycle(pool, number):
        async with pool.lease(SMALL) as sandbox:
            await sandbox.write([File("/app/x", b"x" * number)])
            await sandbox.run(Command("sleep 100 & cat /app/x"))
            if number % 4 == 0:
                async with sandbox.verification() as place:
                    await place.run(Command("ls"))

    async def main():
        before = descriptors()
        async with open_pool(maximum=4, spare=2) as pool:
            parent = pool._parent._process.pid
            for number in range(20):
                await cycle(pool, number)
            warm = holdings(parent)
            own = len(descriptors())
            for block in range(20):
                await asyncio.gather(*(cycle(pool, block * 10 + number) for number in range(10)))
            while pool.metrics().live > 2 or pool.metrics().spare < 2:
                await asyncio.sleep(0.005)
            after = holdings(parent)
            assert len(children(parent)) == 2, "the two spares"
            assert abs(len(descriptors()) - own) <= 4, "spares that were on their way"
            metrics = pool.metrics()
            groups = pool._groups.folders
        return before, descriptors(), warm, after, metrics, groups

    mounts = Path("/proc/self/mounts").read_text()
    before, end, warm, after, metrics, groups = asyncio.run(main())
    assert end == before, "no descriptor may stay open in the owner"
    # A slot that was not used while warming up brings its control groups, network and user namespace.
    assert after[0] - warm[0] <= 6 * 6
    assert after[1] == warm[1]
    assert metrics.destroyed >= 220 and metrics.failed == 0
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not any(Path(group).exists() for group in groups)


def test_the_parent_inherits_none_of_its_owners_descriptors(open_pool, tmp_path):
    async def main():
        leak = os.open(tmp_path, os.O_RDONLY)
        os.set_inheritable(leak, True)
        try:
            async with open_pool(spare=1) as pool:
                parent = pool._parent._process.pid
                held = [links(pid) for pid in (parent, *children(parent))]
                environment = Path(f"/proc/{parent}/environ").read_bytes()
                return held, environment
        finally:
            os.close(leak)

    held, environment = asyncio.run(main())
    assert len(held) >= 2
    assert environment == b""
    for link in itertools.chain(*held):
        assert not link.startswith((str(tmp_path), sys.prefix, str(Path(__file__).parents[2])))


def test_a_pool_opened_under_a_closing_loop_leaves_nothing(open_pool):
    """Cancellation while the pool opens, at many moments."""

    async def main(delay):
        pool = open_pool(maximum=2, spare=2)

        async def use():
            async with pool, pool.lease(SMALL) as sandbox:
                await sandbox.run(Command("sleep 10"))

        task = asyncio.create_task(use())
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return pool

    before = descriptors()
    for delay in (0, 0.002, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12):
        pool = asyncio.run(main(delay))
        assert pool.metrics().live == 0
        if pool._parent is not None:
            assert pool._parent._process.poll() is not None
            assert not any(Path(group).exists() for group in pool._groups.folders)
    assert descriptors() == before


def test_settings_are_checked():
    with pytest.raises(Refusal):
        check(PoolSettings, {"maximum": 0}, "here")
    with pytest.raises(Refusal) as caught:
        check(PoolSettings, {"maximun": 3}, "here")
    assert caught.value.nearest == "maximum"


def test_a_pool_starts_in_well_under_a_second_when_its_cache_is_there(open_pool):
    """Not a stopwatch: it must neither build the verifier layer again nor wait for a timer."""

    async def main():
        async with open_pool():
            pass

    asyncio.run(main())
    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 10


def test_groups_that_nobody_can_be_put_into_are_done_without(open_pool, monkeypatch, tmp_path):
    """A folder that may be written is not yet a control group that may be joined."""

    async def main():
        async with open_pool() as pool, pool.lease(SMALL) as sandbox:
            return pool.limits_note(), (await sandbox.run(Command("ulimit -d"))).stdout

    made_up = [Hierarchy(tmp_path, 1, frozenset({"memory", "pids"}))]
    monkeypatch.setattr("strop.sandbox.limits.hierarchies", lambda: made_up)
    note, data = asyncio.run(main())
    assert "memory: held per process only" in note
    assert int(data) == (SMALL.memory_mb + INIT_MB) * 1024
    assert list(tmp_path.iterdir()) == []


def test_the_limits_note_says_who_holds_what(open_pool, is_root):
    async def main():
        async with open_pool() as pool:
            return pool.limits_note()

    note = asyncio.run(main())
    for word in ("memory:", "processes:", "storage", "file size", "not held"):
        assert word in note
    assert ("look like nobody" in note) == (not is_root)


def test_a_pool_refuses_a_machine_that_is_not_fit(monkeypatch, tmp_path):
    async def main():
        async with SandboxPool(PoolSettings(), WallClock(), tmp_path):
            raise AssertionError("must not open")

    def unfit():
        raise Refusal("not here")

    monkeypatch.setattr(kernel, "require", unfit)
    with pytest.raises(Refusal, match="not here"):
        asyncio.run(main())
    assert list(tmp_path.iterdir()) == []

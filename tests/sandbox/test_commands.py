import asyncio
import os
import select
import signal

from strop.sandbox.commands import Capture, Commands
from strop.tasks.workspace import Command, Completed, File


def test_a_line_runs_in_bash_with_separate_streams_and_its_own_exit_code(in_sandbox):
    async def scenario(sandbox):
        return await sandbox.run(Command("echo out; echo err >&2; [[ -n $BASH_VERSION ]] && exit 7"))

    completed = in_sandbox(scenario)
    assert (completed.exit_code, completed.stdout, completed.stderr) == (7, b"out\n", b"err\n")
    assert not completed.timed_out
    assert completed.omitted == {}
    assert 0.0005 < completed.seconds < 60, "no bash starts and ends in less than half a millisecond"


def test_an_argument_vector_runs_as_it_is(in_sandbox):
    async def scenario(sandbox):
        return await sandbox.run(Command(("printf", "%s|", "$HOME", "a b", "")))

    assert in_sandbox(scenario).stdout == b"$HOME|a b||"


def test_folder_and_environment_are_the_commands_own(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("mkdir -p /app/deep; cd /app/deep; export LEAK=1"))
        there = await sandbox.run(Command("pwd; echo $GREETING", cwd="/app/deep", env={"GREETING": "hi"}))
        here = await sandbox.run(Command("pwd; echo [$GREETING$LEAK]; echo $HOME $USER"))
        return there.stdout, here.stdout

    assert in_sandbox(scenario) == (b"/app/deep\nhi\n", b"/app\n[]\n/root root\n")


def test_what_cannot_run_is_a_result_as_a_shell_would_put_it(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write([File("/app/plain", b"text"), File("/app/odd", b"\x7fELF junk", 0o755)])
        commands = {
            "absent": Command(("no-such-program",)),
            "plain": Command(("/app/plain",)),
            "odd": Command(("/app/odd",)),
            "folder": Command(("/bin/true",), cwd="/nowhere"),
            "null": Command(("echo", "a\0b")),
            "long": Command("x" * 200_000),
            "signal": Command("kill -TERM $$"),
        }
        return {name: await sandbox.run(command) for name, command in commands.items()}

    results = in_sandbox(scenario)
    codes = {name: completed.exit_code for name, completed in results.items()}
    assert codes == {
        "absent": 127,
        "plain": 126,
        "odd": 126,
        "folder": 126,
        "null": 126,
        "long": 126,
        "signal": 128 + 15,
    }
    assert b"no-such-program: No such file" in results["absent"].stderr
    assert b"/app/plain: Permission denied" in results["plain"].stderr
    assert results["folder"].stderr == b"cannot run in /nowhere: No such file or directory\n"
    assert b"too long" in results["long"].stderr


def test_standard_input_is_at_its_end(in_sandbox):
    async def scenario(sandbox):
        return await sandbox.run(Command("cat; read line; echo $?", timeout=5))

    completed = in_sandbox(scenario)
    assert (completed.stdout, completed.timed_out) == (b"1\n", False)


def test_output_beyond_the_limit_is_drained_and_counted(in_sandbox):
    async def scenario(sandbox):
        flood = "printf head; head -c 3000000 /dev/zero; printf tail; printf err >&2"
        return await sandbox.run(Command(flood, max_bytes=1001))

    completed = in_sandbox(scenario)
    assert completed.exit_code == 0
    assert len(completed.stdout) == 1001
    assert completed.stdout.startswith(b"head\0") and completed.stdout.endswith(b"\0tail")
    assert completed.omitted == {"stdout": 3_000_008 - 1001}
    assert completed.stderr == b"err"


def test_a_flood_does_not_outlast_its_deadline(in_sandbox):
    async def scenario(sandbox):
        flood = await sandbox.run(Command("yes & yes >&2", timeout=0.5, max_bytes=100))
        return flood, await sandbox.run(Command("pgrep -c yes"))

    flood, left = in_sandbox(scenario)
    assert flood.timed_out
    assert len(flood.stdout) == len(flood.stderr) == 100
    assert flood.omitted["stdout"] > 100_000 and flood.omitted["stderr"] > 100_000
    assert left.stdout == b"0\n"


def test_arbitrary_bytes_come_back_unchanged(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write([File("/app/bytes", bytes(range(256)) * 100)])
        return await sandbox.run(Command(("cat", "/app/bytes")))

    assert in_sandbox(scenario).stdout == bytes(range(256)) * 100


def test_a_background_job_holding_the_output_does_not_hold_the_command(in_sandbox):
    async def scenario(sandbox):
        job = "while true; do echo tick; sleep 0.01; done"
        completed = await sandbox.run(Command(f"({job}) & echo started", timeout=20))
        await asyncio.sleep(0.3)
        alive = await sandbox.run(Command("pgrep -fc 'while true'"))
        return completed, alive

    completed, alive = in_sandbox(scenario)
    assert completed.stdout.startswith(b"started\n") or b"started\n" in completed.stdout
    assert completed.seconds < 10 and not completed.timed_out
    assert int(alive.stdout) >= 1, "the job must neither die of a broken pipe nor block on a full one"


def test_a_timeout_ends_the_whole_tree_and_spares_older_jobs(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("sleep 1001 & (setsid sleep 1002 &)"))
        hostile = (
            "trap '' TERM INT HUP; (setsid nohup sleep 2001 >/dev/null 2>&1 &); "
            "(setsid bash -c '(sleep 2002 &) ; exec sleep 2003' &); "
            "sleep 2004 & disown; echo working; sleep 2005"
        )
        late = await sandbox.run(Command(hostile, timeout=0.5))
        left = await sandbox.run(Command("ps -eo args | grep '^sleep' | sort"))
        return late, left

    late, left = in_sandbox(scenario)
    assert late.timed_out and late.exit_code == 128 + 9
    assert late.stdout == b"working\n"
    assert left.stdout == b"sleep 1001\nsleep 1002\n"


def test_children_of_older_jobs_outlive_anothers_timeout(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write([File("/app/job.sh", b"while true; do sleep 0.05; echo x >> /app/ticks; done\n")])
        await sandbox.run(Command("bash /app/job.sh >/dev/null 2>&1 &"))
        await sandbox.run(Command("sleep 100", timeout=0.3))
        before = len(await sandbox.read("/app/ticks"))
        await asyncio.sleep(0.4)
        return before, len(await sandbox.read("/app/ticks"))

    before, after = in_sandbox(scenario)
    assert after > before > 0


def test_commands_may_run_side_by_side(in_sandbox):
    async def scenario(sandbox):
        waiter = "while [ ! -e /app/flag ]; do sleep 0.01; done; echo seen"
        waiting = asyncio.create_task(sandbox.run(Command(waiter, timeout=20)))
        late = asyncio.create_task(sandbox.run(Command("sleep 3000", timeout=0.2)))
        await late
        await sandbox.run(Command("touch /app/flag"))
        return await waiting, late.result()

    waited, late = in_sandbox(scenario)
    assert waited.stdout == b"seen\n", "the timeout of one command must not end another"
    assert late.timed_out


def test_a_cancelled_command_is_ended(in_sandbox):
    async def scenario(sandbox):
        task = asyncio.create_task(sandbox.run(Command("sleep 4000", timeout=100)))
        await asyncio.sleep(0.2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [await sandbox.run(Command("pgrep -fc 'sleep 4000'")) for _ in range(5)][-1]

    assert in_sandbox(scenario).stdout == b"0\n"


def test_orphans_are_buried(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("for i in 1 2 3 4 5; do (setsid true &); done; sleep 0.1"))
        return await sandbox.run(Command("ps -eo stat= | grep -c Z"))

    assert in_sandbox(scenario).stdout == b"0\n"


class TestCapture:
    def test_keeps_all_that_fits(self):
        capture = Capture(10)
        capture.add(b"01234")
        capture.add(b"56789")
        assert (capture.kept(), capture.omitted()) == (b"0123456789", 0)

    def test_keeps_head_and_tail(self):
        capture = Capture(7)
        for _ in range(50_000):
            capture.add(b"0123456789")
        assert (capture.kept(), capture.omitted()) == (b"0123789", 500_000 - 7)

    def test_may_keep_nothing(self):
        capture = Capture(0)
        capture.add(b"x" * 200_000)
        assert (capture.kept(), capture.omitted()) == (b"", 200_000)


def test_a_stream_reported_ready_twice_does_not_block():
    """The end of a command may drain a stream that the same round of polling has reported ready."""
    poll = select.poll()
    commands = Commands(os.open("/proc/self/oom_score_adj", os.O_RDWR))
    answers = []
    commands.attach(poll, lambda *answer: answers.append(answer))
    request = {
        "id": 1,
        "argv": ["/bin/sh", "-c", "echo hi; exec sleep 1"],
        "cwd": "/",
        "timeout": 9,
        "max_bytes": 9,
    }
    commands.start(request, {"PATH": "/usr/bin:/bin"})
    ready = [descriptor for descriptor, _ in poll.poll(5000)]
    for descriptor in ready * 2:
        assert commands.readable(descriptor)
    (running,) = commands._running.values()
    os.kill(running.pid, signal.SIGKILL)
    os.waitpid(running.pid, 0)
    while running.streams:
        for descriptor, _ in poll.poll(5000):
            commands.readable(descriptor)
    assert running.captures["stdout"].kept() == b"hi\n"
    for descriptor in (commands._null, commands._oom):
        os.close(descriptor)


def test_completed_is_the_contracts_own(in_sandbox):
    async def scenario(sandbox):
        return await sandbox.run(Command("true"))

    assert isinstance(in_sandbox(scenario), Completed)

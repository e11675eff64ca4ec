import asyncio

import pytest

from strop.errors import SandboxFault
from strop.sandbox.scripted import ScriptedPool, ScriptedWorkspace
from strop.tasks.grader import grade
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import Command, Completed, File


def run(workspace, *lines):
    async def main():
        return [await workspace.run(Command(line)) for line in lines]

    return asyncio.run(main())


def test_commands_are_answered_from_the_plan():
    planned = Completed(3, b"", b"bad\n", 0.5)
    workspace = ScriptedWorkspace({"ls": "a.txt\n", "fail": planned, "echo 'a b'": "vector\n"})
    listed, failed, vector, unknown = run(workspace, "ls", "fail", ("echo", "a b"), "rm -r /")
    assert (listed.exit_code, listed.stdout) == (0, b"a.txt\n")
    assert failed is planned
    assert vector.stdout == b"vector\n"
    assert unknown.exit_code == 127 and b"command not found" in unknown.stderr
    assert [command.line for command in workspace.ran] == ["ls", "fail", ("echo", "a b"), "rm -r /"]


def test_a_function_may_act_on_the_files():
    def touch(command, workspace):
        workspace.files["/app/new"] = File("/app/new", command.line.encode())
        return Completed(0, b"", b"", 0.0)

    workspace = ScriptedWorkspace({"touch new": touch})
    run(workspace, "touch new")
    assert asyncio.run(workspace.read("/app/new")) == b"touch new"


def test_files_are_read_written_and_missed():
    async def main():
        workspace = ScriptedWorkspace(files=[File("/app/deep/a", b"abc")])
        await workspace.write([File("/app/b", b"new"), File("/app/deep/a", b"changed")])
        with pytest.raises(FileNotFoundError):
            await workspace.read("/app/none")
        with pytest.raises(IsADirectoryError):
            await workspace.read("/app/deep")
        with pytest.raises(OSError, match="File too large"):
            await workspace.read("/app/b", max_bytes=2)
        return await workspace.read("/app/deep/a")

    assert asyncio.run(main()) == b"changed"


def test_a_planned_fault_loses_the_machine_for_good():
    async def main():
        lost = SandboxFault("lost", "it died")
        for workspace, act in (
            (ScriptedWorkspace({"boom": lost}), lambda w: w.run(Command("boom"))),
            (ScriptedWorkspace(faults={"write": lost}), lambda w: w.write([])),
            (ScriptedWorkspace(faults={"read /a": lost}), lambda w: w.read("/a")),
            (ScriptedWorkspace(faults={"verification": lost}), lambda w: w.verification().__aenter__()),
        ):
            with pytest.raises(SandboxFault, match="it died"):
                await act(workspace)
            with pytest.raises(SandboxFault, match="it died"):
                await workspace.run(Command("ls"))

    asyncio.run(main())


def test_the_real_grader_judges_in_it():
    def judge(command, workspace):
        assert "/tests/planted" not in workspace.files
        reward = b"1" if workspace.files["/app/answer"].data == b"42" else b"0"
        workspace.files["/logs/verifier/reward.txt"] = File("/logs/verifier/reward.txt", reward)
        return Completed(0, b"judged", b"", 0.1)

    task = Task("demo/answer", "?", tests=(File("/tests/test.sh", b"..."),))
    files = [File("/app/answer", b"42"), File("/tests/planted", b""), File("/logs/verifier/reward.txt", b"0")]
    workspace = ScriptedWorkspace({"/bin/bash /tests/test.sh": judge}, files)
    verdict = asyncio.run(grade(task, workspace))
    assert verdict.score == 1.0
    assert workspace.files["/logs/verifier/reward.txt"].data == b"0", "the agent's places come back"
    assert workspace.verifications == 1


def test_a_pool_lends_counts_and_fails_as_planned():
    async def main():
        pool = ScriptedPool(ScriptedWorkspace, faults=[SandboxFault("lease-timeout", "all out")])
        with pytest.raises(SandboxFault, match="all out"):
            async with pool.lease(Limits()):
                pass
        async with pool.lease(Limits(cpus=2)) as one, pool.lease(Limits()) as other:
            during = len(pool.out)
        return one is other, during, len(pool.out), [limits.cpus for limits in pool.leases]

    assert asyncio.run(main()) == (False, 2, 0, [1.0, 2, 1.0])

"""Judging is out of reach of the judged."""

from contextlib import suppress

import pytest

from strop.errors import GraderFault, SandboxFault
from strop.tasks.grader import grade
from strop.tasks.task import Limits, Task
from strop.tasks.workspace import Command, File

TEST = b"""
from pathlib import Path

def test_answer():
    assert Path("/app/answer").read_text() == "42"
"""
RUNNERS = ("pytest -q /tests/test_answer.py", "python3 -m pytest -q /tests/test_answer.py")


async def judge(sandbox, line, files=(), **options):
    async with sandbox.verification(**options) as place:
        await place.write([File("/tests/test_answer.py", TEST), *files])
        return await place.run(Command(line))


@pytest.mark.parametrize("runner", RUNNERS)
def test_pytest_is_there_for_judges_only(in_sandbox, runner):
    async def scenario(sandbox):
        before = await sandbox.run(Command("ls /opt; which pytest; python3 -c 'import pytest'"))
        await sandbox.write([File("/app/answer", b"41")])
        wrong = await judge(sandbox, runner)
        await sandbox.write([File("/app/answer", b"42")])
        right = await judge(sandbox, runner)
        after = await sandbox.run(
            Command("ls -A /opt /tests /logs; which pytest; python3 -c 'import pytest'")
        )
        return before, wrong, right, after

    before, wrong, right, after = in_sandbox(scenario)
    assert before.stdout == b"" and b"No module named" in before.stderr
    assert (wrong.exit_code, right.exit_code) == (1, 0), right.stdout + right.stderr
    assert b"1 failed" in wrong.stdout and b"1 passed" in right.stdout
    assert after.stdout == b"/opt:\n" and b"No module named" in after.stderr


def test_the_places_are_fresh_and_only_the_judges(in_sandbox):
    async def scenario(sandbox):
        plant = "mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt; touch /tests/test.sh"
        await sandbox.run(Command(plant))
        async with sandbox.verification() as place:
            inside = await place.run(Command("find /tests /logs | sort; ls -A $HOME $TMPDIR"))
            with pytest.raises(FileNotFoundError):
                await place.read("/logs/verifier/reward.txt")
            await place.run(Command("echo 0.5 > /logs/verifier/reward.txt"))
            reward = await place.read("/logs/verifier/reward.txt")
        outside = await sandbox.read("/logs/verifier/reward.txt")
        async with sandbox.verification() as place:
            again = await place.run(Command("find /tests /logs | sort"))
        return inside.stdout, reward, outside, again.stdout

    inside, reward, outside, again = in_sandbox(scenario)
    empty = b"/logs\n/logs/agent\n/logs/artifacts\n/logs/verifier\n/tests\n"
    assert inside == empty + b"/opt/strop/home:\n\n/opt/strop/tmp:\n"
    assert (reward, outside, again) == (b"0.5\n", b"1\n", empty)


def test_nobody_the_agent_started_is_left(in_sandbox):
    async def scenario(sandbox):
        daemon = "while true; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; done"
        hide = (
            f"trap '' TERM HUP; (setsid nohup bash -c '{daemon}' > /dev/null 2>&1 &); (setsid sleep 1000 &)"
        )
        await sandbox.run(Command(hide))
        async with sandbox.verification() as place:
            there = await place.run(Command("ps -eo args --no-headers; sleep 0.2; ls /logs/verifier"))
        return there.stdout.decode().splitlines()

    lines = in_sandbox(scenario)
    assert lines[0] == "strop"
    assert not any("sleep 1000" in line or "reward" in line for line in lines[:1] + lines[3:])
    assert len(lines) == 3, lines  # the init, the shell, ps


def test_judges_left_running_do_not_stay_for_the_agent(in_sandbox):
    async def scenario(sandbox):
        async with sandbox.verification() as place:
            await place.run(Command("(setsid sleep 1000 &)"))
        return await sandbox.run(Command("pgrep -c sleep"))

    assert in_sandbox(scenario).stdout == b"0\n"


@pytest.mark.parametrize(
    "plant",
    {
        "links to places of the agent's": (
            "rm -rf /tests /logs /opt; mkdir /app/t /app/l /app/o; "
            "ln -s /app/t /tests; ln -s /app/l /logs; ln -s /app/o /opt"
        ),
        "links to system folders": "ln -s /etc /tests; ln -s /usr /logs; rm -r /opt; ln -s / /opt",
        "files": "rm -r /opt; touch /tests /logs /opt",
        "loops": "ln -s /tests /tests; ln -s /logs /logs; rm -r /opt; ln -s opt /opt",
        "closed folders": "mkdir -m 000 /tests /logs; chmod 000 /opt",
        "a pipe": "mkfifo /tests /logs",
    }.values(),
    ids=lambda line: line[:20],
)
def test_what_was_planted_in_the_places_is_out_of_the_way_and_comes_back(in_sandbox, plant):
    async def scenario(sandbox):
        await sandbox.run(Command(plant))
        look = "stat -c '%F %a' /tests /logs /opt 2>&1; readlink /tests /logs /opt; find /app"
        before = await sandbox.run(Command(look))
        await sandbox.write([File("/app/answer", b"42")])
        judged = await judge(sandbox, f"{RUNNERS[0]} && echo 1 > /logs/verifier/reward.txt")
        await sandbox.run(Command("rm /app/answer"))
        return before.stdout, judged, (await sandbox.run(Command(look))).stdout

    before, judged, after = in_sandbox(scenario)
    assert judged.exit_code == 0, judged.stdout + judged.stderr
    assert before == after


def test_planted_system_files_do_not_act(in_sandbox):
    """PATH shims, a preloaded library, a changed interpreter, replaced links to the system folders."""

    async def scenario(sandbox):
        shim = "#!/usr/bin/env -S echo forged\n"
        await sandbox.write(
            [
                File("/usr/local/bin/pytest", shim.encode(), 0o755),
                File("/usr/local/bin/python3", shim.encode(), 0o755),
                File("/usr/bin/true", shim.encode(), 0o755),
                File("/etc/ld.so.preload", b"/app/evil.so\n"),
                File("/etc/passwd", b"root:x:0:0:root:/app:/app/sh\n"),
                File("/usr/local/lib/python3.11/dist-packages/sitecustomize.py", b"print('forged')"),
                File("/app/bin/bash", shim.encode(), 0o755),
                File("/app/answer", b"42"),
            ]
        )
        with suppress(PermissionError):  # where owners are not mapped, the host's own folders are closed
            await sandbox.write([File("/usr/lib/python3/dist-packages/pytest.py", b"print('forged')")])
        await sandbox.run(
            Command("mv /bin /bin-away; ln -s /app/bin /bin; mv /lib64 /lib64-away; mkdir /lib64")
        )
        await sandbox.run(Command(("/usr/bin/rm", "-rf", "/usr/bin/env")))
        line = "ls /etc/ld.so.preload /usr/local/bin; id -un; touch /usr/bin/x"
        return await judge(sandbox, f"/bin/true && {' && '.join(RUNNERS)}; {line}")

    judged = in_sandbox(scenario)
    assert judged.stdout.count(b"1 passed") == 2, judged.stdout + judged.stderr
    assert b"forged" not in judged.stdout + judged.stderr
    assert judged.stdout.splitlines()[-1] == b"root"
    assert b"/etc/ld.so.preload': No such file" in judged.stderr
    assert b"Read-only file system" in judged.stderr


def test_live_system_shows_what_the_agent_did_to_it(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write(
            [File("/usr/local/bin/tool", b"#!/bin/sh\necho built\n", 0o755), File("/etc/tool", b"x")]
        )
        line = "tool; cat /etc/tool; ls /tests"
        return await judge(sandbox, line, live_system=True), await judge(sandbox, line)

    live, pristine = in_sandbox(scenario)
    assert live.stdout == b"built\nxtest_answer.py\n"
    assert pristine.stdout == b"test_answer.py\n"


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    "path",
    [
        "/conftest.py",
        "/app/conftest.py",
        "/app/pytest.py",
        "/app/json.py",
        "/app/_pytest/__init__.py",
        "/app/sitecustomize.py",
        "/app/usercustomize.py",
        "/root/.local/lib/python3.11/site-packages/usercustomize.py",
        "/tmp/conftest.py",
    ],
)
def test_planted_python_does_not_judge(in_sandbox, runner, path):
    forge = b"import os\nprint('forged')\nos._exit(0)\n"

    async def scenario(sandbox):
        await sandbox.write([File("/app/answer", b"wrong"), File(path, forge)])
        return await judge(sandbox, runner)

    judged = in_sandbox(scenario)
    assert b"forged" not in judged.stdout
    assert b"1 failed" in judged.stdout, judged.stdout + judged.stderr


@pytest.mark.parametrize("name", ["pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", ".pytest.ini"])
def test_planted_settings_do_not_steer_pytest(in_sandbox, name):
    section = {"pyproject.toml": "tool.pytest.ini_options", "setup.cfg": "tool:pytest"}.get(name, "pytest")
    value = '"--collect-only"' if name == "pyproject.toml" else "--collect-only"

    async def scenario(sandbox):
        await sandbox.write([File(f"/{name}", f"[{section}]\naddopts = {value}\n".encode())])
        judged = await judge(sandbox, RUNNERS[0])
        return judged, await sandbox.run(Command(f"ls /{name}"))

    judged, back = in_sandbox(scenario)
    assert b"1 failed" in judged.stdout, judged.stdout + judged.stderr
    assert back.exit_code == 0


def test_the_tests_own_settings_and_modules_still_work(in_sandbox):
    async def scenario(sandbox):
        await sandbox.write([File("/app/solution.py", b"import helper\nvalue = helper.value\n")])
        await sandbox.write([File("/app/helper.py", b"value = 42\n"), File("/app/answer", b"42")])
        files = [
            File("/tests/pytest.ini", b"[pytest]\nmarkers = special\naddopts = --strict-markers -q\n"),
            File(
                "/tests/conftest.py", b"import pytest\n\n@pytest.fixture\ndef forty_two():\n    return 42\n"
            ),
            File(
                "/tests/test_more.py",
                b"import pytest\nimport solution\n\n@pytest.mark.special\n"
                b"def test_value(forty_two, tmp_path):\n"
                b"    assert solution.value == forty_two and tmp_path.is_dir()\n",
            ),
        ]
        whole = await judge(sandbox, "python3 -m pytest /tests", files)
        script = await judge(
            sandbox, "cd / && python3 /app/solution.py && cd /app && python3 -c 'import solution'"
        )
        return whole, script

    whole, script = in_sandbox(scenario)
    assert b"2 passed" in whole.stdout, whole.stdout + whole.stderr
    assert script.exit_code == 0, script.stderr


def test_a_disk_that_the_agent_filled_does_not_stop_judging(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(
            Command("echo -n 42 > /app/answer; cat /dev/zero > /tmp/fill; cat /dev/zero > /dev/shm/fill")
        )
        return await judge(
            sandbox, f"{RUNNERS[0]}; echo 1 > /logs/verifier/reward.txt; cat /logs/verifier/reward.txt"
        )

    judged = in_sandbox(scenario)
    assert b"1 passed" in judged.stdout and judged.stdout.endswith(b"\n1\n"), judged.stdout + judged.stderr


def test_a_fork_bomb_does_not_stop_judging(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("f() { f | f & }; f; sleep 0.2", timeout=1))
        await sandbox.write([File("/app/answer", b"42")])
        return await judge(sandbox, RUNNERS[0])

    assert b"1 passed" in in_sandbox(scenario).stdout


def test_the_environment_is_clean(in_sandbox):
    async def scenario(sandbox):
        await sandbox.run(Command("export LD_PRELOAD=/app/x.so BASH_ENV=/app/x; echo 'exit' > /root/.bashrc"))
        async with sandbox.verification() as place:
            return await place.run(Command("env | cut -d= -f1 | sort", env={"GIVEN": "1"}))

    names = set(in_sandbox(scenario).stdout.decode().split())
    shell = {"PWD", "SHLVL", "_", "OLDPWD"}
    python = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"}
    pytest_own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS"}
    machine = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "HOSTNAME", "TMPDIR"}
    assert names - shell == python | pytest_own | machine | {"GIVEN"}


def test_the_place_closes_with_its_block(in_sandbox):
    async def scenario(sandbox):
        async with sandbox.verification() as place:
            pass
        with pytest.raises(SandboxFault) as caught:
            await place.run(Command("true"))
        still = await sandbox.run(Command("echo alive"))
        return caught.value.code, still.stdout

    assert in_sandbox(scenario) == ("closed", b"alive\n")


def test_an_error_inside_the_block_passes_through(in_sandbox):
    async def scenario(sandbox):
        with pytest.raises(ZeroDivisionError):
            async with sandbox.verification():
                raise ZeroDivisionError
        return (await sandbox.run(Command("echo alive"))).stdout

    assert in_sandbox(scenario) == b"alive\n"


GRADE = b"""
if [ "$(cat /app/answer)" = 42 ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
"""


@pytest.mark.parametrize(("answer", "score"), [(b"42\n", 1.0), (b"41\n", 0.0)])
def test_the_grader_judges_in_a_real_sandbox(in_sandbox, answer, score):
    task = Task("demo/answer", "?", tests=(File("/tests/test.sh", GRADE),))

    async def scenario(sandbox):
        await sandbox.write([File("/app/answer", answer)])
        await sandbox.run(Command("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt"))
        return await grade(task, sandbox)

    assert in_sandbox(scenario).score == score


@pytest.mark.parametrize("spoil", ["rm -rf /app", "rm -rf /app; ln -s /app /app", "rm -rf /app; touch /app"])
def test_removing_the_working_folder_is_no_way_out(in_sandbox, spoil):
    task = Task("demo/answer", "?", tests=(File("/tests/test.sh", GRADE),))

    async def scenario(sandbox):
        await sandbox.run(Command(spoil))
        return await grade(task, sandbox)

    assert in_sandbox(scenario).score == 0.0


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (b"exit 0", "no-reward"),
        (b"echo nan > /logs/verifier/reward.txt", "bad-reward"),
        (b"sleep 100", "timeout"),
    ],
)
def test_a_grader_that_fails_is_a_fault_and_no_score(in_sandbox, script, code):
    limits = Limits(verifier_seconds=0.5)
    task = Task("demo/broken", "?", tests=(File("/tests/test.sh", script),), limits=limits)

    async def scenario(sandbox):
        await sandbox.run(Command("mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt"))
        with pytest.raises(GraderFault) as caught:
            await grade(task, sandbox)
        return caught.value.code

    assert in_sandbox(scenario) == code

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strop.errors import Refusal
from strop.tasks.folder import examine_folder, is_task_folder, read_folder, write_folder
from strop.tasks.task import Limits, Strata, Task
from strop.tasks.workspace import File

TEST = "#!/bin/bash\necho 1 > /logs/verifier/reward.txt\n"
TOML = 'schema_version = "1.4"\n[environment]\nnetwork_mode = "no-network"\n'


def make(folder: Path, files: dict[str, str | bytes]) -> Path:
    """A task folder by hand; what is not given is the least that a task needs, None leaves it out."""
    least: dict[str, str | bytes | None] = {
        "task.toml": TOML,
        "instruction.md": "Write 1 to /app/one.\n",
        "tests/test.sh": TEST,
    }
    for name, content in {**least, **files}.items():
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def refused(folder: Path) -> Refusal:
    with pytest.raises(Refusal) as caught:
        read_folder(folder)
    return caught.value


segment = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..") and len(name.encode()) < 40
)
mode = st.sampled_from([0o644, 0o755, 0o600, 0o700, 0o444, 0o664, 0o4755, 0o640])


@st.composite
def files(draw, root: str):
    names = draw(st.lists(segment, max_size=4, unique_by=str.casefold))
    folders = [draw(st.sampled_from(["", f"d{index}/", f"d{index}/e/"])) for index in range(len(names))]
    return tuple(
        File(f"{root}{folder}x{name}", draw(st.binary(max_size=40)), draw(mode))
        for folder, name in zip(folders, names, strict=True)
    )


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
values = texts | st.just("${HOME}")
variables = st.dictionaries(st.from_regex("[A-Z_]{1,6}", fullmatch=True), values, max_size=3)
steps = st.lists(st.from_regex(r"[\w$'\"\\ -]{0,5}\w", fullmatch=True), max_size=2)
seconds = st.integers(1, 10**6) | st.floats(0.1, 1e6)
limits = st.builds(
    Limits, seconds, seconds, st.floats(0.1, 64), st.integers(1, 9999), st.just(64), st.integers(1, 999)
)


@st.composite
def tasks(draw):
    return Task(
        name=f"suite/{draw(st.from_regex('[a-z-]{1,12}', fullmatch=True))}",
        instruction="Do it. " + draw(texts),
        files=draw(files(draw(st.sampled_from(["/app/", "/", "/etc/"])))),
        tests=(*draw(files("/tests/")), File("/tests/test.sh", TEST.encode())),
        solution=draw(files("/solution/")),
        workdir="/" + "/".join(draw(steps)),
        env=draw(variables),
        verifier_env=draw(variables),
        live_system=draw(st.booleans()),
        limits=draw(limits),
        strata=Strata(draw(texts), draw(texts), draw(st.integers(0, 99)), draw(texts)),
        seed=draw(st.integers(-(2**63), 2**63 - 1)),
    )


def by_path(task: Task) -> Task:
    """The same task with its files in the order that a folder gives them."""

    def ordered(files: tuple[File, ...]) -> tuple[File, ...]:
        return tuple(sorted(files, key=lambda file: file.path))

    return replace(
        task, files=ordered(task.files), tests=ordered(task.tests), solution=ordered(task.solution)
    )


@settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(task=tasks())
def test_a_written_task_reads_back_equal(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "task"
    write_folder(task, folder)
    reading = examine_folder(folder)
    assert reading.task == by_path(task)
    assert reading.task.id == task.id
    assert [note for note in reading.notes if "stands in" not in note] == []


def test_a_hand_written_folder_with_every_part(tmp_path):
    folder = make(
        tmp_path / "fix-git",
        {
            "task.toml": """
                version = "1.0"
                [metadata]
                author_name = "A"
                difficulty = "hard"
                category = "software-engineering"
                tags = ["git"]
                expert_time_estimate_min = 5.0
                [metadata.strop]
                live_system = true
                seed = 9
                [verifier]
                timeout_sec = 900.0
                env = { MODE = "strict", LIMIT = "${LIMIT:-3}" }
                [agent]
                timeout_sec = 120
                [environment]
                build_timeout_sec = 600.0
                cpus = 2
                memory = "2G"
                storage = "512M"
                allow_internet = false
                [environment.env]
                NAME = "value with $dollar"
            """,
            "environment/data.bin": bytes(range(256)),
            "environment/sub/run.sh": "echo hi\n",
            "solution/solve.sh": "git reflog\n",
        },
    )
    (folder / "environment/sub/run.sh").chmod(0o775)
    reading = examine_folder(folder)
    task = reading.task
    assert task.name == "local/fix-git"
    assert task.files == (
        File("/app/data.bin", bytes(range(256))),
        File("/app/sub/run.sh", b"echo hi\n", 0o755),
    )
    assert task.solution == (File("/solution/solve.sh", b"git reflog\n"),)
    assert task.strata == Strata("task", "hard", 0, "software-engineering")
    assert task.limits == Limits(120.0, 900.0, 2.0, 2048, 512, 128)
    assert task.verifier_env == {"MODE": "strict", "LIMIT": "3"}
    assert task.env == {"NAME": "value with $dollar"}
    assert (task.live_system, task.seed, task.workdir) == (True, 9, "/app")
    assert reading.notes == ()


def test_a_dockerfile_places_the_files(tmp_path):
    folder = make(
        tmp_path / "t",
        {
            "environment/Dockerfile": "FROM ubuntu:24.04\nWORKDIR /srv\nENV A=1 B=2\nCOPY pages/ .\nCMD sh\n",
            "environment/pages/index.html": "<p>",
            "task.toml": TOML + '[environment.env]\nB = "3"\n',
        },
    )
    reading = examine_folder(folder)
    assert reading.task.files == (File("/srv/index.html", b"<p>"),)
    assert reading.task.workdir == "/srv"
    assert reading.task.env == {"A": "1", "B": "3"}
    assert len(reading.notes) == 2
    assert "line 1: this machine's own system stands in for the image ubuntu:24.04" in reading.notes[0]
    assert "line 5: CMD is passed over" in reading.notes[1]


def test_a_dockerfile_without_a_workdir_starts_at_the_root(tmp_path):
    reading = examine_folder(make(tmp_path / "t", {"environment/Dockerfile": "FROM x\n"}))
    assert reading.task.workdir == "/"
    assert "no WORKDIR, so the agent starts in /" in reading.notes[-1]


def test_the_id_does_not_depend_on_the_umask(tmp_path):
    one, two = make(tmp_path / "a", {"environment/x": "1"}), make(tmp_path / "b", {"environment/x": "1"})
    for folder, plain in ((one, 0o644), (two, 0o664)):
        for file in folder.rglob("*"):
            if file.is_file():
                file.chmod(plain)
    assert read_folder(one).id == read_folder(two).id


def test_a_mode_that_git_would_lose_is_said_and_can_be_stated(tmp_path):
    folder = make(tmp_path / "t", {"environment/key": "secret", "environment/key2": "secret"})
    (folder / "environment/key").chmod(0o600)
    (folder / "environment/key2").chmod(0o600)
    reading = examine_folder(folder)
    assert reading.task.files[0].mode == 0o644
    assert "environment/key and 1 more" in reading.notes[0]
    (folder / "task.toml").write_text(TOML + '[metadata.strop.modes]\n"environment/key" = "600"\n')
    reading = examine_folder(folder)
    assert [file.mode for file in reading.task.files] == [0o600, 0o644]
    assert "environment/key2:" in reading.notes[0]


@pytest.mark.parametrize(
    ("toml", "note"),
    [
        ("", "the network is public there; here there is none"),
        (
            '[environment]\nnetwork_mode = "allowlist"\nallowed_hosts = ["pypi.org"]',
            "the network is allowlist",
        ),
        ("[environment]\nallow_internet = true", "the network is public"),
        (
            '[environment]\nnetwork_mode = "no-network"\ndocker_image = "a/b:1"',
            "stands in for the image a/b:1",
        ),
        ('[environment]\nnetwork_mode = "no-network"\n[agent]\nuser = 1000', "agent.user is not honoured"),
        ('artifacts = ["/app/out"]\n' + TOML, "artifacts is not honoured"),
        (TOML + '[solution.env]\nA = "1"', "solution.env is not honoured"),
        (TOML + '[environment.healthcheck]\ncommand = "true"', "environment.healthcheck is not honoured"),
    ],
)
def test_what_is_done_otherwise_is_said(tmp_path, toml, note):
    (said,) = examine_folder(make(tmp_path / "t", {"task.toml": toml})).notes
    assert note in said


@pytest.mark.parametrize(
    ("toml", "what"),
    [
        ("[environment]\ngpus = 1", "a GPU"),
        ('[environment]\nos = "windows"', "Windows"),
        ('[[environment.mcp_servers]]\nname = "m"\nurl = "http://x"', "MCP servers"),
        ('[[steps]]\nname = "one"', "several steps"),
        ('[verifier]\nenvironment_mode = "separate"', "a second environment"),
        ('[[verifier.collect]]\ncommand = "ls"', "collect before judging"),
        ('[environment.tpu]\ntype = "v5"\ntopology = "2x2"', "a TPU"),
        ('schema_version = "2.0"', "schema 2.0"),
    ],
)
def test_what_would_change_the_task_is_refused(tmp_path, toml, what):
    refusal = refused(make(tmp_path / "t", {"task.toml": toml}))
    assert what in refusal.what
    assert refusal.where.endswith("task.toml")


@pytest.mark.parametrize("name", ["docker-compose.yaml", "compose.yml"])
def test_several_containers_are_refused(tmp_path, name):
    assert name in refused(make(tmp_path / "t", {f"environment/{name}": "services: {}"})).what


@pytest.mark.parametrize(
    ("toml", "what", "nearest"),
    [
        ("[enviroment]\ncpus = 1", "unknown key 'enviroment'", "environment"),
        ("[environment]\nmemroy_mb = 1", "unknown key 'environment.memroy_mb'", "environment.memory_mb"),
        ("[agent]\ntimeout_sec = 'ten'", "agent.timeout_sec must be a valid number, got 'ten'", ""),
        ("[environment]\ncpus = true", "environment.cpus must be a valid number, got True", ""),
        ("[environment]\nmemory = 'lots'", "environment holds the size 'lots'", ""),
        ("[environment]\nmemory = '1G'\nmemory_mb = 5", "environment contradicts itself", ""),
        ("[metadata]\nsteps = 'three'", "steps must be a valid integer, got 'three'", ""),
        ("[metadata.strop]\nsede = 1", "unknown key 'sede'", "seed"),
        ("[environment.env]\nA = 1", "environment.env.A must be a valid string", ""),
        ("[environment.env]\nA = '${A}'", "environment.env.A is taken from the caller's environment", ""),
        ("[metadata.strop.modes]\n'tests/tset.sh' = '600'", "no file 'tests/tset.sh'", "tests/test.sh"),
        ("[metadata.strop.modes]\n'tests/test.sh' = 'rw'", "'rw' is no octal mode", ""),
        ("= broken", "not valid TOML", ""),
    ],
)
def test_wrong_settings_name_the_file(tmp_path, toml, what, nearest):
    refusal = refused(make(tmp_path / "t", {"task.toml": toml}))
    assert what in refusal.what
    assert "task.toml" in refusal.where
    assert refusal.nearest == nearest


@pytest.mark.parametrize(
    ("files", "what", "where"),
    [
        ({"tests/test.sh": None}, "no tests", "tests/test.sh"),
        ({"tests/test.sh": None, "tests/test_x.py": "x"}, "no tests", "tests/test.sh"),
        ({"instruction.md": None}, "no instruction.md", "instruction.md"),
        ({"instruction.md": " \n"}, "instruction.md is empty", "instruction.md"),
        ({"instruction.md": b"\xff\xfe"}, "not UTF-8", "instruction.md"),
        ({"task.toml": None}, "no task.toml", "task.toml"),
        ({"environment/Dockerfile": b"FROM \xff"}, "not UTF-8", "environment/Dockerfile"),
        (
            {"environment/Dockerfile": "FROM x\n\nRUN apt-get update\n"},
            "RUN is not supported yet",
            "Dockerfile, line 3",
        ),
        ({"environment": "a file"}, "environment is not a folder", "environment"),
        ({"environment/.dockerignore": "*"}, ".dockerignore", "task.toml"),
        (
            {"environment/big": b"0" * (2 << 20), "task.toml": "[environment]\nstorage_mb = 1"},
            "more than the 1 MiB",
            "",
        ),
    ],
)
def test_broken_folders_are_refused(tmp_path, files, what, where):
    refusal = refused(make(tmp_path / "t", files))
    assert what in refusal.what
    assert where in refusal.where


def test_not_a_folder(tmp_path):
    make(tmp_path / "task-one", {})
    refusal = refused(tmp_path / "task-on")
    assert refusal.nearest == "task-one"
    (tmp_path / "file").write_text("x")
    assert "is a file, not a task folder" in refused(tmp_path / "file").what
    assert "Terminal-Bench 1" in refused(_old(tmp_path / "old")).remedy
    assert not is_task_folder(tmp_path)


def _old(folder: Path) -> Path:
    folder.mkdir()
    (folder / "task.yaml").write_text("instruction: x")
    return folder


@pytest.mark.parametrize("part", ["environment", "tests", "solution"])
def test_links_may_not_lead_out(tmp_path, part):
    outside = tmp_path / "outside"
    outside.write_text("secret")
    folder = make(tmp_path / "t", {f"{part}/inside": "fine", f"{part}/sub/x": "x"})
    (folder / part / "good").symlink_to("inside")
    reading = examine_folder(folder)
    assert f"{part}/good: a link is kept as the file that it leads to" in reading.notes
    for target, what in (
        ("../../outside", "leads out of"),
        (str(outside), "leads out of"),
        ("../instruction.md", "leads out of"),
        ("sub", "leads to a folder"),
        ("nowhere", "leads nowhere"),
        ("link", "leads nowhere"),
    ):
        link = folder / part / "link"
        link.symlink_to(target)
        assert what in refused(folder).what
        link.unlink()


def test_a_part_that_is_a_link_is_refused(tmp_path):
    folder = make(tmp_path / "t", {})
    (tmp_path / "elsewhere").mkdir()
    (folder / "environment").symlink_to(tmp_path / "elsewhere")
    assert "environment is not a folder of its own" in refused(folder).what


def test_what_is_no_file_is_refused(tmp_path):
    folder = make(tmp_path / "t", {"environment/x": "x"})
    os.mkfifo(folder / "environment/pipe")
    assert "neither a file nor a folder" in refused(folder).what


def test_a_name_that_is_not_unicode_is_refused(tmp_path):
    folder = make(tmp_path / "t", {"environment/x": "x"})
    with open(os.fsencode(folder / "environment") + b"/\xff", "wb") as file:  # noqa: PTH123
        file.write(b"x")
    assert "is not UTF-8" in refused(folder).what


TASK = Task("suite/one", "Do it.", tests=(File("/tests/test.sh", TEST.encode()),))


def test_writing_refuses_what_is_there(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("here", "dangling"):
        with pytest.raises(Refusal, match="exists already"):
            write_folder(TASK, tmp_path / name)
    with pytest.raises(Refusal, match="there is no folder missing"):
        write_folder(TASK, tmp_path / "missing" / "task")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"tests": ()}, "the task has no tests"),
        ({"instruction": " "}, "instruction.md is empty"),
        ({"instruction": "\ud800"}, "not Unicode"),
        ({"files": (File("/a/../../../x", b""),)}, "cannot lie under"),
        ({"files": (File("relative", b""),)}, "cannot lie under"),
        ({"files": (File("/", b""),)}, "cannot lie under"),
        ({"solution": (File("/elsewhere/solve.sh", b""),)}, "cannot lie under /solution/"),
        ({"files": (File("/a", b"1"), File("/a", b"2"))}, "two files /a"),
        ({"files": (File("/a", b"1"), File("/a/b", b"2"))}, "cannot be written"),
        ({"limits": Limits(agent_seconds=0)}, "agent.timeout_sec must be greater than 0"),
        ({"workdir": "/app/"}, "reads back from a folder as another task"),
    ],
)
def test_what_a_folder_cannot_keep_is_refused_and_nothing_is_left(tmp_path, change, what):
    with pytest.raises(Refusal) as caught:
        write_folder(replace(TASK, **change), tmp_path / "task")
    assert what in caught.value.what
    assert str(tmp_path / "task") in caught.value.where
    assert list(tmp_path.iterdir()) == []


def test_modes_are_on_disk_too(tmp_path):
    write_folder(replace(TASK, files=(File("/app/key", b"", 0o600),)), tmp_path / "task")
    key = tmp_path / "task/environment/rootfs/app/key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert sorted(p.name for p in tmp_path.iterdir()) == ["task"]

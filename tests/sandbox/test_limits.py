"""Finding control groups, on machines described by folders; that limits hold is tested in test_hostile."""

from pathlib import Path

import pytest

from strop.sandbox.limits import INIT_MB, MIB, Groups, Hierarchy, for_init, hierarchies, inodes, memory_bytes
from strop.tasks.task import Limits


@pytest.fixture
def process(tmp_path):
    """Makes a ``/proc/self`` that names groups and the mounts they are under; folders are made too."""

    def make(groups: str, *mounts: tuple[str, str, str, str]) -> Path:
        lines = []
        for kind, options, root, folder in mounts:
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            lines.append(f"30 23 0:26 {root} {tmp_path / folder} rw shared:4 - {kind} cgroup rw,{options}")
        (tmp_path / "cgroup").write_text(groups)
        (tmp_path / "mountinfo").write_text("\n".join(["22 1 0:5 / /proc rw - proc proc rw", *lines]) + "\n")
        return tmp_path

    return make


def test_version_one_is_used_at_the_own_group_of_each_controller(process, tmp_path):
    own = process(
        "5:pids:/\n4:memory:/job/7\n1:cpu,cpuacct:/\n0::/\n",
        ("cgroup", "memory", "/", "memory"),
        ("cgroup", "pids", "/", "pids"),
        ("cgroup", "cpu,cpuacct", "/", "cpu"),
    )
    (tmp_path / "memory/job/7").mkdir(parents=True)
    assert sorted((h.above, h.version, set(h.controllers)) for h in hierarchies(own)) == [
        (tmp_path / "memory/job/7", 1, {"memory"}),
        (tmp_path / "pids", 1, {"pids"}),
    ]


def test_in_a_container_paths_are_relative_to_what_is_mounted(process, tmp_path):
    own = process("4:memory:/docker/abc/inner\n", ("cgroup", "memory", "/docker/abc", "memory"))
    (tmp_path / "memory/inner").mkdir()
    assert [h.above for h in hierarchies(own)] == [tmp_path / "memory/inner"]


def test_version_two_is_used_at_the_nearest_group_that_gives_both_controllers(process, tmp_path):
    own = process("0::/user.slice/app.slice/term.scope\n", ("cgroup2", "nsdelegate", "/", "unified"))
    scope = tmp_path / "unified/user.slice/app.slice/term.scope"
    scope.mkdir(parents=True)
    (scope / "cgroup.subtree_control").write_text("\n")
    (scope.parent / "cgroup.subtree_control").write_text("memory pids cpu\n")
    (scope.parent.parent / "cgroup.subtree_control").write_text("memory pids\n")
    assert hierarchies(own) == [Hierarchy(scope.parent, 2, frozenset({"memory", "pids"}))]


def test_version_two_without_controllers_gives_nothing(process, tmp_path):
    own = process("0::/\n", ("cgroup2", "rw", "/", "unified"))
    (tmp_path / "unified/cgroup.subtree_control").write_text("cpu\n")
    assert hierarchies(own) == []


def test_a_missing_or_vanished_group_gives_nothing(process):
    assert hierarchies(process("4:memory:/gone\n", ("cgroup", "memory", "/", "memory"))) == []
    assert hierarchies(process("0::/\n")) == []


def as_if_made_by_the_kernel(groups: Groups, *names: str) -> Path:
    (folder,) = (Path(name) for name in groups.folders)
    (folder / "0").mkdir()
    for name in names:
        (folder / "0" / name).write_text("")
    return folder / "0"


def test_version_two_limits_are_written(tmp_path):
    groups = Groups([Hierarchy(tmp_path, 2, frozenset({"memory", "pids"}))])
    slot = as_if_made_by_the_kernel(groups, "memory.max", "memory.swap.max", "pids.max")
    limits = Limits(memory_mb=100, storage_mb=10, processes=7)
    groups.hold(0, limits)
    assert (slot.parent / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert int((slot / "memory.max").read_text()) == memory_bytes(limits)
    assert (slot / "memory.swap.max").read_text() == "0"
    assert (slot / "pids.max").read_text() == "8", "the init is a process too"
    assert groups.holds("memory") and groups.holds("pids")
    assert "version 2" in groups.note()


def test_version_one_limits_are_written_in_the_order_that_the_kernel_accepts(tmp_path, monkeypatch):
    groups = Groups([Hierarchy(tmp_path, 1, frozenset({"memory"}))])
    as_if_made_by_the_kernel(groups, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
    written = []
    monkeypatch.setattr("strop.sandbox.limits._write", lambda path, value: written.append(path.name))
    groups.hold(0, Limits(memory_mb=100))
    groups.hold(0, Limits(memory_mb=100))
    groups.hold(0, Limits(memory_mb=200))
    groups.hold(0, Limits(memory_mb=50))
    plain, with_swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
    assert written == [plain, with_swap, with_swap, plain, plain, with_swap]


def test_judging_gets_room_and_the_next_lease_does_not_keep_it(tmp_path):
    groups = Groups([Hierarchy(tmp_path, 2, frozenset({"memory", "pids"}))])
    slot = as_if_made_by_the_kernel(groups, "memory.max", "pids.max")
    for judging, more in ((False, 0), (True, 128), (False, 0)):
        groups.hold(0, Limits(), judging=judging)
        assert int((slot / "memory.max").read_text()) == memory_bytes(Limits()) + more * MIB


def test_where_no_group_can_be_made_the_note_says_so(tmp_path):
    closed = tmp_path / "absent"
    groups = Groups([Hierarchy(closed, 1, frozenset({"memory"}))])
    assert groups.folders == [] and not groups.holds("memory")
    assert "per process only" in groups.note()
    assert for_init(Limits(memory_mb=300), groups)["data"] == (300 + INIT_MB) * MIB


def test_memory_covers_the_storage_that_lies_in_it():
    limits = Limits(memory_mb=100, storage_mb=1000)
    assert memory_bytes(limits) > 1100 * MIB
    assert inodes(Limits(storage_mb=1)) == 4096
    assert inodes(Limits(storage_mb=256)) == 16_384
    assert inodes(Limits(storage_mb=10_240)) == 50_000


def test_the_init_is_told_what_groups_do_not_hold(tmp_path):
    groups = Groups([Hierarchy(tmp_path, 1, frozenset({"memory"}))])
    told = for_init(Limits(memory_mb=10, storage_mb=20, processes=30), groups)
    assert told == {"storage": 20 * MIB, "inodes": 4096, "files": 4096, "processes": 31, "data": None}


def test_groups_are_removed_with_what_is_in_them(tmp_path):
    groups = Groups([Hierarchy(tmp_path, 1, frozenset({"memory"}))])
    (Path(groups.folders[0]) / "0").mkdir()
    groups.remove()
    groups.remove()
    assert list(tmp_path.iterdir()) == []

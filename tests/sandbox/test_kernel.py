"""Machines that cannot run sandboxes, described by a folder that looks like their root."""

import pytest

from strop.errors import Refusal, SandboxFault
from strop.sandbox.kernel import Host, explain, require

FULL = "         0          0 4294967295\n"


@pytest.fixture
def host(tmp_path):
    """Makes a machine that is fit, but for what the test says."""

    def make(files=None, **differences):
        fit = {
            "usr/bin/bash": "",
            "proc/sys/user/max_user_namespaces": "96363\n",
            "proc/self/status": "Name:\tpython\nCapEff:\t000001ffffffffff\n",
            "proc/self/uid_map": FULL,
        }
        for name, text in {**fit, **(files or {})}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if text is not None:
                path.write_text(text)
        return Host(**{"system": "Linux", "machine": "x86_64", "user": 0, "root": tmp_path, **differences})

    return make


def test_a_fit_machine_is_not_refused(host):
    require(host())
    require(host(user=1000))
    require(host({"proc/self/status": "CapEff:\t0000000000000000\n"}, user=1000))


@pytest.mark.parametrize(
    ("files", "differences", "what", "remedy"),
    [
        ({}, {"system": "Darwin"}, "this is Darwin", "Linux"),
        ({}, {"machine": "riscv64"}, "riscv64", "architectures"),
        ({"usr/bin/bash": None}, {}, "no bash", "install"),
        (
            {"proc/sys/user/max_user_namespaces": "0\n"},
            {},
            "switched off",
            "sysctl -w user.max_user_namespaces",
        ),
        (
            {"proc/sys/kernel/unprivileged_userns_clone": "0\n"},
            {"user": 1000},
            "ordinary users",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        ({"proc/self/status": "CapEff:\t00000000a80425fb\n"}, {}, "CAP_SYS_ADMIN", "ordinary user"),
        ({"proc/self/uid_map": "0 100000 65536\n"}, {}, "65536 user ids", "ordinary user"),
    ],
)
def test_an_unfit_machine_is_refused_by_name_with_a_remedy(host, files, differences, what, remedy):
    with pytest.raises(Refusal) as caught:
        require(host(files, **differences))
    assert what in caught.value.what
    assert remedy in caught.value.remedy


def test_root_may_make_namespaces_that_ordinary_users_may_not(host):
    require(host({"proc/sys/kernel/unprivileged_userns_clone": "0\n"}))


@pytest.mark.parametrize(
    ("message", "user", "files", "remedy"),
    [
        ("unshare: Operation not permitted", 0, {}, "--privileged"),
        ("clone3: No space left on device", 0, {}, "user.max_user_namespaces"),
        ("mount of overlay at /new: No such device", 0, {}, "modprobe overlay"),
        ("mount of proc at /new/proc: Operation not permitted", 0, {}, "systempaths=unconfined"),
        (
            "mount of strop at /work: Permission denied",
            1000,
            {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
            "apparmor_restrict_unprivileged_userns=0",
        ),
        ("something new: Invalid argument", 0, {}, "the first line names"),
    ],
)
def test_a_failed_start_is_explained(host, message, user, files, remedy):
    refusal = explain(SandboxFault("start", message), host(files, user=user))
    assert message in refusal.what
    assert remedy in refusal.remedy

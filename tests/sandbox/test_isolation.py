"""What a sandbox shows of the host, and what it lets anyone do to it: both as little as possible."""

import asyncio
import os
import socket
from pathlib import Path

from strop.sandbox.seccomp import _ABSENT, _FORBIDDEN
from strop.sandbox.syscalls import NUMBERS
from strop.tasks.workspace import Command
from tests.sandbox.conftest import SMALL

PROBE_SOCKETS = """
import errno, socket
for family in (1, 2, 10, 16, 17, 38, 40, 44, 31):
    kinds = {16: socket.SOCK_RAW, 17: socket.SOCK_RAW, 38: socket.SOCK_SEQPACKET}
    kind = kinds.get(family, socket.SOCK_DGRAM)
    try:
        socket.socket(family, kind).close(); print(family, "open")
    except OSError as error:
        print(family, errno.errorcode[error.errno])
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
except OSError as error:
    print("raw", errno.errorcode[error.errno])
"""

PROBE_CALLS = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
numbers = eval(sys.argv[1])
for name, number in sorted(numbers.items()):
    ctypes.set_errno(0)
    result = libc.syscall(number, *[ctypes.c_long(0)] * 6)
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""


def run(in_sandbox, line, **options):
    async def scenario(sandbox):
        return await sandbox.run(Command(line, **options))

    return in_sandbox(scenario)


def test_the_host_is_not_there(in_sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the host's own words")
    project = Path(__file__).parents[2]
    home = Path("~").expanduser()
    places = [
        secret,
        project,
        home / ".bashrc",
        "/etc/shadow",
        "/etc/machine-id",
        "/var/lib/dpkg/status",
        "/boot",
    ]
    places += [
        f"/proc/1/root{secret}",
        f"/proc/self/root/../..{project}",
        "/usr/local/lib/strop-probe",
        "/usr/src",
    ]
    line = "; ".join(f"ls -d '{place}'/* '{place}' 2>/dev/null" for place in places)
    found = run(in_sandbox, line).stdout.decode().split()
    assert set(found) <= {"/etc/shadow", "/usr/src"}
    words = run(
        in_sandbox,
        f'grep -rl "the host\'s own words" /app /etc /home /mnt /opt /root /srv /tmp /var {tmp_path}',
    )
    assert words.stdout == b""
    shadow = run(in_sandbox, "cat /etc/shadow")
    assert shadow.stdout.startswith(b"root:*:")


def test_only_expected_things_lie_in_the_root(in_sandbox):
    listing = run(
        in_sandbox, "ls -A / /home /root /mnt /opt /sys /tmp /app /usr/local/bin /usr/src"
    ).stdout.decode()
    root, *others = listing.split("\n\n")
    folders = set(root.splitlines()[1:])
    assert folders <= set(
        "app bin dev etc home lib lib32 lib64 libx32 media mnt opt "
        "proc root run sbin srv sys tmp usr var".split()
    )
    assert all(len(other.splitlines()) == 1 for other in others), "nothing but the name of the folder"


def test_programs_of_the_host_work(in_sandbox):
    line = (
        "set -e; python3 -c 'import json, ssl, sqlite3; print(json.dumps([1]))'; awk 'BEGIN {print 2}'; "
        "id -un; date +%Z"
    )
    assert run(in_sandbox, line).stdout == b"[1]\n2\nroot\nUTC\n"


def test_system_files_look_owned_by_root_and_can_be_changed(in_sandbox, is_root):
    owner = run(in_sandbox, "stat -c %U /usr/bin/env /etc/passwd /app /root").stdout.split()
    assert owner == ([b"root"] * 4 if is_root else [b"nobody", b"root", b"root", b"root"])
    line = (
        "echo '#!/bin/sh\necho mine' > /usr/bin/mine && chmod +x /usr/bin/mine && mine && "
        "rm -r /usr/local/bin && mkdir /usr/local/bin"
    )
    completed = run(in_sandbox, line)
    assert (completed.stdout, completed.exit_code) == (b"mine\n", 0), completed.stderr
    changed = run(in_sandbox, "echo extra >> /usr/bin/env; tail -c 6 /usr/bin/env")
    assert changed.stdout.endswith(b"extra\n") == is_root


def test_one_sandbox_changes_nothing_for_the_next(in_sandbox):
    spoil = "rm -rf /etc /usr/bin/awk /app; echo x > /tmp/x; echo y > /usr/local/bin/y; echo z > /dev/shm/z"
    run(in_sandbox, spoil)
    fresh = run(in_sandbox, "cat /etc/hostname; awk 'BEGIN {print 1}'; ls /tmp /usr/local/bin /dev/shm /app")
    assert fresh.stdout.startswith(b"sandbox\n1\n")
    assert not {b"x", b"y", b"z"} & set(fresh.stdout.split())


def test_devices_are_there_and_cannot_be_altered(in_sandbox):
    line = """
        head -c 3 /dev/zero | wc -c; head -c 5 /dev/urandom | wc -c; echo gone > /dev/null
        echo full > /dev/full; ls /dev/pts; cat < /dev/fd/0
        python3 -c 'import pty; print(pty.openpty()[0] > 2)'
        echo x > /dev/shm/x && cat /dev/shm/x
        chmod 777 /dev/null; rm -f /dev/zero; touch /dev/new; mknod /tmp/disk b 254 0; mknod /tmp/mem c 1 1
        ls /tmp; ls /dev
    """
    completed = run(in_sandbox, line)
    out = completed.stdout.split()
    assert out[:5] == [b"3", b"5", b"ptmx", b"True", b"x"]
    assert set(out[5:]) == set(
        b"fd full null ptmx pts random shm stderr stdin stdout tty urandom zero".split()
    )
    for refusal in (b"No space left", b"Read-only file system", b"Operation not permitted"):
        assert refusal in completed.stderr


def test_mounting_and_new_namespaces_are_refused(in_sandbox):
    attempts = [
        "mount -t tmpfs none /mnt",
        "mount --bind / /mnt",
        "mount -o remount,rw /proc/sys",
        "umount /proc/sys",
        "umount /usr",
        "unshare -U true",
        "unshare -m true",
        "unshare -n true",
        "nsenter -t 1 -m true",
        "hostname changed",
        "date -s 2001-01-01",
        "ip link set lo down",
        "sysctl -w kernel.panic=1",
        "echo 1 > /proc/sys/kernel/panic",
        "echo b > /proc/sysrq-trigger",
        "dmesg",
        "nice -n -5 true 2>&1 | grep -v denied",
        "chroot /app true",
    ]
    line = "\n".join(
        f"( {attempt} ) > /dev/null 2>&1 && echo '{attempt.replace(chr(39), '')}'" for attempt in attempts
    )
    assert run(in_sandbox, line + "\nmountpoint -q /usr && hostname").stdout == b"sandbox\n"


def test_forbidden_system_calls(in_sandbox):
    table = NUMBERS[os.uname().machine]
    numbers = {name: table[name] for name in (_ABSENT | _FORBIDDEN) & table.keys()}
    completed = run(in_sandbox, ("python3", "-c", PROBE_CALLS, repr(numbers)))
    answers = dict(line.split() for line in completed.stdout.decode().splitlines())
    assert answers == {name: "ENOSYS" if name in _ABSENT else "EPERM" for name in numbers}


def test_socket_families(in_sandbox):
    completed = run(in_sandbox, ("python3", "-c", PROBE_SOCKETS))
    answers = dict(line.split() for line in completed.stdout.decode().splitlines())
    allowed = {"1": "open", "2": "open", "10": "open", "16": "open", "raw": "EPERM"}
    assert answers == {**dict.fromkeys(("17", "38", "40", "44", "31"), "EAFNOSUPPORT"), **allowed}


def test_no_network_but_ones_own_loopback(in_sandbox):
    fetch = 'import urllib.request as u; print(u.urlopen("http://127.0.0.1/hostname").read())'
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = f"""
            (echo > /dev/tcp/127.0.0.1/{port}) 2>&1 | grep -om1 refused
            (echo > /dev/tcp/192.0.2.1/80) 2>&1 | grep -om1 unreachable
            python3 -m http.server 80 --bind 127.0.0.1 --directory /etc > /dev/null 2>&1 &
            for i in $(seq 100); do
                python3 -c '{fetch}' 2>/dev/null && break
            done
            cat /proc/net/dev | grep -c :
        """
        assert run(in_sandbox, line).stdout == b"refused\nunreachable\nb'sandbox\\n'\n1\n"


def test_a_used_network_is_not_lent_again(in_sandbox, open_pool):
    """Traffic leaves traces (here a counter); the next sandbox of the slot must not find them."""

    async def main():
        seen = []
        async with open_pool(maximum=1) as pool:
            for _ in range(3):
                async with pool.lease(SMALL) as sandbox:
                    counters = await sandbox.run(
                        Command("grep lo: /proc/net/dev | tr -s ' ' | cut -d' ' -f 3,4")
                    )
                    seen.append(counters.stdout)
                    await sandbox.run(Command("echo hi > /dev/udp/127.0.0.1/9"))
        return seen

    assert asyncio.run(main()) == [b"0 0\n"] * 3


def test_the_init_cannot_be_reached_by_signals_or_through_proc(in_sandbox):
    line = """
        for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done
        cat /proc/1/environ /proc/1/maps /proc/1/mem 2>&1 | grep -c denied
        ls /proc/1/fd /proc/1/root /proc/1/cwd /proc/1/ns/mnt 2>&1 | grep -ci denied
        tr '\\0' '\\n' < /proc/1/cmdline
        (exec 3<>/proc/1/fd/3) 2>&1 | grep -c denied
        python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))'
        kill -9 -1
    """
    completed = run(in_sandbox, line)
    lines = [line for line in completed.stdout.decode().splitlines() if line.strip()]
    assert lines[0] == "3"
    assert int(lines[1]) >= 3
    assert lines[2:] == ["strop", "1", "-1"]
    assert (completed.exit_code, completed.timed_out) == (1, False), "there is nobody else to kill"


def test_a_command_inherits_nothing(in_sandbox):
    completed = run(
        in_sandbox,
        "ls -l /proc/self/fd | awk '{print $9, $11}'; "
        "ulimit -c; ulimit -n; umask; cat /proc/self/oom_score_adj",
    )
    lines = completed.stdout.decode().split("\n")
    descriptors = [line.split()[0] for line in lines if line[:1].isdigit() and " " in line]
    assert descriptors == ["0", "1", "2", "3"], "3 is the folder that ls itself reads"
    assert lines[-5:-1] == ["0", "4096", "0022", "500"]
    status = run(in_sandbox, "grep -E 'Cap(Inh|Bnd|Amb)|NoNewPrivs|SigBlk|SigIgn|Seccomp:' /proc/self/status")
    fields = dict(line.split() for line in status.stdout.decode().splitlines())
    c_library_own = 0x180000000
    fields["SigIgn:"] = f"{int(fields['SigIgn:'], 16) & ~c_library_own:016x}"
    assert fields == {
        "NoNewPrivs:": "0",
        "CapInh:": "0" * 16,
        "CapBnd:": "00000000a80405fb",
        "CapAmb:": "0" * 16,
        "SigBlk:": "0" * 16,
        "SigIgn:": "0" * 16,
        "Seccomp:": "2",
    }


def test_other_users_exist_where_ids_are_mapped(in_sandbox, is_root):
    line = (
        "setpriv --reuid 1000 --regid 1000 --clear-groups id -u; "
        "touch /app/x; chown 4242 /app/x; stat -c %u /app/x; chown 70000 /app/x"
    )
    completed = run(in_sandbox, line)
    assert completed.stdout == (b"1000\n4242\n" if is_root else b"0\n")
    assert b"Invalid argument" in completed.stderr


def test_sandboxes_do_not_share_ids(open_pool, is_root):
    async def main():
        async with open_pool() as pool, pool.lease(SMALL) as one, pool.lease(SMALL) as other:
            return [(await box.run(Command("cat /proc/self/uid_map"))).stdout.split() for box in (one, other)]

    one, other = asyncio.run(main())
    if is_root:
        assert one[2] == other[2] == b"65536"
        assert abs(int(one[1]) - int(other[1])) >= 65_536
        assert min(int(one[1]), int(other[1])) > 0, "no sandbox may be the host's root"
    else:
        assert one[1:] == other[1:] == [b"0", b"1"]

"""The filter, run by a small interpreter of classic BPF; in a real sandbox it is tested in test_isolation."""

import errno
import struct

import pytest

from strop.sandbox.seccomp import _ABSENT, _FORBIDDEN, program
from strop.sandbox.syscalls import KEYED, NUMBERS

KEY = 0x1234_5678_9ABC_DEF0
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0x7FFF0000


def answer(machine: str, number: int, *arguments: int, architecture: int | None = None) -> str:
    """What the filter says to a call: ``allow``, or the name of an error."""
    six = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture or ARCHITECTURES[machine], 0, *six)
    code = list(struct.iter_unpack("=HBBI", program(machine, KEY)))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif operation == 0x06:
            return "allow" if operand == ALLOWED else errno.errorcode[operand & 0xFFFF]
        else:
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: accumulator & operand != 0,
            }[operation]
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", NUMBERS)
def test_every_forbidden_call_is_refused_and_the_keyed_ones_pass_with_the_key_only(machine):
    numbers = NUMBERS[machine]
    for name in (_FORBIDDEN | _ABSENT) & numbers.keys():
        refused = "ENOSYS" if name in _ABSENT else "EPERM"
        assert answer(machine, numbers[name]) == refused, name
        with_key = answer(machine, numbers[name], 0, 0, 0, 0, 0, KEY)
        assert with_key == ("allow" if name in KEYED else refused), name
        for almost in (KEY ^ 1, KEY ^ (1 << 63), KEY & 0xFFFFFFFF, KEY >> 32 << 32):
            assert answer(machine, numbers[name], 0, 0, 0, 0, 0, almost) == refused, name


@pytest.mark.parametrize("machine", NUMBERS)
def test_every_other_call_passes(machine):
    numbers = NUMBERS[machine]
    closed = {numbers[name] for name in _FORBIDDEN | _ABSENT | {"socket"} if name in numbers}
    for number in set(range(500)) - closed:
        assert answer(machine, number) == "allow", number


@pytest.mark.parametrize("machine", NUMBERS)
def test_clone_may_make_processes_and_threads_but_no_namespaces(machine):
    clone = NUMBERS[machine]["clone"]
    assert answer(machine, clone, 17) == "allow"
    assert answer(machine, clone, 0x3D0F00) == "allow"
    for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer(machine, clone, flag | 17) == "EPERM", hex(flag)


@pytest.mark.parametrize("machine", NUMBERS)
def test_socket_families_are_those_that_namespaces_confine(machine):
    socket = NUMBERS[machine]["socket"]
    allowed = {family for family in range(64) if answer(machine, socket, family) == "allow"}
    assert allowed == {1, 2, 10, 16}
    assert answer(machine, socket, 40) == "EAFNOSUPPORT"


def test_calls_of_other_architectures_do_not_exist():
    assert answer("x86_64", 20, architecture=0x40000003) == "ENOSYS"
    assert answer("aarch64", 20, architecture=0x40000028) == "ENOSYS"
    assert answer("x86_64", 0x40000000 | 39) == "ENOSYS"


def test_an_unknown_machine_has_no_filter():
    with pytest.raises(KeyError):
        program("vax", KEY)

import pickle

import pytest

from strop.errors import (
    EXIT_BROKEN,
    EXIT_REFUSED,
    Fault,
    FaultRecord,
    GraderFault,
    MachineryFault,
    PolicyFault,
    Refusal,
    SandboxFault,
    StropError,
    TaskFault,
    ToolFault,
    nearest,
)

FAULTS = [PolicyFault, ToolFault, SandboxFault, TaskFault, GraderFault, MachineryFault]


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_names_its_boundary(kind: type[Fault]) -> None:
    fault = kind("lost", "it died")
    assert kind.__name__.lower() == f"{fault.boundary}fault"
    assert str(fault) == f"{fault.boundary} fault (lost): it died"
    assert fault.record() == FaultRecord(fault.boundary, "lost", "it died")
    assert fault.record().blames_policy == (kind in (PolicyFault, ToolFault))
    assert fault.exit_code == EXIT_BROKEN


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_crosses_from_process_to_process(kind: type[Fault]) -> None:
    fault = pickle.loads(pickle.dumps(kind("lost", "it died")))
    assert type(fault) is kind and fault.record() == kind("lost", "it died").record()


def test_a_refusal_has_four_parts_and_leaves_out_the_empty_ones() -> None:
    full = Refusal("unknown key 'a'", "x.toml", "b", "rename it")
    assert str(full).split("\n") == [
        "unknown key 'a'",
        "  where:   x.toml",
        "  nearest: b",
        "  remedy:  rename it",
    ]
    assert str(Refusal("no", remedy="go")) == "no\n  remedy:  go"
    assert str(Refusal("no")) == "no"
    assert full.exit_code == EXIT_REFUSED and isinstance(full, StropError)
    assert str(pickle.loads(pickle.dumps(full))) == str(full)


def test_the_nearest_choice() -> None:
    assert nearest("shel", ["shell", "read"]) == "shell"
    assert nearest("zzz", ["b", "a", "a"]) == "one of a, b"
    assert nearest("zzz", ["a", "a"]) == "a"
    assert nearest("zzz", [str(n) for n in range(13)]) == ""
    assert nearest("zzz", []) == ""

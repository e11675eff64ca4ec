import asyncio

import pytest

from strop.clock import ManualClock
from strop.config import Settings
from strop.errors import MachineryFault, SandboxFault
from strop.messages import ToolCall
from strop.tools.dispatch import EXPLANATION, Toolbox, standard_tools
from strop.tools.tool import Tool, ToolResult

BOX = Toolbox(standard_tools("/app"))


def call(name: str, arguments: dict, box: Toolbox = BOX, workspace=None):
    return asyncio.run(box.call(ToolCall("1", name, arguments), workspace))


def test_the_specs_tell_all_that_a_model_needs() -> None:
    specs = {spec.name: spec for spec in BOX.specs()}
    assert list(specs) == ["shell", "read", "write", "edit", "submit"]
    assert all(spec.description.endswith(".") for spec in specs.values())
    assert specs["read"].parameters["required"] == ["path"]
    assert specs["edit"].parameters["required"] == ["path", "old", "new"]
    for spec in specs.values():
        assert all(field.get("description") for field in spec.parameters["properties"].values())


def test_a_call_reaches_its_tool(workspace) -> None:
    box = Toolbox(standard_tools(str(workspace.root)))
    assert call("write", {"path": "a", "content": "hi\n"}, box, workspace).error is None
    assert call("shell", {"command": "cat a"}, box, workspace).text == "hi\n"


def test_an_unknown_tool_brings_the_nearest() -> None:
    result = call("shel", {"command": "ls"})
    assert result.error == "unknown_tool" and "nearest: shell" in result.text


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("shell", {}, "'command' is missing"),
        ("shell", {"comand": "ls"}, "nearest: command"),
        ("shell", {"command": 5}, "command must be a valid string, got 5"),
        ("read", {"path": "a", "offset": "x"}, "offset must be a valid integer"),
        ("read", {"path": "a", "offset": 0}, "offset must be greater than or equal to 1"),
        ("read", {}, "It takes path: string, offset: integer = 1"),
        ("submit", {"answer": 1}, "It takes no arguments"),
        ("shell", {"command": "echo \ud800"}, "half a character"),
    ],
)
def test_wrong_arguments_are_explained_in_a_line(name: str, arguments: dict, says: str) -> None:
    result = call(name, arguments)
    assert result.error == "bad_arguments" and says in result.text and "\n" not in result.text


def test_an_explanation_does_not_repeat_a_flood() -> None:
    assert len(call("shell", {"x" * 100_000: 1}).text) < EXPLANATION + 200
    assert len(call("x" * 100_000, {}).text) < EXPLANATION + 200


class Nothing(Settings):
    """Do nothing."""


def tool(act) -> Toolbox:
    return Toolbox([Tool("try", Nothing, act)], seconds=30)


def test_every_call_has_a_deadline() -> None:
    ended = []

    async def hang(arguments: Nothing, workspace: object) -> ToolResult:
        try:
            await asyncio.sleep(10_000)
        finally:
            ended.append(True)
        return ToolResult("never")

    clock = ManualClock()
    result = clock.run(tool(hang).call(ToolCall("1", "try", {}), None))
    assert (result.error, clock.now(), ended) == ("timeout", 30.0, [True])
    assert "30 s" in result.text


def test_a_lost_machine_passes_through() -> None:
    async def lose(arguments: Nothing, workspace: object) -> ToolResult:
        raise SandboxFault("lost", "gone")

    with pytest.raises(SandboxFault, match="gone"):
        call("try", {}, tool(lose))


@pytest.mark.parametrize("error", [ValueError("odd"), TimeoutError("of its own"), OSError("odd")])
def test_a_broken_tool_is_a_fault_of_the_machinery(error: Exception) -> None:
    async def fail(arguments: Nothing, workspace: object) -> ToolResult:
        raise error

    with pytest.raises(MachineryFault, match=r"\(tool\).*the tool try broke") as fault:
        call("try", {}, tool(fail))
    assert fault.value.__cause__ is error


def test_cancelling_a_call_cancels_its_tool() -> None:
    async def hang(arguments: Nothing, workspace: object) -> ToolResult:
        await asyncio.sleep(10_000)
        return ToolResult("never")

    async def main() -> bool:
        task = asyncio.create_task(tool(hang).call(ToolCall("1", "try", {}), None))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert ManualClock().run(main())

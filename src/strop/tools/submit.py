"""The end of the work, said by the one who does it."""

from strop.config import Settings
from strop.tasks.workspace import Workspace
from strop.tools.tool import Tool, ToolResult


class Submit(Settings):
    """Say that the work is done; it is judged as it stands."""


def submit_tool() -> Tool:
    return Tool("submit", Submit, _submit)


async def _submit(arguments: Submit, workspace: Workspace) -> ToolResult:
    return ToolResult("submitted", ends_episode=True)

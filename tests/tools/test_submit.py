import asyncio

from strop.messages import ToolCall
from strop.tools.dispatch import Toolbox
from strop.tools.submit import submit_tool


def test_submitting_ends_the_episode(workspace) -> None:
    result = asyncio.run(Toolbox([submit_tool()]).call(ToolCall("1", "submit", {}), workspace))
    assert result.ends_episode and result.error is None and result.text

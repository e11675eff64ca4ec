"""The tokens of one conversation.

What was sampled is appended as it was sampled; what the memory shows is rendered once, when it is new.
A view that extends the one before extends the segment; any other view starts a new one.
"""

from collections.abc import Sequence

from strop.messages import Message, ToolSpec
from strop.renderer import Renderer
from strop.trace import Segment, SegmentBuilder


class Record:
    """The growing segments of one conversation; it knows what of the view it has rendered."""

    def __init__(self, renderer: Renderer, tools: Sequence[ToolSpec]) -> None:
        self._renderer = renderer
        self._tools = tools
        self._segments: list[SegmentBuilder] = []
        self._seen: list[Message] = []
        self._tail: list[int] = []

    @property
    def ids(self) -> list[int]:
        """The whole context as it stands, in token ids."""
        return self._segments[-1].ids

    def extend(self, view: Sequence[Message]) -> None:
        """Render what is new in `view`, up to the place where the assistant is to speak.

        The message that follows what was seen last is the assistant's own, recorded by `sampled`.
        """
        answered = len(self._seen)
        if self._segments and list(view[:answered]) == self._seen and len(view) > answered:
            delta = self._renderer.next(view, self._tools, answered=answered, tail=self._tail)
        else:
            self._segments.append(SegmentBuilder("rewritten" if self._segments else "start"))
            delta = self._renderer.first(view, self._tools)
        self._segments[-1].render(delta)
        self._seen = list(view)

    def sampled(self, ids: Sequence[int], logprobs: Sequence[float], versions: Sequence[int]) -> None:
        """Record the assistant's reply to the view of the last `extend`."""
        self._segments[-1].sample(list(ids), list(logprobs), list(versions))
        self._tail = list(ids)

    def segments(self) -> tuple[Segment, ...]:
        return tuple(builder.seal() for builder in self._segments)

"""Ctrl-C at any moment, and SIGTERM like it.

The first one is answered once, as befits the moment: before a verb begins the process just ends, plain code
gets a KeyboardInterrupt, a running event loop has its main task cancelled, and what must not stay half done
holds the answer back until it is done. Later ones are not heard: the end is under way, and every wait in it
has a deadline.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Answer = Callable[[], object]
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def leave() -> None:
    """Nothing was begun, so nothing has to be ended."""
    os.write(2, b"\ninterrupted\n")
    os._exit(128 + signal.SIGINT)


def stop() -> None:
    """Unwind what is under way."""
    raise KeyboardInterrupt


def deafen() -> None:
    """Hear no more, to the end of the process."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


class Interruption:
    """Whether one came, and who answers it.

    Example: ``with INTERRUPTION.answered_by(task.cancel): loop.run_until_complete(task)``.
    """

    def __init__(self) -> None:
        self.came = False
        self._unanswered = False
        self._answer: Answer | None = leave

    def listen(self) -> None:
        """Be told of the signals, from now on; a caller who has them ignored is obeyed."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._hear)

    def begin(self) -> None:
        """A verb begins: from now on there may be something to unwind."""
        self._answer = stop

    @contextmanager
    def answered_by(self, answer: Answer | None) -> Iterator[None]:
        """Within the block `answer` is called, also for one held back before it; None holds it back."""
        before, self._answer = self._answer, answer
        try:
            self._settle()
            yield
        finally:
            self._answer = before
            self._settle()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        deafen()
        self.came = self._unanswered = True
        self._settle()

    def _settle(self) -> None:
        if self._unanswered and self._answer is not None:
            self._unanswered = False
            self._answer()


INTERRUPTION = Interruption()
"""That of this process, which has but one set of signal handlers."""

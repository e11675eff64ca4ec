"""The clock on the wall, which only the command line hands out."""

import time


class WallClock:
    """Seconds since 1970 that never run backwards, whatever happens to the system's time meanwhile."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        return self._offset + time.monotonic()

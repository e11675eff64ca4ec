"""Where the command begins, and ``python -m strop``.

Nothing is imported here that takes time: until a verb begins, Ctrl-C ends the process without a word of
Python's.
"""

import importlib
import signal
import sys

from strop.cli.interruption import INTERRUPTION, deafen


def main() -> None:
    """Run the command line and exit with its code."""
    INTERRUPTION.listen()
    try:
        importlib.import_module("strop.cli.app").main()
    except KeyboardInterrupt:  # it came after the last word
        sys.exit(128 + signal.SIGINT)
    finally:
        deafen()  # what is left is Python's own end


if __name__ == "__main__":
    main()

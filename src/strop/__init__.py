"""Strop: post-training for language-model agents.

Importing this package prints nothing and pulls in nothing; names are imported from the file that
defines them, for example ``from strop.trace import Trace``.
"""

__version__ = "0.1.0"

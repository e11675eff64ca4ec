"""Words of a Dockerfile line: quotes, escapes and variables, as its shell-like grammar has them.

A variable that nothing set is refused and never quietly empty: it would come from the image or from the
caller's environment, and neither is known here.
"""

import re
from collections.abc import Mapping

from strop.errors import Refusal, nearest

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(:[-+])(.*?))?\})", re.DOTALL)


class Words:
    """Splits and expands text under a set of variables.

    >>> Words({"HOME": "/root"}, "Dockerfile, line 3").split("A='x y' B=$HOME/b")
    ['A=x y', 'B=/root/b']
    """

    def __init__(self, variables: Mapping[str, str], where: str) -> None:
        self._variables, self._where = variables, where

    def split(self, text: str) -> list[str]:
        """The words, unquoted and expanded.

        Raises:
            Refusal: a quote is not closed, or a variable is not set.
        """
        words: list[str] = []
        word: str | None = None
        for piece, quoted in self._pieces(text):
            if not quoted and piece.isspace():
                if word is not None:
                    words.append(word)
                word = None
            else:
                word = (word or "") + piece
        return words if word is None else [*words, word]

    def expand(self, text: str) -> str:
        """The whole text as one word, spaces kept.

        Raises:
            Refusal: as `split`.
        """
        return "".join(piece for piece, _ in self._pieces(text))

    def _pieces(self, text: str) -> list[tuple[str, bool]]:
        """Characters and values, each with whether it is safe from being a separator."""
        pieces: list[tuple[str, bool]] = []
        at, quote = 0, ""
        while at < len(text):
            character = text[at]
            if quote == "'":
                quote, piece = ("", "") if character == "'" else (quote, character)
                pieces.append((piece, True))
            elif character == "\\" and at + 1 < len(text):
                at += 1
                kept = quote and text[at] not in '"\\$'
                pieces.append(("\\" + text[at] if kept else text[at], True))
            elif character == quote or (not quote and character in "'\""):
                quote = "" if quote else character
                pieces.append(("", True))
            elif character == "$" and text[at + 1 : at + 2].isidentifier() | text.startswith("${", at):
                found = self._variable(text, at)
                pieces.append((self._value(found), True))
                at = found.end() - 1
            else:
                pieces.append((character, bool(quote)))
            at += 1
        if quote:
            raise Refusal(f"the quote {quote} is not closed", self._where, remedy="close it")
        return pieces

    def _variable(self, text: str, at: int) -> re.Match[str]:
        found = _VARIABLE.match(text, at)
        if found is None or "${" in (found[4] or ""):
            form = text[at:].split()[0]
            raise Refusal(f"the form {form} is not supported", self._where, remedy="write the value out")
        return found

    def _value(self, found: re.Match[str]) -> str:
        name = found[1] or found[2]
        value = self._variables.get(name)
        if found[3] == ":-":
            return value or self.expand(found[4])
        if found[3] == ":+":
            return self.expand(found[4]) if value else ""
        if value is None:
            raise Refusal(
                f"${name} is set by no ENV or ARG before it",
                self._where,
                nearest(name, self._variables),
                "write the value out",
            )
        return value

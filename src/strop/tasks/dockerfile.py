r"""The part of a Dockerfile that says where files go, carried out without an image.

``FROM`` anything stands for this machine's own system. ``COPY`` of files that lie beside the Dockerfile,
``WORKDIR``, ``ENV`` and ``ARG`` are carried out; what only matters to a container engine is noted and passed
over; whatever would have to run (``RUN``, ``ADD``) is refused with its line until images are built.
"""

import fnmatch
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from strop.errors import Refusal, nearest
from strop.tasks.words import Words
from strop.tasks.workspace import File

_PASSED_OVER = {
    "LABEL": "a label",
    "MAINTAINER": "a label",
    "EXPOSE": "there is no network to expose a port to",
    "CMD": "nothing is started but the agent",
    "ENTRYPOINT": "nothing is started but the agent",
    "HEALTHCHECK": "nothing is started but the agent",
    "STOPSIGNAL": "nothing is started but the agent",
    "SHELL": "it matters to RUN alone",
    "VOLUME": "folders are thrown away with the sandbox",
}
_REFUSED = ("RUN", "ADD", "ONBUILD")
_KNOWN = ("FROM", "ARG", "ENV", "WORKDIR", "USER", "COPY", *_PASSED_OVER, *_REFUSED)

_FOLDERS = frozenset(
    "/ /app /bin /etc /home /lib /mnt /opt /root /run /sbin /srv /tmp /usr /usr/bin /usr/lib /usr/local "
    "/usr/local/bin /usr/share /var /var/tmp".split()
)
"""Folders that every system has: copying one file to such a place copies into it."""


@dataclass(frozen=True)
class Build:
    """What a Dockerfile amounts to; `workdir` is None where it names none."""

    files: tuple[File, ...]
    workdir: str | None
    env: Mapping[str, str]
    notes: tuple[str, ...]


def build(text: str, context: Mapping[str, File], where: str) -> Build:
    """Carry out a Dockerfile over the files of its folder, keyed by path as if the folder were the root.

    Raises:
        Refusal: names `where`, the line, and what of it this version cannot do.
    """
    builder = _Builder(context, where)
    for number, instruction, rest in _instructions(text, where):
        builder.carry_out(number, instruction, rest)
    return builder.result()


def _instructions(text: str, where: str) -> Iterator[tuple[int, str, str]]:
    """Each instruction with the number of its first line, continuation lines joined, comments gone."""
    if re.match(r"\s*#\s*escape\s*=\s*[^\\\s]", text, re.IGNORECASE):
        raise Refusal(
            "the escape directive is not supported", f"{where}, line 1", remedy="continue lines with \\"
        )
    pending, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first or number
        body = line.rstrip()
        if body.endswith("\\"):
            pending += body[:-1]
            continue
        yield first, *_parted(pending + body)
        pending, first = "", 0
    if pending.strip():
        yield first, *_parted(pending)


def _parted(line: str) -> tuple[str, str]:
    word, *rest = line.split(None, 1)
    return word.upper(), rest[0].strip() if rest else ""


class _Builder:
    def __init__(self, context: Mapping[str, File], where: str) -> None:
        self._context, self._file = context, where
        self._where = where
        self._files: dict[str, File] = {}
        self._env: dict[str, str] = {}
        self._arguments: dict[str, str] = {}
        self._workdir: str | None = None
        self._notes: list[str] = []
        self._based = False

    def carry_out(self, line: int, instruction: str, rest: str) -> None:
        self._where = f"{self._file}, line {line}"
        if instruction not in _KNOWN:
            close = nearest(instruction, _KNOWN)
            raise Refusal(f"unknown instruction {instruction!r}", self._where, close, "correct the word")
        if not self._based and instruction not in ("FROM", "ARG"):
            raise Refusal(f"{instruction} comes before FROM", self._where, remedy="begin with FROM")
        if instruction in _REFUSED:
            raise self._unbuildable(instruction)
        if instruction in _PASSED_OVER:
            self._notes.append(f"{self._where}: {instruction} is passed over, {_PASSED_OVER[instruction]}")
            return
        step = {
            "FROM": self._from,
            "ARG": self._arg,
            "ENV": self._set,
            "WORKDIR": self._enter,
            "USER": self._user,
            "COPY": self._copy,
        }[instruction]
        step(rest)

    def result(self) -> Build:
        if not self._based:
            raise Refusal("the Dockerfile has no FROM", where=self._file, remedy="begin with FROM")
        files = tuple(self._files[path] for path in sorted(self._files))
        return Build(files, self._workdir, dict(self._env), tuple(self._notes))

    def _unbuildable(self, instruction: str) -> Refusal:
        remedy = "images are built in a later version; copy the files that are needed, or use what "
        return Refusal(f"{instruction} is not supported yet", self._where, remedy=remedy + "this machine has")

    def _words(self, text: str) -> list[str]:
        return Words({**self._arguments, **self._env}, self._where).split(text)

    def _whole(self, text: str) -> str:
        return Words({**self._arguments, **self._env}, self._where).expand(text)

    def _from(self, rest: str) -> None:
        if self._based:
            raise Refusal("a second FROM is not supported yet", self._where, remedy="use one stage")
        image = next((word for word in self._words(rest) if not word.startswith("--")), "")
        if not image:
            raise Refusal("FROM names no image", self._where, remedy="FROM debian:stable, for example")
        self._based = True
        self._notes.append(f"{self._where}: this machine's own system stands in for the image {image}")

    def _arg(self, rest: str) -> None:
        for word in self._words(rest):
            name, equals, value = word.partition("=")
            if equals:
                self._arguments[name] = value

    def _set(self, rest: str) -> None:
        words = self._words(rest)
        if not words:
            raise Refusal("ENV sets nothing", self._where, remedy="ENV NAME=value")
        if "=" not in rest.split(None, 1)[0]:
            name, _, value = rest.partition(" ")
            self._env[name] = self._whole(value.strip())
            return
        pairs = [word.partition("=") for word in words]
        broken = next((name for name, equals, _ in pairs if not equals or not name), None)
        if broken is not None:
            raise Refusal(f"ENV cannot read {broken!r}", self._where, remedy='ENV NAME="a value with spaces"')
        self._env |= {name: value for name, _, value in pairs}

    def _enter(self, rest: str) -> None:
        path = self._whole(rest)
        if not path:
            raise Refusal("WORKDIR names no folder", self._where, remedy="WORKDIR /app")
        self._workdir = absolute(self._workdir or "/", path)

    def _user(self, rest: str) -> None:
        if self._whole(rest).split(":")[0] not in ("root", "0"):
            self._notes.append(f"{self._where}: USER {rest} is not honoured, the agent is the sandbox's root")

    def _copy(self, rest: str) -> None:
        mode, text = self._flags(rest)
        if text.startswith("<<"):
            raise self._unbuildable("COPY of a here-document")
        words = self._listed(text)
        if len(words) < 2:
            raise Refusal("COPY needs a source and a destination", self._where, remedy="COPY data/ /app/")
        *sources, target = words
        found = [path for source in sources for path in self._matches(source)]
        folder = target.endswith(("/", "/.")) or target in (".", "..")
        place = absolute(self._workdir or "/", target)
        if len(found) > 1 and not (folder or place in self._folders()):
            raise Refusal(
                f"COPY of several sources to {target!r}, which is not said to be a folder",
                self._where,
                remedy="end the destination with /",
            )
        folder = folder or place in self._folders()
        for path in found:
            self._place(path, place, mode, into=folder)

    def _place(self, source: str, place: str, mode: int | None, *, into: bool) -> None:
        if source in self._context:
            file = self._context[source]
            target = posixpath.join(place, posixpath.basename(source)) if into else place
            self._files[target] = replace(file, path=target, mode=mode if mode is not None else file.mode)
            return
        below = source.rstrip("/") + "/"
        for path, file in self._context.items():
            if path.startswith(below):
                target = posixpath.join(place, path[len(below) :])
                self._files[target] = replace(file, path=target, mode=mode if mode is not None else file.mode)

    def _flags(self, rest: str) -> tuple[int | None, str]:
        mode = None
        while rest.startswith("--"):
            flag, _, rest = rest.partition(" ")
            name, _, value = flag.partition("=")
            rest = rest.strip()
            if name == "--chmod" and re.fullmatch("[0-7]{3,4}", value):
                mode = int(value, 8)
            elif name == "--chown":
                if set(value.split(":")) - {"root", "0"}:
                    self._notes.append(f"{self._where}: {flag} is not honoured, the files are root's")
            elif name != "--link":
                raise self._unbuildable(f"COPY {flag}")
        return mode, rest

    def _listed(self, text: str) -> list[str]:
        """The words of the list form, or of the plain one where it is no list of strings, as Docker does."""
        try:
            words = json.loads(text)
        except ValueError:
            return self._words(text)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return self._words(text)
        return [self._whole(word) for word in words]

    def _matches(self, source: str) -> list[str]:
        """The files and folders of the context that a source names; the context's root is "/"."""
        if re.match(r"[a-z]+://|git@", source):
            raise self._unbuildable(f"COPY of {source}")
        relative = posixpath.normpath(source.lstrip("/") or ".")
        if relative == ".." or relative.startswith("../"):
            raise Refusal(
                f"COPY of {source!r} leaves environment/",
                self._where,
                remedy="copy the file into environment/",
            )
        pattern = posixpath.normpath("/" + relative)
        names = {"/", *self._context} | {p for path in self._context for p in _parents(path)}
        if not any(mark in pattern for mark in "*?["):
            found = [pattern] if pattern in names else []
        else:
            found = sorted(name for name in names if _matches(name, pattern))
        if not found:
            close = nearest(relative, [name.lstrip("/") for name in names if name != "/"])
            raise Refusal(
                f"COPY finds no files at {source!r} in environment/",
                self._where,
                close,
                "correct the name or add the file",
            )
        return found

    def _folders(self) -> set[str]:
        """Folders that exist by now, as far as can be known."""
        entered = {self._workdir} if self._workdir else set()
        return {*_FOLDERS, *entered} | {parent for path in self._files for parent in _parents(path)}


def absolute(workdir: str, path: str) -> str:
    """`path`, taken from `workdir`, without dots, doubled or trailing slashes."""
    return "/" + posixpath.normpath(posixpath.join(workdir, path)).lstrip("/")


def _parents(path: str) -> Iterator[str]:
    while path not in ("/", ""):
        path = posixpath.dirname(path)
        yield path


def _matches(name: str, pattern: str) -> bool:
    """Component by component: a star never reaches over a slash."""
    ours, theirs = name.split("/"), pattern.split("/")
    return len(ours) == len(theirs) and all(map(fnmatch.fnmatchcase, ours, theirs))

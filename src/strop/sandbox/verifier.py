"""What judging needs and agents never see: pytest and its dependencies, in a read-only folder.

The packages are those of the running environment, found through their metadata and copied once into a
cache. ``bin/pytest`` runs them under the sandbox's own ``/usr/bin/python3``.
"""

import hashlib
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from strop.errors import Refusal
from strop.sandbox.reaper import PREFIX, reap, token

_ROOT = "pytest"
_INTERPRETER = "/usr/bin/python3"
_COMMAND = f"""#!{_INTERPRETER}
import sys

import pytest

sys.exit(pytest.main())
"""
_SITE = '''"""Keeps what lies in the working folder from posing as the standard library while judging.

With -c, -m or a program on standard input, Python looks for modules in the working folder first: in a
folder that an agent wrote to, a file named json.py would then run as the judge. The folder moves to the
end of the search path. A script's own folder stays where it is.
"""

import os
import sys


class WorkingFolderLast:
    @staticmethod
    def find_spec(name, path=None, target=None):
        first = sys.path[0] if sys.path else None
        if sys.argv[0] not in ("-c", "-m", "-", ""):
            sys.meta_path.remove(WorkingFolderLast)
        elif first in ("", os.getcwd()):
            sys.meta_path.remove(WorkingFolderLast)
            sys.path.append(sys.path.pop(0))
        return None


sys.meta_path.insert(0, WorkingFolderLast)
'''


def build(cache: Path) -> Path:
    """The verifier layer for the running environment, made when `cache` does not hold it yet.

    Where the host has no ``/usr/bin/python3`` there is none in sandboxes either, and it only lies there.

    Raises:
        Refusal: pytest is not installed, does not run under the host's ``/usr/bin/python3``, or the cache
            cannot be written.
    """
    distributions = _closure(_ROOT)
    versions = " ".join(f"{d.name}-{d.version}" for d in distributions)
    name = hashlib.sha256(f"{versions} {_COMMAND} {_SITE}".encode()).hexdigest()[:16]
    layer = cache / f"verifier-{name}"
    if layer.is_dir():
        return layer
    try:
        cache.mkdir(parents=True, exist_ok=True)
        reap(cache)
        partial = cache / f"{PREFIX}{token()}-{name}"
        try:
            _fill(partial, distributions)
            _publish(partial, layer)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise Refusal(
            f"cannot prepare the verifier layer: {error}",
            where=str(cache),
            remedy="free some space there, or choose another cache folder",
        ) from error
    return layer


def _closure(root: str) -> list[metadata.Distribution]:
    """The distribution `root` and all it needs here, by name."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [root]
    while wanted:
        name = wanted.pop()
        if name.lower() in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            raise Refusal(
                f"{name} is not installed, and judging needs it",
                where=sys.prefix,
                remedy=f"pip install {name}",
            ) from None
        found[name.lower()] = distribution
        needs = [Requirement(text) for text in distribution.requires or ()]
        wanted += [n.name for n in needs if n.marker is None or n.marker.evaluate({"extra": ""})]
    return [found[name] for name in sorted(found)]


def _fill(folder: Path, distributions: list[metadata.Distribution]) -> None:
    library, programs = folder / "lib", folder / "bin"
    library.mkdir(parents=True)
    programs.mkdir()
    for distribution in distributions:
        for file in distribution.files or ():
            if ".." in file.parts or "__pycache__" in file.parts or file.suffix in (".so", ".pyc"):
                continue
            target = library / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(file.locate()), target)
    (library / "sitecustomize.py").write_text(_SITE)
    (programs / "pytest").write_text(_COMMAND)
    (programs / "py.test").symlink_to("pytest")
    _compile(library)
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent == programs else 0o644)


def _compile(library: Path) -> None:
    """Compile for the interpreter of the sandboxes, and see that pytest runs under it."""
    if not Path(_INTERPRETER).exists():
        return
    _python("-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(library))
    trial = f"import sys; sys.path.insert(0, {str(library)!r}); import pytest"
    outcome = _python("-I", "-c", trial)
    if outcome.returncode != 0:
        reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise Refusal(
            f"the installed pytest does not run under {_INTERPRETER}: {reason}",
            where=_INTERPRETER,
            remedy="install a newer system Python, or an older pytest beside Strop",
        )


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (_INTERPRETER, *arguments),
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,  # out of reach of Ctrl-C, which would leave half of the library compiled
    )


def _publish(partial: Path, layer: Path) -> None:
    try:
        partial.rename(layer)
    except OSError:
        if not layer.is_dir():
            raise  # else another process was quicker, and made the same

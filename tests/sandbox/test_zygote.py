"""The parent's own files: what they may import, so that a sandbox carries no more than it must."""

import ast
import subprocess
import sys
from pathlib import Path

import strop
from strop.sandbox import zygote

SOURCE = Path(strop.__file__).parent
PROGRAM = """
import sys
before = set(sys.modules)
sys.path.insert(0, sys.argv[1])
import strop.sandbox.zygote
print(*sorted(sys.modules))
"""


def test_it_runs_on_the_standard_library_alone():
    command = [sys.executable, "-I", "-S", "-E", "-c", PROGRAM, str(SOURCE.parent)]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    own = {name for name in modules if name.split(".")[0] == "strop"}
    others = {name.split(".")[0] for name in modules} - {"strop"}
    assert others <= set(sys.stdlib_module_names) | {"__main__"}
    assert own <= {"strop", "strop.sandbox"} | {f"strop.sandbox.{name}" for name in own_files(zygote)}
    heavy = {"asyncio", "dataclasses", "inspect", "logging", "pathlib", "subprocess", "threading", "tempfile"}
    assert not heavy & set(modules)


def test_the_door_of_the_chapter_imports_nothing():
    for file in (SOURCE / "__init__.py", SOURCE / "sandbox/__init__.py"):
        tree = ast.parse(file.read_text())
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def own_files(module) -> set[str]:
    """The names of the chapter's files that `module` imports, by way of others too."""
    found: set[str] = set()
    wanted = [module.__name__.split(".")[-1]]
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        for node in ast.walk(ast.parse((SOURCE / f"sandbox/{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "strop.sandbox":
                wanted += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("strop.sandbox."):
                wanted.append(str(node.module).split(".")[-1])
    return found

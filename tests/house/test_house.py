"""The habits of the house, as tests: sizes, imports, recipes, doors."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from strop.cli.app import VERBS
from strop.cli.job import read_job

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "strop"
FILES = sorted(SOURCE.rglob("*.py"))

LONG_FILES = {
    "suites/shell/placing.py": "eighteen tables of wordings, one function a family",
}
LONG_FUNCTIONS = {
    "suites/shell": "a family is one table of wordings and commands",
}


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_stay_readable() -> None:
    long = {str(f.relative_to(SOURCE)): len(f.read_text().splitlines()) for f in FILES}
    assert {name: lines for name, lines in long.items() if lines > 300 and name not in LONG_FILES} == {}


def test_functions_stay_readable() -> None:
    long = [
        f"{file.relative_to(SOURCE)}:{node.name} {(node.end_lineno or 0) - node.lineno + 1}"
        for file in FILES
        if not str(file.relative_to(SOURCE)).startswith(tuple(LONG_FUNCTIONS))
        for node in functions(file)
        if (node.end_lineno or 0) - node.lineno + 1 > 50
    ]
    assert long == []


def test_nobody_takes_more_than_six_parameters() -> None:
    crowded = []
    for file in FILES:
        if file.parent.name == "cli":
            continue  # click hands every option over as a parameter
        for node in functions(file):
            names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if len([name for name in names if name not in ("self", "cls")]) > 6:
                crowded.append(f"{file.relative_to(SOURCE)}:{node.name}")
    allowed = {
        "training/packing.py:attend",  # the signature is transformers'
    }
    assert set(crowded) - allowed == set()


def test_no_import_gets_round_the_contract() -> None:
    hidden = []
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        top = {id(node) for node in tree.body}
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module and module.startswith("strop") and id(node) not in top:
                hidden.append(f"{file.relative_to(SOURCE)}:{node.lineno} {module}")
    assert hidden == []


def test_chapters_have_no_door_but_their_files() -> None:
    for door in SOURCE.rglob("__init__.py"):
        body = ast.parse(door.read_text(encoding="utf-8")).body
        assert isinstance(body[0], ast.Expr), f"{door} has no docstring"
        if door.parent != SOURCE:
            assert len(body) == 1, f"{door} holds more than its docstring"


@pytest.mark.parametrize(
    "module",
    ["strop", "strop.trace", "strop.config", "strop.renderer", "strop.engine.scheduler", "strop.cli.app"],
)
def test_importing_it_is_silent_and_pulls_in_no_torch(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_every_verb_has_its_file() -> None:
    verbs = {file.stem.removesuffix("_verb") for file in (SOURCE / "cli").glob("*_verb.py")}
    assert verbs == set(VERBS)


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_parses(recipe: Path) -> None:
    assert read_job(recipe, ()).steps > 0


def test_every_dependency_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line and not line.startswith("#")
    }
    extras = {name: needs for name, needs in project["optional-dependencies"].items() if name != "cuda"}
    wanted = [*project["dependencies"], *(need for needs in extras.values() for need in needs)]
    names = {re.split(r"[<>=\[ ]", need)[0].lower().replace("_", "-") for need in wanted}
    assert names - pins == set()

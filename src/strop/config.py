"""Settings: pydantic models in TOML, beside what they set.

A settings model is frozen and refuses what it does not know, naming the nearest thing it does. Values
come from a file, then from ``a.b=c`` overrides, and are checked before anything starts. No environment
variable is read here or anywhere below `cli/`.
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import pydantic
import tomli_w
from pydantic import BaseModel, ConfigDict

from strop.errors import Refusal, nearest

S = TypeVar("S", bound="Settings")


class Settings(BaseModel):
    """What every settings model extends."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    def fingerprint(self) -> str:
        """Twelve hex digits that change whenever a resolved value does."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    def to_toml(self) -> str:
        """The resolved values as TOML; unset ones (None) are left out."""
        return tomli_w.dumps(self.model_dump(mode="json", exclude_none=True))


def load(model: type[S], path: Path, overrides: Sequence[str] = ()) -> S:
    """Read `path`, apply overrides such as ``train.steps=40``, check the whole.

    Raises:
        Refusal: the file is missing or is not TOML, a key is unknown, a value has a wrong type.
    """
    return check(model, override(read_toml(path), overrides), str(path), overrides)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file, unchecked.

    Raises:
        Refusal: the file is missing, unreadable or not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        beside = [str(found) for found in path.parent.glob("*.toml")]
        raise Refusal(
            f"there is no file {path.name}",
            where=str(path),
            nearest=nearest(str(path), beside),
            remedy="give the path of a TOML file",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(
            f"cannot read {path.name}: {getattr(error, 'strerror', None) or error}",
            where=str(path),
            remedy="give the path of a TOML file that you may read",
        ) from error
    except (ValueError, RecursionError) as error:
        raise Refusal(
            f"not valid TOML: {error}",
            where=str(path),
            remedy='strings need quotes: name = "value"',
        ) from None


def override(tables: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `tables` with each ``a.b=c`` applied; `c` is read as TOML where it can be, else as text.

    Raises:
        Refusal: an override has no ``=``, or goes through something that is no table.
    """
    result: dict[str, Any] = json.loads(json.dumps(tables, default=str))
    for item in overrides:
        dotted, equals, raw = item.partition("=")
        if not equals or not all(dotted.strip().split(".")):
            raise Refusal(
                f"cannot read the override {item!r}",
                where="--set",
                remedy="write --set table.key=value",
            )
        *tables_on_the_way, key = dotted.strip().split(".")
        table = result
        for depth, name in enumerate(tables_on_the_way, 1):
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise Refusal(
                    f"{name!r} in {dotted!r} is a value, not a table",
                    where=f"--set {item}",
                    remedy=f"write --set {'.'.join(tables_on_the_way[:depth])}=value",
                )
        table[key] = _literal(raw.strip())
    return result


def check(model: type[S], tables: Mapping[str, Any], where: str, overrides: Sequence[str] = ()) -> S:
    """The settings that `tables` state.

    Raises:
        Refusal: names the first wrong key, `where` it stands unless one of `overrides` put it there, and the
            nearest known key or the wanted type.
    """
    try:
        return model.model_validate(_tuples(tables), strict=True)
    except pydantic.ValidationError as error:
        raise _explain(model, error, where, overrides) from None


def _tuples(value: Any) -> Any:
    """Lists as the tuples that settings hold; all else must have its type already: "60" is no number."""
    if isinstance(value, Mapping):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _literal(raw: str) -> Any:
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return raw


def _explain(
    model: type[BaseModel], error: pydantic.ValidationError, where: str, overrides: Sequence[str]
) -> Refusal:
    problems = error.errors(include_url=False)
    first = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path = [str(part) for part in first["loc"]]
    dotted = ".".join(path)
    for item in overrides:
        place, blamed = f"{item.partition('=')[0].strip()}.", f"{dotted}."
        if place.startswith(blamed) or blamed.startswith(place):
            where = f"--set {item}"
    if first["type"] == "extra_forbidden":
        return Refusal(
            f"unknown key {dotted!r}",
            where=where,
            nearest=_sibling(model, path),
            remedy="rename the key or take it out",
        )
    if first["type"] == "missing":
        return Refusal(f"the key {dotted!r} is missing", where=where, remedy=f"add {dotted} = ...")
    given = f", got {first['input']!r}" if not isinstance(first["input"], dict | list) else ""
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if first["type"] == "model_type":
        message = "a table"
    wanted = f"must be {message}" if first["msg"].startswith("Input should be") else message
    return Refusal(f"{dotted or 'the file'} {wanted}{given}", where=where, remedy=_remedy(model, path))


def _sibling(model: type[BaseModel], path: Sequence[str]) -> str:
    """The nearest known key at the same place; then, for a bare key, the same name in a sub-table."""
    owner = _model_at(model, path[:-1])
    if owner is None:
        return ""
    prefix = ".".join(path[:-1])
    known = list(owner.model_fields)
    for name, field in owner.model_fields.items():
        inner = _inner_model(field.annotation)
        if inner is not None and path[-1] in inner.model_fields:
            return ".".join([*path[:-1], name, path[-1]])
    close = nearest(path[-1], known)
    return f"{prefix}.{close}" if prefix and close and not close.startswith("one of") else close


def _remedy(model: type[BaseModel], path: Sequence[str]) -> str:
    """What the key means, and what it is when nobody says."""
    owner = _model_at(model, path[:-1])
    field = owner.model_fields.get(path[-1]) if owner is not None and path else None
    if field is None:
        return "correct the value"
    means = f"{path[-1]}: {field.description}" if field.description else "correct the value."
    is_plain = isinstance(field.default, int | float | str)
    return f"{means} Left out, it is {json.dumps(field.default)}." if is_plain else means


def _model_at(model: type[BaseModel], path: Sequence[str]) -> type[BaseModel] | None:
    owner: type[BaseModel] | None = model
    for part in path:
        if part.isdigit():
            continue
        field = owner.model_fields.get(part) if owner is not None else None
        owner = _inner_model(field.annotation) if field is not None else None
    return owner


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    """The settings model inside an annotation such as ``X``, ``X | None`` or ``tuple[X, ...]``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None

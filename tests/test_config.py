import datetime
import tomllib
from pathlib import Path
from typing import Literal

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.config import Settings, check, load, override, read_toml
from strop.errors import Refusal


class Learner(Settings):
    """How to learn."""

    learning_rate: float = 1e-3
    """Step of the optimiser."""
    steps: int = pydantic.Field(default=40, ge=1)
    schedule: Literal["cosine", "flat"] = "flat"


class Lane(Settings):
    name: str
    slots: int = 4


class Recipe(Settings):
    """A whole."""

    model: str
    seed: int = 0
    note: str | None = None
    train: Learner = Learner()
    warm: Learner | None = None
    lanes: tuple[Lane, ...] = ()

    @pydantic.field_validator("model")
    @classmethod
    def _known(cls, model: str) -> str:
        if model == "none":
            raise ValueError("the model must be one that exists")
        return model


def write(folder: Path, text: str) -> Path:
    path = folder / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(call) -> Refusal:
    with pytest.raises(Refusal) as caught:
        call()
    return caught.value


def test_a_file_is_read_checked_and_overridden(tmp_path) -> None:
    path = write(tmp_path, 'model = "embedded"\n[train]\nsteps = 3\n[[lanes]]\nname = "fast"\n')
    recipe = load(Recipe, path, ["train.learning_rate=0.5", "warm.steps=7", "note=two words"])
    assert recipe == Recipe(
        model="embedded",
        note="two words",
        train=Learner(steps=3, learning_rate=0.5),
        warm=Learner(steps=7),
        lanes=(Lane(name="fast"),),
    )


@pytest.mark.parametrize(
    ("text", "what", "nearest"),
    [
        ('model="m"\nsede=1', "unknown key 'sede'", "seed"),
        ('model="m"\n[train]\nlerning_rate=1', "unknown key 'train.lerning_rate'", "train.learning_rate"),
        ('model="m"\n[warm]\nstep=1', "unknown key 'warm.step'", "warm.steps"),
        ('model="m"\n[[lanes]]\nname="a"\nslot=1', "unknown key 'lanes.0.slot'", "lanes.0.slots"),
        ('model="m"\nlearning_rate=1', "unknown key 'learning_rate'", "train.learning_rate"),
        ("model=3\nsede=1", "unknown key 'sede'", "seed"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest(tmp_path, text: str, what: str, nearest: str) -> None:
    path = write(tmp_path, text)
    caught = refusal(lambda: load(Recipe, path))
    assert (caught.what, caught.where, caught.nearest) == (what, str(path), nearest)
    assert caught.remedy


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the key 'model' is missing"),
        ('model="m"\n[[lanes]]\nslots=1', "the key 'lanes.0.name' is missing"),
        ("model=3", "model must be a valid string, got 3"),
        ('model="m"\nseed="3"', "seed must be a valid integer, got '3'"),
        ('model="m"\nseed=3.0', "seed must be a valid integer, got 3.0"),
        ('model="m"\nseed=true', "seed must be a valid integer, got True"),
        ('model="m"\n[train]\nlearning_rate=nan', "train.learning_rate must be a finite number, got nan"),
        ('model="m"\n[train]\nsteps=0', "train.steps must be greater than or equal to 1, got 0"),
        ('model="m"\n[train]\nschedule="cos"', "train.schedule must be 'cosine' or 'flat', got 'cos'"),
        ('model="m"\ntrain=3', "train must be a table, got 3"),
        ('model="none"', "model the model must be one that exists, got 'none'"),
    ],
)
def test_a_missing_or_wrong_value_is_refused(tmp_path, text: str, what: str) -> None:
    path = write(tmp_path, text)
    caught = refusal(lambda: load(Recipe, path))
    assert (caught.what, caught.where) == (what, str(path))


def test_what_a_key_means_is_the_remedy(tmp_path) -> None:
    caught = refusal(lambda: load(Recipe, write(tmp_path, 'model="m"\n[train]\nlearning_rate="fast"')))
    assert caught.remedy == "learning_rate: Step of the optimiser. Left out, it is 0.001."


def test_what_an_override_put_there_is_not_blamed_on_the_file(tmp_path) -> None:
    path = write(tmp_path, 'model="m"\nsede=1')
    assert refusal(lambda: load(Recipe, path, ["seed=2"])).where == str(path)
    path = write(tmp_path, 'model="m"')
    for item in (
        "seed=x",
        "train=3",
        "train.steps=0",
        "train.stepz = 1",
        "lanes=[{name='a', slots='many'}]",
        "a.b=1",
    ):
        assert refusal(lambda item=item: load(Recipe, path, ["note=a", item])).where == f"--set {item}"


def test_a_file_that_is_not_there_brings_the_nearest(tmp_path) -> None:
    write(tmp_path, "")
    caught = refusal(lambda: read_toml(tmp_path / "recip.toml"))
    assert caught.nearest == str(tmp_path / "recipe.toml")
    assert refusal(lambda: read_toml(tmp_path / "no" / "x.toml")).what == "there is no file x.toml"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"model = m", "not valid TOML"),
        (b"model = '\xff'", "cannot read recipe.toml"),
        (b"a=1\na=2", "not valid"),
        (b"a=" + b"[" * 100_000, "not valid"),
        (b"a=" + b"9" * 10_000, "not valid"),
    ],
)
def test_a_file_that_is_not_toml_is_refused(tmp_path, data: bytes, says: str) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes(data)
    caught = refusal(lambda: read_toml(path))
    assert says in caught.what and caught.where == str(path)


def test_a_folder_is_not_a_file(tmp_path) -> None:
    assert "cannot read" in refusal(lambda: read_toml(tmp_path)).what


@pytest.mark.parametrize(
    ("item", "value"),
    [
        ("a=1", 1),
        ("a=-1.5e3", -1500.0),
        ("a=true", True),
        ("a=[1, 2]", [1, 2]),
        ('a="1"', "1"),
        ("a=words and = signs", "words and = signs"),
        ("a=", ""),
        (" a = 1 ", 1),
        ("a={b = 1}", {"b": 1}),
    ],
)
def test_an_override_is_toml_where_it_can_be(item: str, value: object) -> None:
    assert override({}, [item]) == {"a": value}


def test_overrides_leave_what_they_are_given_alone_and_the_last_wins() -> None:
    tables = {"a": {"b": 1, "c": 2}, "day": datetime.date(2025, 1, 2)}
    assert override(tables, ["a.b=3", "a.b=4", "x.y.z=5"]) == {
        "a": {"b": 4, "c": 2},
        "day": "2025-01-02",
        "x": {"y": {"z": 5}},
    }
    assert tables["a"] == {"b": 1, "c": 2}


@pytest.mark.parametrize("item", ["a", "=1", "a.=1", ".a=1", "a..b=1", ""])
def test_an_override_that_cannot_be_read_is_refused(item: str) -> None:
    caught = refusal(lambda: override({}, [item]))
    assert repr(item) in caught.what and "--set" in caught.remedy


def test_an_override_through_a_value_is_refused() -> None:
    caught = refusal(lambda: override({"a": 1}, ["a.b=2"]))
    assert caught.what == "'a' in 'a.b' is a value, not a table"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        Learner().steps = 3


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 10**9), st.text(max_size=9))
def test_what_is_written_as_toml_reads_back_equal(rate: float, steps: int, note: str) -> None:
    recipe = Recipe(model=note + "m", note=note, train=Learner(learning_rate=rate, steps=steps))
    back = check(Recipe, tomllib.loads(recipe.to_toml()), "here")
    assert back == recipe
    assert back.fingerprint() == recipe.fingerprint()


def test_a_fingerprint_follows_every_resolved_value_and_nothing_else() -> None:
    prints = {
        Recipe(model="m").fingerprint(),
        Recipe(model="n").fingerprint(),
        Recipe(model="m", train=Learner(steps=41)).fingerprint(),
        Recipe(model="m", lanes=(Lane(name="a"),)).fingerprint(),
    }
    assert len(prints) == 4 and all(len(p) == 12 for p in prints)
    assert Recipe(model="m", seed=0, train=Learner(steps=40)).fingerprint() == Recipe(model="m").fingerprint()

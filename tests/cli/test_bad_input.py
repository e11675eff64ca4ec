"""Every wrong request is answered on one screen, with what, where and the remedy; nothing stays behind."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from strop.cli.app import run
from strop.errors import EXIT_BROKEN, EXIT_NEGATIVE, EXIT_REFUSED, EXIT_UNHEARD
from tests.cli.started import STROP

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "quickstart.toml"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """The screen that answers a refused command."""
    assert run([str(argument) for argument in arguments]) == EXIT_REFUSED
    said = capsys.readouterr()
    assert said.err.count("\n") <= 24, "more than a screen"
    assert "Traceback" not in said.err
    return said.err


def in_parts(said: str) -> dict[str, str]:
    """A refusal's parts: what, where, nearest, remedy."""
    what, *lines = said.rstrip().split("\n")
    return {"what": what} | {
        name.strip(): text.strip() for name, _, text in (x.partition(":") for x in lines)
    }


def make_task(folder: Path) -> Path:
    assert run(["tasks", "new", str(folder)]) == 0
    return folder


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nearest: train" in refused(capsys, "trian")


def test_a_task_folder_without_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_task(tmp_path / "task")
    shutil.rmtree(folder / "tests")
    for verb in (("run", folder, "--agent", "reference"), ("check", folder)):
        said = refused(capsys, *verb, "--runs", tmp_path / "runs")
        assert "test.sh" in said and str(folder) in said and "remedy" in said
    assert not list((tmp_path / "runs").glob("run-*"))


def test_a_task_toml_with_a_wrong_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_task(tmp_path / "task")
    text = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(
        text + '\n[verifier]\ntimeout_sec = "soon"\n'
        if "[verifier]" not in text
        else text.replace("timeout_sec", 'timeout_sec = "soon"\n#', 1)
    )
    said = refused(capsys, "check", folder, "--runs", tmp_path / "runs")
    assert "timeout_sec" in said and "task.toml" in said and "soon" in said


def test_a_recipe_with_a_wrong_type_or_an_unknown_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("steps = 'many'\n")
    said = refused(capsys, "train", recipe, "--runs", tmp_path / "runs")
    assert "steps" in said and str(recipe) in said and "many" in said
    recipe.write_text("[learner]\nlerning_rate = 1e-4\n")
    said = refused(capsys, "train", recipe, "--runs", tmp_path / "runs")
    assert "learner.learning_rate" in said
    said = refused(capsys, "train", RECIPE, "--set", "rollout.group=4", "--runs", tmp_path / "runs")
    assert "rollout.groups" in said
    said = refused(
        capsys, "train", RECIPE, "--set", "rollout.staleness.bound=-1", "--runs", tmp_path / "runs"
    )
    assert "bound" in said and "remedy" in said
    said = refused(capsys, "train", tmp_path / "none.toml", "--runs", tmp_path / "runs")
    assert "none.toml" in said
    assert not (tmp_path / "runs").exists(), "something was written for a refused request"


def test_a_model_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = refused(capsys, "eval", "shell", "--model", "embeded", "--runs", tmp_path / "runs")
    assert "embeded" in said and "embedded" in said
    said = refused(capsys, "train", RECIPE, "--set", "model=smolm2", "--runs", tmp_path / "runs")
    assert "smolm2" in said and "smollm2" in said
    assert not list((tmp_path / "runs").glob("*-1"))


def test_a_run_that_exists_already(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "precious").write_text("kept")
    said = refused(capsys, "train", RECIPE, "--name", "mine", "--runs", tmp_path / "runs")
    assert "mine" in said and "mine-1" in said and "--name" in said
    assert (tmp_path / "runs" / "mine" / "precious").read_text() == "kept"


def test_unknown_suites_splits_runs_and_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "nearest: shell" in refused(capsys, "check", "shel", "--runs", tmp_path)
    assert "held-out-seeds" in refused(capsys, "tasks", "list", "shell:held-out-seed")
    assert run(["run", "shell/create-easy-1", "--agent", "reference", "--runs", str(tmp_path)]) == 0
    for verb in ("show", "report"):
        assert "nearest: run-1" in refused(capsys, verb, "run-2", "--runs", tmp_path)
        assert str(tmp_path / "none") in refused(capsys, verb, "run-1", "--runs", tmp_path / "none")
    assert not (tmp_path / "none").exists(), "who only looks makes nothing"
    assert "no episodes of run-1 begin with 'x'" in refused(capsys, "show", "run-1", "x", "--runs", tmp_path)
    assert "nearest: run" in refused(capsys, "show", "run-1", "--stage", "rnu", "--runs", tmp_path)


def test_a_store_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "strop.db").write_text("this is no database, it only looks like one\n" * 100)
    assert "store" in refused(capsys, "report", "--runs", tmp_path)


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("", "cannot read the override ''"),
        ("steps", "cannot read the override 'steps'"),
        ("steps.x=1", "'steps' in 'steps.x' is a value, not a table"),
        ("steps=", "steps must be a valid integer, got ''"),
        ("steps=0", "steps must be greater than or equal to 1, got 0"),
        ("steps=true", "steps must be a valid integer, got True"),
        ('steps="3"', "steps must be a valid integer, got '3'"),
        ("tasks=1", "tasks must be a table, got 1"),
        ("tasks.count=1000000000", "tasks.count must be less than or equal to 100000, got 1000000000"),
        ("dialect=xml", "dialect must be 'fenced' or 'json', got 'xml'"),
        ("rollout.siblings=1", "rollout.siblings must be greater than or equal to 2, got 1"),
        ("rollout.concurrency=0", "rollout.concurrency must be greater than or equal to 1, got 0"),
        (
            "rollout.staleness.slack=99",
            "rollout.staleness.slack = 99 leaves no room for a batch of",
        ),
        ("sandbox.maximum=1000000", "sandbox.maximum must be less than or equal to 4096, got 1000000"),
        ("sampling.temperature=nan", "sampling.temperature must be a finite number, got nan"),
        ("sampling.temperature=-1", "sampling.temperature must be greater than or equal to 0, got -1"),
        ("sampling.temperature=0", "sampling.temperature = 0 samples the same reply every time"),
        ("evaluation.temperature=1e-9", "evaluation.temperature = 1e-09 is too cold to compute with"),
        ("episode.seconds=inf", "episode.seconds must be a finite number, got inf"),
        ("episode.turns=0", "episode.turns must be greater than or equal to 1, got 0"),
        ("learner.learning_rate=0", "learner.learning_rate must be greater than 0, got 0"),
        ("engine.blocks=1", "1 blocks of 8 tokens cannot hold episode.tokens = 384"),
        ("engine.token_budget=64", "engine.token_budget = 64 is not above rollout.concurrency = 96"),
        ("engine.threads=100000", "engine.threads must be less than or equal to 256, got 100000"),
        ("embedded.heads=3", "embedded wants heads that divide hidden"),
        ("embedded.positions=8", "episode.tokens = 384 exceeds the model's 8 positions"),
        ("tasks.suite=shel", "there is no suite 'shel'"),
        ("tasks.split=trian", "no split 'trian'"),
        ("tasks.warm_up=warmup", "no split 'warmup'"),
        ('tasks.difficulties=["eazy"]', "shell:train has no difficulty 'eazy'"),
        ('tasks.families=["swap"]', "shell:train has no family 'swap'"),
    ],
)
def test_a_setting_that_cannot_work(
    override: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is begun, and with what to write instead."""
    said = refused(capsys, "train", RECIPE, "--from-scratch", "--set", override, "--runs", tmp_path / "runs")
    parts = in_parts(said)
    assert parts["what"].startswith(what)
    assert parts["where"] and (parts.get("remedy") or parts["nearest"])
    assert not (tmp_path / "runs").exists()


def test_two_models_and_settings_for_who_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = ("run", "shell/create-easy-1", "--runs", tmp_path / "runs")
    said = refused(capsys, *task, "--model", "embedded", "--set", "model=smollm2")
    assert "--model embedded and --set model=smollm2" in said
    assert "unknown key 'stepz'" in refused(capsys, *task, "--agent", "reference", "--set", "stepz=1")
    assert not (tmp_path / "runs").exists()


def test_a_model_whose_habits_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    for habits in ("not json", "[]", "{}", '{"plays": {"turns": 3}}', '{"plays": 3}'):
        (tmp_path / "strop.json").write_text(habits)
        said = refused(capsys, "eval", "shell", "--model", tmp_path, "--runs", tmp_path / "runs")
        assert str(tmp_path / "strop.json") in said and "remedy" in said
    assert not (tmp_path / "runs").exists()


def test_a_run_that_is_refused_leaves_nothing(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's positions are known when it is loaded, and the run has begun by then."""
    said = refused(
        capsys,
        *("eval", "shell/create-easy-1", "--model", model, "--runs", tmp_path / "runs"),
        *("--set", "episode.tokens=4096"),
    )
    assert "--set episode.tokens=1024" in said
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["strop.db"]
    assert run(["report", "--runs", str(tmp_path / "runs")]) == 0
    assert "eval-1" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../x", "a b", ".hidden", "x" * 300, "a/b", "."])
def test_a_name_that_cannot_be_a_folders(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(
        capsys, "run", "shell/create-easy-1", "--agent", "idler", "--name", name, "--runs", tmp_path / "runs"
    )
    assert "cannot name a run" in said and "--name" in said
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["strop.db"]


def test_a_reference_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "solution" / "solve.sh").write_bytes(b"echo \xff\n")
    said = refused(capsys, "run", folder, "--agent", "reference", "--runs", tmp_path / "runs")
    assert str(folder / "solution" / "solve.sh") in said and "UTF-8" in said
    shutil.rmtree(folder / "solution")
    said = refused(capsys, "run", folder, "--agent", "reference", "--runs", tmp_path / "runs")
    assert str(folder / "solution" / "solve.sh") in said and "--agent model" in said
    assert not (tmp_path / "runs").exists()


def test_a_recipe_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    for recipe in (tmp_path, binary, Path("/dev/null/x.toml")):
        said = refused(capsys, "train", recipe, "--runs", tmp_path / "runs")
        assert str(recipe) in said and "remedy" in said
    assert not (tmp_path / "runs").exists()


def test_a_command_line_that_click_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ("train",),
        ("eval", "shell", "--count", "0"),
        ("show", "x", "--run", "y"),
        ("tasks", "x"),
    ):
        parts = in_parts(refused(capsys, *arguments))
        assert parts["where"].startswith("strop ") or "[OPTIONS]" in parts["where"]
        assert parts["remedy"].endswith("--help")
    assert "Commands:" in refused(capsys), "without any argument the help is shown"


@pytest.fixture
def break_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Makes ``strop tasks list`` fail with an error."""

    def choose(error: Exception) -> None:
        def fail() -> None:
            raise error

        monkeypatch.setattr("strop.cli.tasks_verb.suites", fail)

    return choose


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(5, "Input/output error")])
def test_an_error_that_is_not_the_readers_is_said(
    error: OSError, break_with: Callable[[Exception], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """Click takes every broken pipe for that of the output, and ends without a word."""
    break_with(error)
    assert run(["tasks", "list"]) == EXIT_BROKEN
    assert capsys.readouterr().err == f"{error}\n"


@pytest.mark.parametrize("error", [EOFError("an empty answer"), ZeroDivisionError("division by zero")])
def test_an_error_that_nobody_foresaw_is_raised_whole(
    error: Exception, break_with: Callable[[Exception], None]
) -> None:
    break_with(error)
    with pytest.raises(type(error)) as caught:
        run(["tasks", "list"])
    assert caught.value is error


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't allocate memory: 400 GB")])
def test_want_of_memory_is_said(
    error: Exception, break_with: Callable[[Exception], None], capsys: pytest.CaptureFixture[str]
) -> None:
    break_with(error)
    assert "not enough memory" in refused(capsys, "tasks", "list")


def test_a_reader_who_goes_ends_the_command_without_a_word() -> None:
    with subprocess.Popen(
        [*STROP, "tasks", "list", "shell", "--count", "400"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        command.stdout.close()
        assert (command.wait(), command.stderr.read()) == (EXIT_UNHEARD, b"")


def test_a_terminal_that_knows_few_letters_or_none_at_all(tmp_path: Path) -> None:
    folder = make_task(tmp_path / "task")
    (folder / "instruction.md").write_text("Say grüße.\n", encoding="utf-8")
    show = [*STROP, "tasks", "show", str(folder)]
    environment = {"PATH": os.environ["PATH"], "PYTHONIOENCODING": "ascii", "COLUMNS": "20", "NO_COLOR": "1"}
    done = subprocess.run(show, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "") and "Say gr??e." in done.stdout
    assert subprocess.call(["bash", "-c", 'exec "$@" >&- 2>&-', "bash", *show]) == 0


def test_a_task_that_is_not_solved_is_answered_with_one(tmp_path: Path) -> None:
    assert run(["run", "shell/create-easy-1", "--agent", "idler", "--runs", str(tmp_path)]) == EXIT_NEGATIVE
    assert run(["run", "shell/create-easy-1", "--agent", "reference", "--runs", str(tmp_path)]) == 0

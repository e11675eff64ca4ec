"""The command `strop`: one verb a file, loaded when it is asked for.

Whatever goes wrong ends here as one screen on stderr and a stable exit code: 1 the answer is no, 2 the
request was refused, 3 the machinery failed, 130 Ctrl-C, 141 nobody reads the output any longer.
"""

import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

import strop
from strop.cli.interruption import INTERRUPTION
from strop.errors import (
    EXIT_BROKEN,
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_UNHEARD,
    Fault,
    MachineryFault,
    Refusal,
    Unheard,
    nearest,
)

VERBS = {
    "train": "Post-train a model by a recipe: check, warm up, reinforce, evaluate, report.",
    "check": "Try tasks before they may train or score: the reference passes, the idler fails.",
    "eval": "Evaluate a model on a set of tasks.",
    "run": "Play one task once and print the transcript and the reward.",
    "show": "Show a run's episodes, or the transcript of one.",
    "report": "Write a run's report as one HTML file, or list the runs.",
    "tasks": "List, show or begin tasks.",
}


MEMORY = ("allocate memory", "allocate shared memory", "out of memory")
DISK = ("disk is full", os.strerror(errno.ENOSPC))


class Passed(Exception):
    """An error on its way past click, which would end with 1 and without a word, or as if interrupted."""


class Verbs(click.Group):
    """Knows the verbs by name and imports one only to run it, so that help is quick."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (OSError, EOFError) as error:
            raise Passed from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(f"strop.cli.{cmd_name}_verb").command
        assert isinstance(command, click.Command)
        INTERRUPTION.begin()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise Refusal(
                f"there is no command {args[0]!r}",
                nearest=nearest(args[0], VERBS),
                remedy="strop --help lists the commands",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(strop.__version__, package_name="strop")
def cli() -> None:
    """Post-training for language-model agents, on tasks that run in real sandboxes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever called
            setattr(sys, name, io.StringIO())
        else:
            stream.reconfigure(errors="replace")  # an encoding that lacks a letter is no reason to fail
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    try:
        result = cli.main(args=arguments, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        return _say(error.format_message(), EXIT_REFUSED)
    except click.UsageError as error:
        return _answer(_in_our_words(error))
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted; everything that was started has been ended", EXIT_INTERRUPTED)
    except BaseExceptionGroup as group:
        return _answer(_first(group))
    except Passed as passed:
        assert passed.__cause__ is not None
        return _answer(passed.__cause__)
    except Exception as error:
        return _answer(error)


def _answer(error: BaseException) -> int:
    """Say what is to be said of an error; one that nobody foresaw is raised, with all that Python knows."""
    if isinstance(error, Unheard):
        return EXIT_UNHEARD
    refusal = error if isinstance(error, Refusal) else _want_of_room(error)
    if refusal is not None:
        return _say(str(refusal), EXIT_REFUSED)
    if isinstance(error, Fault | OSError):
        return _say(str(error), EXIT_BROKEN)
    raise error


def _want_of_room(error: BaseException) -> Refusal | None:
    """A full disk or memory, for which the libraries that write weights have no class of their own."""
    said = error.message if isinstance(error, MachineryFault) else str(error)
    last = said.strip().rpartition("\n")[2]
    if isinstance(error, MemoryError) or any(words in last for words in MEMORY):
        return Refusal(
            "there is not enough memory",
            where=last,
            remedy="free some, choose a smaller model, lower engine.blocks or learner.microbatch_tokens, or "
            "start the container with a larger --shm-size",
        )
    is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
    if is_full or any(words in last for words in DISK):
        return Refusal(
            "the disk is full",
            where=str(getattr(error, "filename", None) or last),
            remedy="free some space, or give a folder on another disk with --runs",
        )
    return None


def _in_our_words(error: click.UsageError) -> Refusal:
    usage = error.ctx.get_usage().removeprefix("Usage: ") if error.ctx else ""
    command = error.ctx.command_path if error.ctx else "strop"
    return Refusal(error.format_message().rstrip("."), where=usage, remedy=f"{command} --help")


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that a group is about; a task group wraps even a single one."""
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _say(message: str, code: int) -> int:
    click.echo(message, err=True)
    return code

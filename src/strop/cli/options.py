"""Options that several verbs share, under one name each."""

from pathlib import Path

import click

runs_option = click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    envvar="STROP_RUNS",
    show_envvar=True,
    help="Folder of the store and of every run's files.",
)
set_option = click.option(
    "--set",
    "overrides",
    metavar="A.B=C",
    multiple=True,
    help="Override a setting; can be given several times.",
)
name_option = click.option("--name", help="Name of the run; a free one is chosen without it.")
model_option = click.option(
    "--model", default="embedded", show_default=True, help="embedded, smollm2, or the folder of a model."
)
count_option = click.option(
    "--count", type=click.IntRange(1, 100_000), help="How many tasks of a split or folder."
)

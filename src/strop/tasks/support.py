"""What a task folder may ask for and this version does not give.

Two lists: what is refused, because without it the task would be another task, and what is done otherwise
and said so. A field of the format that is in neither is honoured, or says nothing about a score.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from strop.errors import Refusal
from strop.tasks.manifest import Manifest

_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def refuse_unsupported(path: Path, manifest: Manifest) -> None:
    """Refuse whatever would make the task another task, were it passed over.

    Raises:
        Refusal: the first such thing.
    """
    environment, verifier = manifest.environment, manifest.verifier
    compose = next((name for name in _COMPOSE if (path / "environment" / name).exists()), "")
    wanted = {
        f"schema {manifest.schema_version}": not re.fullmatch(r"1(\.\d+)*", manifest.schema_version),
        "several steps ([[steps]])": bool(manifest.steps) or (path / "steps").exists(),
        f"several containers ({compose})": bool(compose),
        "a GPU (environment.gpus)": bool(environment.gpus),
        "a TPU (environment.tpu)": environment.tpu is not None,
        "Windows (environment.os)": environment.os == "windows",
        "MCP servers (environment.mcp_servers)": bool(environment.mcp_servers),
        "a second environment to judge in (verifier.environment_mode)": verifier.environment is not None
        or verifier.environment_mode == "separate",
        "commands that collect before judging (verifier.collect)": bool(verifier.collect),
        "a .dockerignore": (path / "environment" / ".dockerignore").exists(),
    }
    for what, asked in wanted.items():
        if asked:
            raise Refusal(
                f"the task needs {what}, which this version does not support",
                where=str(path / "task.toml"),
                remedy="leave the task out, or take that part out of it",
            )


def departures(manifest: Manifest) -> Iterator[str]:
    """In a sentence each, whatever is done otherwise without making the task another one."""
    environment, agent, verifier = manifest.environment, manifest.agent, manifest.verifier
    modes = {section.network_mode for section in (environment, agent, verifier)} - {None, "no-network"}
    if modes:
        yield f"the network is {' and '.join(sorted(map(str, modes)))} there; here there is none"
    if environment.docker_image:
        yield f"this machine's own system stands in for the image {environment.docker_image}"
    for name, user in (("agent", agent.user), ("verifier", verifier.user)):
        if user not in (None, "root", "0"):
            yield f"{name}.user is not honoured, everything runs as the sandbox's root"
    ignored = {
        "environment.healthcheck": environment.healthcheck,
        "environment.skills_dir": environment.skills_dir,
        "solution.env": manifest.solution.env,
        "artifacts": manifest.artifacts,
    }
    for name in (name for name, value in ignored.items() if value):
        yield f"{name} is not honoured by this version"

"""What varies from run to run: a role's command and environment, as overrides of its container.

Overrides are small: AWS hands them to ECS, which takes 8,192 characters with all that AWS Batch
adds. The job would be accepted, and fail; so it is counted before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wherry.aws.documents import Document
from wherry.errors import InvalidSpecError, UsageError
from wherry.schedulers.aws_batch import launcher, limits
from wherry.schedulers.aws_batch.containers import MAIN, SHELL
from wherry.schedulers.aws_batch.launcher import HOLE, RANK0_ENV, Launch
from wherry.specs.app import Role
from wherry.specs.substitution import substitute

_RESERVED = "AWS_BATCH"


@dataclass(frozen=True)
class Setting:
    """What a role's command and environment depend on, besides the role.

    Args:
        app_id: the app's id.
        alone: whether there is one replica, whose number is therefore 0.
        gang: whether the replicas are nodes of one job.
        one_attempt: whether it is known that there is one attempt only.
        launcher: ``sh``, ``sidecar`` or ``none``.
    """

    app_id: str
    alone: bool
    gang: bool
    one_attempt: bool
    launcher: str

    @property
    def rank0_env(self) -> str:
        """The name of the variable that holds the main node's address."""
        native = self.launcher == "none" and self.gang
        return launcher.NATIVE_RANK0_ENV if native else RANK0_ENV


def launch_of(role: Role, setting: Setting) -> Launch:
    """Return a role's command and environment with the macros replaced, but not wrapped.

    Raises:
        InvalidSpecError: a variable that AWS keeps for itself, or text that is no Unicode.
    """
    values = {
        "img_root": "",
        "app_id": setting.app_id,
        "replica_id": "0" if setting.alone else HOLE,
        "rank0_env": setting.rank0_env,
    }
    env = {name: substitute(value, values) for name, value in role.env.items()}
    for name in env:
        if name.startswith(_RESERVED):
            raise InvalidSpecError(
                f"role {role.name!r}: the variable {name!r} cannot be set; "
                f"names that begin with {_RESERVED} are AWS Batch's own"
            )
    env |= {
        "WHERRY_APP_ID": setting.app_id,
        "WHERRY_ROLE_NAME": role.name,
        "WHERRY_NUM_REPLICAS": str(role.num_replicas),
    }
    launch = Launch([substitute(word, values) for word in (role.entrypoint, *role.args)], env)
    _check_unicode(role, launch)
    return launch


def needs_launcher(launch: Launch, setting: Setting) -> bool:
    """Tell whether something is known only inside, or cannot be sent as it is."""
    return not (setting.alone and setting.one_attempt) or launch.has_empties


def placed(
    role: Role,
    launch: Launch,
    setting: Setting,
    secrets: Iterable[str],
    warn: Callable[[str], None],
) -> Launch:
    """Return a role's command and environment as they are sent.

    Args:
        role: the role.
        launch: what `launch_of` made of it.
        setting: how it runs.
        secrets: the names of variables that hold secrets.
        warn: is told what the program will not have.

    Raises:
        InvalidSpecError: without a launcher, what only a launcher can do; with one, variables
            that would not come through a shell.
    """
    if not needs_launcher(launch, setting):
        known = {"WHERRY_REPLICA_ID": "0", "WHERRY_ATTEMPT": "1", RANK0_ENV: "localhost"}
        return Launch(launch.words, {**launch.env, **known})
    if setting.launcher == "none":
        return _unlaunched(role, launch, setting, warn)
    launcher.check_names(f"role {role.name!r}", [*launch.env, *secrets])
    shell = SHELL if setting.launcher == "sidecar" else launcher.SHELL
    return launcher.wrapped(launch, shell)


def _unlaunched(
    role: Role, launch: Launch, setting: Setting, warn: Callable[[str], None]
) -> Launch:
    holes = [f"args[{index - 1}]" for index, word in enumerate(launch.words) if HOLE in word]
    holes += [f"env {name!r}" for name, value in launch.env.items() if HOLE in value]
    if holes:
        raise InvalidSpecError(
            f"role {role.name!r}: ${{replica_id}} in {', '.join(holes)} is known only inside the "
            "container, and launcher=none puts nothing there; use launcher=sh or sidecar, or read "
            "AWS_BATCH_JOB_ARRAY_INDEX or AWS_BATCH_JOB_NODE_INDEX in the program"
        )
    if "" in launch.words:
        raise InvalidSpecError(
            f"role {role.name!r}: AWS Batch refuses empty arguments; launcher=sh or sidecar "
            "brings them through"
        )
    empty = [name for name, value in launch.env.items() if not value]
    if empty:
        warn(f"role {role.name!r}: AWS Batch drops variables without a value: {', '.join(empty)}")
    env = dict(launch.env)
    missing = ["WHERRY_ATTEMPT"] if not setting.one_attempt else []
    if setting.alone:
        env |= {"WHERRY_REPLICA_ID": "0", RANK0_ENV: "localhost"}
    else:
        missing = ["WHERRY_REPLICA_ID", "WHERRY_ATTEMPT", RANK0_ENV]
    if missing:
        warn(
            f"role {role.name!r}: with launcher=none the program has no {', '.join(missing)}; "
            "it has AWS Batch's own variables"
        )
    return Launch(launch.words, env)


def container_overrides(launch: Launch, requirements: Sequence[Document] = ()) -> Document:
    """Return ``containerOverrides`` for a command and an environment.

    Args:
        launch: the command and environment, as they are sent.
        requirements: ``resourceRequirements``, where those of the definition do not count.
    """
    document: Document = {
        "command": list(launch.words),
        "environment": environment(launch.env),
    }
    if requirements:
        document["resourceRequirements"] = list(requirements)
    return document


def ecs_overrides(document: Document) -> Document:
    """Return ``ecsPropertiesOverride`` for what would be ``containerOverrides``."""
    return {"taskProperties": [{"containers": [{"name": MAIN, **document}]}]}


def environment(env: Mapping[str, str]) -> list[Document]:
    """Return variables in AWS's form."""
    return [{"name": name, "value": value} for name, value in env.items()]


def overrides_in(document: Document) -> Document:
    """Return the overrides of the program's container in a submission or a node's part of one."""
    if "ecsPropertiesOverride" not in document:
        found: Document = document.get("containerOverrides", {})
        return found
    containers = document["ecsPropertiesOverride"]["taskProperties"][0]["containers"]
    return next((item for item in containers if item.get("name") == MAIN), {})


def check_size(where: str, overrides: Document, added: Mapping[str, str]) -> None:
    """Refuse overrides that ECS would refuse.

    Args:
        where: whose they are, for the message.
        overrides: ``containerOverrides``, or the same of one container of several.
        added: the variables that AWS Batch adds.

    Raises:
        UsageError: they are too long; the largest parts are named.
    """
    variables = [*overrides.get("environment", []), *environment(added)]
    merged = {"name": MAIN, **overrides, "environment": variables}
    size = len(compact({"containerOverrides": [merged]}))
    if size > limits.OVERRIDES_CHARACTERS:
        raise UsageError(
            f"{where}: command and environment come to {size:,} characters, with what AWS Batch "
            f"adds, and ECS takes {limits.OVERRIDES_CHARACTERS:,}. "
            f"Largest: {', '.join(largest(overrides))}. "
            "Put long values into a file, the image or S3, and pass where they are"
        )


def largest(overrides: Document, shown: int = 3) -> list[str]:
    """Name the largest parts of overrides, with their lengths."""
    command = overrides.get("command", [])
    begin = command.index("--") + 1 if launcher.SCRIPT in command and "--" in command else 0
    parts = [
        ("the command's program" if index == begin else f"argument {index - begin}", len(word))
        for index, word in enumerate(command)
        if index >= begin
    ]
    parts += [(f"env {item['name']!r}", len(item["value"])) for item in overrides["environment"]]
    if begin:
        parts.append(("the launcher", len(launcher.SCRIPT)))
    parts.sort(key=lambda part: part[1], reverse=True)
    return [f"{name} ({size:,})" for name, size in parts[:shown]]


def compact(document: object) -> str:
    """Return JSON as it is sent, without white space."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _check_unicode(role: Role, launch: Launch) -> None:
    for text in [*launch.words, *launch.env, *launch.env.values()]:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidSpecError(
                f"role {role.name!r}: {text!r} is no Unicode text, and AWS takes nothing else"
            ) from None

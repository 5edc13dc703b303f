"""The options of the AWS Batch scheduler: as data for the command line, and read and checked.

`aws_batch_opts` says what there is; `read_options` turns values into `Options` and refuses what
AWS would refuse, as far as it can be known without asking AWS.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from wherry.errors import InvalidOptionError
from wherry.schedulers.aws_batch import limits, naming
from wherry.schedulers.aws_batch.retries import UNTOLD, RetryChoice, parse_retries
from wherry.schedulers.aws_batch.tags import check_tags
from wherry.specs.options import CfgVal, runopts

LAUNCHER_IMAGE = "public.ecr.aws/docker/library/busybox:musl"
"""An image that has a shell which needs no library: the source of the sidecar's shell."""

_REGION = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+\Z")
_LOG_GROUP = re.compile(r"[\w./#-]{1,512}\Z", re.ASCII)
_REPOSITORY = re.compile(r"[a-z0-9][\w./:-]*\Z", re.ASCII)
_STORE = re.compile(r"s3://[A-Za-z0-9][\w.-]+(/.*)?\Z", re.ASCII)


def aws_batch_opts() -> runopts:
    """Return the options of the AWS Batch scheduler."""
    opts = runopts()
    opts.add("queue", required=True, help="the job queue: its name or ARN")
    opts.add("user", help="whom the job is tagged with; the login name when not set")
    opts.add(
        "privileged",
        type_=bool,
        default=False,
        help="run the containers with the host's privileges, as `docker run --privileged` does",
    )
    opts.add(
        "share_id",
        help="the job's share; set it if, and only if, the queue has a scheduling policy",
    )
    opts.add(
        "priority",
        type_=int,
        default=0,
        help="the priority among the jobs of the same share, 0 to 9999; needs share_id",
    )
    opts.add("job_role_arn", help="the IAM role that the program acts as")
    opts.add(
        "execution_role_arn",
        help="the IAM role that pulls the image, reads secrets and writes logs; "
        "Fargate and secrets need one",
    )
    opts.add("image_repo", help="the repository that patched images are pushed to")
    opts.add(
        "store",
        help="where workspaces are put for jobs to fetch (s3://BUCKET/PREFIX); jobs need a role "
        "that may read there",
    )
    opts.add(
        "workspace_mode",
        default="auto",
        choices=("auto", "archive", "image"),
        help="how a workspace gets to jobs: through the store, unpacked before the program starts "
        "(archive: needs store, and Python in the image), or as an image of its own that is pushed "
        "(image: needs image_repo, and Docker here); auto is archive where store is set",
    )
    opts.add(
        "workspace_dir",
        default=".",
        help="the folder that an archive is unpacked to, and that programs then start in; as seen "
        "from the image's working directory, which it is when not set",
    )
    opts.add("quiet", type_=bool, default=False, help="say less while images are made and pushed")
    opts.add("region", help="the AWS region; the profile's or environment's when not set")
    opts.add("profile", help="the profile in AWS's own configuration files")
    opts.add(
        "credentials_file",
        help="the file with the profile's credentials; AWS's own (~/.aws/credentials) when not set",
    )
    opts.add(
        "timeout",
        type_=int,
        help="seconds that one attempt may take, 60 at least; the app's own when not set",
    )
    opts.add(
        "retries",
        help="what is retried: none, spot, all, a number, NUMBER:POLICY (3:spot), or rules such "
        "as 'exit=137:retry;status=Host EC2*:retry;*:exit'; the app's own when not set",
    )
    opts.add("tags", type_=dict, default={}, help="tags of the job (a:1;b:2)")
    opts.add("log_group", help="the CloudWatch log group; /aws/batch/job when not set")
    opts.add(
        "secrets",
        type_=dict,
        default={},
        help="environment variables whose values are kept by AWS: NAME:ARN (or the name of an "
        "SSM parameter in the same region), for all roles",
    )
    opts.add(
        "platform",
        default="auto",
        choices=("auto", "ec2", "fargate"),
        help="what the queue's environments are made of; asked of AWS when auto",
    )
    opts.add(
        "job_definition",
        help="use this job definition (name, name:revision or ARN) and override what can be: "
        "command, environment, resources, retries and timeout",
    )
    opts.add(
        "definition_name",
        help="what a job definition that is made is called, before the digest of its content; the "
        "app's name when not set",
    )
    opts.add(
        "consumable_resources",
        type_=dict,
        default={},
        help="consumable resources that each job takes while it runs (license:1)",
    )
    opts.add(
        "propagate_tags", type_=bool, default=True, help="give the job's tags to its ECS tasks too"
    )
    opts.add(
        "launcher",
        default="auto",
        choices=("auto", "sh", "sidecar", "none"),
        help="how the replica's number gets into variables and arguments: by the image's own "
        "/bin/sh where it is needed (auto, sh), by a shell that a second container brings "
        "(sidecar), or not at all (none)",
    )
    opts.add(
        "launcher_image",
        default=LAUNCHER_IMAGE,
        help="the image that the sidecar's shell comes from: a static busybox at /bin/busybox",
    )
    opts.add(
        "efa",
        type_=bool,
        help="give containers the EFA devices that their resource states; when not set, those of "
        "a resource made by hand and not those that a named resource states as its most",
    )
    opts.add(
        "public_ip",
        type_=bool,
        default=True,
        help="Fargate only: give tasks a public address, without which they reach no registry "
        "from a subnet that has no NAT gateway",
    )
    opts.add(
        "dependency",
        default="all",
        choices=("all", "n_to_n"),
        help="what depends_on waits for: the whole of the other app, or (n_to_n, arrays of the "
        "same size) each replica for the one of its number",
    )
    return opts


@dataclass(frozen=True)
class Options:
    """The options, read and checked; `aws_batch_opts` says what each is for."""

    queue: str
    user: str | None = None
    privileged: bool = False
    share_id: str | None = None
    priority: int = 0
    job_role_arn: str | None = None
    execution_role_arn: str | None = None
    image_repo: str | None = None
    store: str | None = None
    workspace_mode: str = "auto"
    workspace_dir: str = "."
    quiet: bool = False
    region: str | None = None
    profile: str | None = None
    credentials_file: str | None = None
    timeout: int | None = None
    retries: RetryChoice = UNTOLD
    tags: Mapping[str, str] = field(default_factory=dict)
    log_group: str | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    platform: str = "auto"
    job_definition: str | None = None
    definition_name: str | None = None
    consumable_resources: Mapping[str, int] = field(default_factory=dict)
    propagate_tags: bool = True
    launcher: str = "auto"
    launcher_image: str = LAUNCHER_IMAGE
    efa: bool | None = None
    public_ip: bool = True
    dependency: str = "all"


def read_options(cfg: Mapping[str, CfgVal]) -> Options:
    """Read and check options.

    Args:
        cfg: values by name, resolved or not.

    Raises:
        InvalidOptionError: an option is unknown, missing, of the wrong type, or something that
            AWS Batch does not take.
    """
    values: dict[str, object] = dict(aws_batch_opts().resolve(cfg))
    values["retries"] = parse_retries(_text(values["retries"]))
    values["consumable_resources"] = _quantities(_pairs(values["consumable_resources"]))
    options = Options(**values)  # type: ignore[arg-type]  # the options' own types, by name
    _check(options)
    return options


def _check(options: Options) -> None:
    naming.queue_name(options.queue)
    if options.share_id is not None:
        naming.check_share(options.share_id)
    _check_priority(options)
    for name in ("job_role_arn", "execution_role_arn"):
        arn = getattr(options, name)
        if arn is not None:
            naming.check_role_arn(name, arn)
    if options.job_definition is not None:
        naming.check_definition(options.job_definition)
    _check_form("region", options.region, _REGION, "a region such as eu-west-1")
    _check_form("log_group", options.log_group, _LOG_GROUP, "the name of a CloudWatch log group")
    _check_form("image_repo", options.image_repo, _REPOSITORY, "a repository without a tag")
    _check_form("store", options.store, _STORE, "the address of a store, s3://BUCKET/PREFIX")
    naming.check_image("option 'launcher_image'", options.launcher_image)
    check_tags("option 'tags'", options.tags)
    for name, reference in options.secrets.items():
        complaint = naming.secret_complaint(name, reference)
        if complaint:
            raise InvalidOptionError(f"option 'secrets': {complaint}")


def _check_priority(options: Options) -> None:
    least, most = limits.PRIORITIES
    if not least <= options.priority <= most:
        raise InvalidOptionError(
            f"option 'priority' must be {least} to {most}, not {options.priority}"
        )
    if options.priority and options.share_id is None:
        raise InvalidOptionError(
            f"option 'priority' ({options.priority}) counts among the jobs of one share only; "
            "set share_id too"
        )


def _check_form(name: str, value: str | None, form: re.Pattern[str], expected: str) -> None:
    if value is not None and not form.match(value):
        raise InvalidOptionError(f"option {name!r} takes {expected}, not {value!r}")


def _quantities(pairs: Mapping[str, str]) -> dict[str, int]:
    for name, value in pairs.items():
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise InvalidOptionError(
                f"option 'consumable_resources': the quantity of {name!r} must be a whole number "
                f"above 0, not {value!r}"
            )
    return {name: int(value) for name, value in pairs.items()}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _pairs(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) else {}

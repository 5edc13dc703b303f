"""How a workspace gets to jobs of AWS Batch: through a store, or as an image of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wherry.errors import InvalidOptionError
from wherry.schedulers.aws_batch.options import read_options
from wherry.schedulers.shipping import ARCHIVE, IMAGE, Shipping
from wherry.specs.options import CfgVal

if TYPE_CHECKING:
    from wherry.aws.session import Session
    from wherry.store.api import Store

_NEITHER = (
    "a workspace gets to AWS Batch through a store, -cfg store=s3://BUCKET/PREFIX, or in an image, "
    "-cfg image_repo=REPOSITORY; neither is set"
)
_MISSING = {
    ARCHIVE: "option 'workspace_mode' is archive, which needs -cfg store=s3://BUCKET/PREFIX",
    IMAGE: "option 'workspace_mode' is image, which needs -cfg image_repo=REPOSITORY",
}


def shipping(cfg: Mapping[str, CfgVal], session: Callable[[], Session]) -> Shipping:
    """Say how a workspace gets to jobs with these options.

    Args:
        cfg: run options.
        session: gives the AWS session that they ask for; asked when the store is opened.

    Raises:
        InvalidOptionError: what the mode needs is not set.
    """
    options = read_options(cfg)
    wanted = {ARCHIVE: options.store, IMAGE: options.image_repo}
    mode = options.workspace_mode
    if mode == "auto":
        mode = next((name for name, place in wanted.items() if place), "")
        if not mode:
            raise InvalidOptionError(_NEITHER)
    if not wanted[mode]:
        raise InvalidOptionError(_MISSING[mode])
    if mode == IMAGE and options.job_definition is not None:
        raise InvalidOptionError(
            f"the job definition {options.job_definition} has its own image, so a workspace cannot "
            "come in another; send it through a store, -cfg store=s3://BUCKET/PREFIX"
        )
    if mode == IMAGE:
        return Shipping(IMAGE, quiet=options.quiet)
    url = str(options.store).rstrip("/")

    def open_store() -> Store:
        from wherry.store.opening import open_store as opened

        return opened(
            url,
            profile=options.profile,
            region=session().region,
            credentials_file=options.credentials_file,
        )

    return Shipping(ARCHIVE, url, open_store, options.workspace_dir, quiet=options.quiet)

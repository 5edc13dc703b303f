"""The built-in component that stands in for a trial of a hyperparameter search."""

from __future__ import annotations

from wherry.components.image import DEFAULT_IMAGE
from wherry.components.utils.inside import program
from wherry.specs.app import AppDef, Role
from wherry.specs.resources import Resource


def booth(
    x1: float,
    x2: float,
    trial_idx: int = 0,
    tracker_base: str = "/tmp/wherry-booth",  # noqa: S108 — a folder that every image has
    image: str = DEFAULT_IMAGE,
) -> AppDef:
    """Evaluate Booth's function, (x1 + 2 x2 - 7)^2 + (2 x1 + x2 - 5)^2.

    Prints the value, and writes it to TRACKER_BASE/TRIAL_IDX.json as {"booth_eval": value}. The
    smallest value is 0, at (1, 3).

    Args:
        x1: first coordinate
        x2: second coordinate
        trial_idx: number of the trial; names the file
        tracker_base: folder or URL (s3://… with fsspec in the image) of the results
        image: image to run in
    """
    role = Role(
        name="booth",
        image=image,
        entrypoint="python",
        args=["-c", program("booth_value"), str(x1), str(x2), str(trial_idx), tracker_base],
        resource=Resource(cpu=1, gpu=0, memMB=1024),
    )
    return AppDef(name="booth", roles=[role])

"""Why is my AWS Batch job not running, or why did it fail? Facts are gathered, causes deduced.

`diagnose` is the way in; `most_telling` chooses among the jobs of an app. Gathering (`gathering`,
`places`, `parts`) is all that talks to AWS; from then on everything is a pure function from `Facts`
to findings: `waiting`, `turn` and `coming`, `starting`, `running`, `ended`, with `arrays`, `nodes`
and `retries` for what is peculiar to those, and `fit` for whether a request can run in an
environment at all. `preflight` asks the same of a request that has not been sent.
"""

from __future__ import annotations

from wherry._lazy import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from wherry.aws.diagnosis.asking import SessionServices
    from wherry.aws.diagnosis.diagnosing import diagnose, most_telling
    from wherry.aws.diagnosis.foreseeing import preflight

_HOMES = {
    "SessionServices": "wherry.aws.diagnosis.asking",
    "diagnose": "wherry.aws.diagnosis.diagnosing",
    "most_telling": "wherry.aws.diagnosis.diagnosing",
    "preflight": "wherry.aws.diagnosis.foreseeing",
}

__all__ = ["SessionServices", "diagnose", "most_telling", "preflight"]


def __getattr__(name: str) -> Any:
    return load(globals(), _HOMES, name)

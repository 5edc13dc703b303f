"""The labels of what is made at the Engine; an app can be told from them alone."""

from __future__ import annotations

from wherry.engine.docker.labels import APP_ID, ATTEMPT, REPLICA, REPLICAS, ROLE

__all__ = [
    "APP",
    "APP_ID",
    "ATTEMPT",
    "CANCELLED",
    "CREATED",
    "HOME",
    "LONGEST_APP",
    "REPLICA",
    "REPLICAS",
    "ROLE",
    "SESSION",
]

SESSION = "wherry.session"
APP = "wherry.app"
"""The app definition as JSON; secrets are references there, never values."""
CREATED = "wherry.created"
HOME = "wherry.home"
"""Where the record is, on the machine of the client."""
CANCELLED = "wherry.cancelled"
"""Why an app was cancelled by somebody who has no record of it; on a volume, since labels of
containers cannot be changed."""

LONGEST_APP = 32_768
"""An app whose definition is longer is told with its roles' names, images and counts only."""

"""The constant part of a command that fetches its code first: sent once, in the job definition.

Overrides are small and sent with each job (`overrides`); a definition has room, and is shared. So
the text that starts a worker stands in a variable of the definition, and the command refers to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wherry.schedulers.aws_batch.launcher import Launch
from wherry.worker.boot_text import BOOT

BOOT_ENV = "WHERRY_BOOT"
REFERENCE = f'import os;exec(os.environ["{BOOT_ENV}"])'


def referring(launch: Launch) -> tuple[Launch, Mapping[str, str]]:
    """Put a reference in the place of the text.

    Args:
        launch: a command and its environment.

    Returns:
        The command as it is sent, and the variables that it needs besides its environment.
    """
    if BOOT not in launch.words:
        return launch, {}
    words = [REFERENCE if word == BOOT else word for word in launch.words]
    return replace(launch, words=words), {BOOT_ENV: BOOT}

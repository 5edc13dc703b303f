"""The image that built-in components run in when none is given."""

from __future__ import annotations

import sys

DEFAULT_IMAGE = f"docker.io/library/python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
"""The official image of the Python that is running."""

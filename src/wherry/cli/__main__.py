"""``python -m wherry.cli`` is the ``wherry`` command."""

from __future__ import annotations

import sys

from wherry.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

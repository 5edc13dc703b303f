"""Programs that run inside the image, handed over whole as ``python -c``.

They know the standard library of Python 3.6 and nothing of Wherry, are short (a provider limits
the length of a command), and hold no dollar sign (macros are replaced in arguments).
"""

from __future__ import annotations

import os


def program(name: str) -> str:
    """Return the text of a program by its file's name."""
    with open(os.path.join(os.path.dirname(__file__), f"{name}.py"), encoding="utf-8") as file:
        return file.read()

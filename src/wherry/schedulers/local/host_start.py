"""What the host's interpreter is started with: ``python host_start.py`` (see `host`).

A file of its own, so that a list of processes shows what this one is for. Modules of Wherry are
looked for after Python's own, and before the folders of whoever calls.
"""

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    base = [path for path in sys.path if os.path.abspath(path or ".") != here]
    own = os.path.dirname(os.__file__)
    last = max((index for index, path in enumerate(base) if path.startswith(own)), default=-1)
    python = [path for path in base[: last + 1] if path == own or path.endswith("lib-dynload")]
    rest = [path for path in base if path not in python]
    sys.path[:] = [*python, here.rsplit("/", 3)[0], *rest]

    from wherry.schedulers.local.host import main

    main(base)

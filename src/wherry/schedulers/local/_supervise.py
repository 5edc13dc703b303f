"""What the supervisor's interpreter is started with: ``python -I -S _supervise.py RECORD``.

A file of its own, so that a list of processes shows what this one is for.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__).rsplit("/", 3)[0])

from wherry.schedulers.local.guard import main

main()

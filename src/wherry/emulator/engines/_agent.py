"""What the agent's interpreter is started with: ``python -I -S _agent.py SOCKET LOCK PID FOLDER``.

A file of its own, so that a list of processes shows what this one is for.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__).rsplit("/", 3)[0])

from wherry.emulator.engines.agent import main

main(sys.argv[1:])

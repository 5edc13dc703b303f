"""What runs inside a job: fetches a call, runs it, and stores what came of it.

It needs Python 3.9 or newer and cloudpickle, which travel with it in one zip; it imports nothing
else of Wherry. Others import the formats (`wherry.worker.formats`).
"""

"""One client of `functions.py`: KIND WORK COUNT; prints the seconds that the work took."""

from __future__ import annotations

import sys
import time
from typing import Any


def trivial(number: int) -> int:
    """Do next to nothing."""
    return number + 1


class OfWherry:
    """Wherry's executor."""

    def __init__(self) -> None:
        import wherry.functions.local

        self.make = wherry.functions.local.LocalExecutor

    def array(self, executor: Any, count: int) -> int:
        """Run an array of children."""
        return len(list(executor.map_array(trivial, range(count)).results()))


class OfPool:
    """The standard library's process pool."""

    def __init__(self) -> None:
        from concurrent.futures import ProcessPoolExecutor

        self.make = lambda: ProcessPoolExecutor(2)


class OfLoky:
    """Loky's pool."""

    def __init__(self) -> None:
        from loky import ProcessPoolExecutor

        self.make = lambda: ProcessPoolExecutor(2)


class OfExecutorlib:
    """executorlib on one machine."""

    def __init__(self) -> None:
        from executorlib import SingleNodeExecutor

        self.make = lambda: SingleNodeExecutor(max_cores=2)
        # Without it, each item of a map starts an interpreter.
        self.make_for_map = lambda: SingleNodeExecutor(max_workers=2, block_allocation=True)


class OfSubmitit:
    """submitit's local executor."""

    def __init__(self) -> None:
        import submitit

        self.make = lambda: submitit.LocalExecutor(folder="submitit")


KINDS = {
    "wherry": OfWherry,
    "process pool": OfPool,
    "loky": OfLoky,
    "executorlib": OfExecutorlib,
    "submitit": OfSubmitit,
}


def main(kind: str, work: str, count: int) -> float:
    """Do the work; return its seconds."""
    client = KINDS[kind]()
    begin = time.perf_counter()
    make = getattr(client, "make_for_map", client.make) if work == "map" else client.make
    executor = make()
    if work in ("next", "chain", "map"):
        executor.submit(trivial, 0).result()
        if work == "map":
            list(executor.map(trivial, range(10)))
        begin = time.perf_counter()
    if work == "array":
        assert client.array(executor, count) == count
    elif work == "map":
        assert len(list(executor.map(trivial, range(count), **chunks(kind, count)))) == count
    elif work == "each":
        jobs = [executor.submit(trivial, number) for number in range(count)]
        assert len([job.result() for job in jobs]) == count
    else:
        for number in range(count):
            assert executor.submit(trivial, number).result() == number + 1
    seconds = time.perf_counter() - begin
    return seconds / count if work == "next" else seconds


def chunks(kind: str, count: int) -> dict[str, int]:
    """Return how many items go together, where that is to be said."""
    return {"chunksize": count // 2} if kind in ("process pool", "loky") else {}


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

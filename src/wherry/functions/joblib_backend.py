"""joblib on Wherry's executors: ``with joblib.parallel_config("wherry"): Parallel()(…)``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from wherry.functions import payload
from wherry.functions.defaults import default_executor
from wherry.functions.executor import Executor

NAME = "wherry"


def register(executor: Executor | None = None, *, make_default: bool = False) -> None:
    """Make the backend known to joblib.

    Args:
        executor: what runs the calls; the default executor at the time when ``None``.
        make_default: whether joblib uses it unless told otherwise.

    Raises:
        ImportError: joblib is not installed.
    """
    from joblib.parallel import (  # type: ignore[import-untyped]
        ParallelBackendBase,
        register_parallel_backend,
    )

    class WherryBackend(ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
        """One job for each batch of calls."""

        supports_retrieve_callback = True
        supports_timeout = True
        uses_threads = False
        supports_sharedmem = False

        def __init__(self, executor: Executor | None = executor, **options: Any) -> None:
            super().__init__(**options)
            self._executor = executor

        def effective_n_jobs(self, n_jobs: int | None) -> int:
            """Return how many calls run at once."""
            cores = self._chosen().cores()
            if n_jobs is None:
                return cores
            if n_jobs == 0:
                raise ValueError("n_jobs == 0 in Parallel has no meaning")
            return max(1, cores + 1 + n_jobs) if n_jobs < 0 else n_jobs

        def submit(self, func: Callable[[], Any], callback: Any = None) -> Any:
            """Submit a batch."""
            with contextlib.ExitStack() as modules:
                for called, *_ in getattr(func, "items", ()):
                    modules.enter_context(payload.by_value(called, ()))
                job = self._chosen().options(name="joblib").submit(func)
            if callback is not None:
                job.add_done_callback(callback)
            return job

        apply_async = submit

        def retrieve_result_callback(self, out: Any) -> Any:
            """Return a batch's values."""
            return out.result()

        def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
            """Get ready."""
            self.parallel = parallel
            return self.effective_n_jobs(n_jobs)

        def get_nested_backend(self) -> tuple[Any, int | None]:
            """Let calls within calls run where they are."""
            from joblib.parallel import SequentialBackend

            return SequentialBackend(nesting_level=(self.nesting_level or 0) + 1), None

        def _chosen(self) -> Executor:
            return self._executor or default_executor()

    register_parallel_backend(NAME, WherryBackend, make_default=make_default)

"""Containers on their way to run: all are made, then all set off; none is waited for.

Making and starting containers takes the Engine long, and during that time the supervisor has to
hear a cancellation or the client's end. So their start is a matter of calls back.
"""

from __future__ import annotations

from wherry.schedulers.local.replica import STARTING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wherry.engine.docker.ending import NotStartedError
    from wherry.engine.slots import Grant
    from wherry.schedulers.local.launching import Launch
    from wherry.schedulers.local.replica import Replica


class Flight:
    """Replicas that start together.

    Args:
        launch: whose they are.
        crew: the replicas, and what each was given.
        on_lost: told of each that did not start.
        on_landed: told when each of them runs, or does not.
    """

    def __init__(
        self,
        launch: Launch,
        crew: Sequence[tuple[Replica, Grant]],
        on_lost: Callable[[Replica], None],
        on_landed: Callable[[], None],
    ) -> None:
        self._launch = launch
        self._crew = [replica for replica, _ in crew]
        self._grants = [grant for _, grant in crew]
        self._on_lost = on_lost
        self._on_landed = on_landed
        self._unready = set(self._crew)
        self._in_the_air = set(self._crew)
        self._lost = False

    def begin(self) -> None:
        """Have all of them made; all are set off once the last one has been."""
        launch = self._launch
        launch.running += len(self._crew)
        for replica, grant in zip(self._crew, self._grants, strict=True):
            replica.state = STARTING
            replica.prepare_container(
                launch.stage, grant, self._ready_for(replica), launch.attempt_ended
            )

    def _ready_for(self, replica: Replica) -> Callable[[NotStartedError | None], None]:
        def on_ready(problem: NotStartedError | None) -> None:
            self._unready.discard(replica)
            if problem is not None:
                self._lose(replica, problem)
            elif not self._unready and not self._lost:
                self._set_off()

        return on_ready

    def _set_off(self) -> None:
        for replica in self._crew:
            if replica.state == STARTING:
                replica.set_off_container(self._started_for(replica))

    def _started_for(self, replica: Replica) -> Callable[[NotStartedError | None], None]:
        def on_start(problem: NotStartedError | None) -> None:
            if problem is not None:
                self._lose(replica, problem)
                return
            replica.begins_to_run(self._launch.stage)
            self._launch.on_start(replica)
            self._lands(replica)

        return on_start

    def _lose(self, replica: Replica, problem: NotStartedError) -> None:
        self._lost = True
        words = str(problem) if replica.stopped_as else f"could not be started: {problem}"
        replica.not_started(words, problem.exit_code)
        self._launch.running -= 1
        self._launch.on_end(replica)
        self._in_the_air.discard(replica)
        self._on_lost(replica)
        if not self._in_the_air:
            self._on_landed()

    def _lands(self, replica: Replica) -> None:
        self._in_the_air.discard(replica)
        if not self._in_the_air:
            self._on_landed()

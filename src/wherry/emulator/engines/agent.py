"""The process that runs the tasks' processes, as the ECS agent runs containers on a host.

Two processes, in fact. The guard does nothing but wait for its only child, the agent: should that
be killed, all that ran becomes the guard's, which kills it and removes the folders. The agent has
one thread and one loop. It ends when the emulator's end of the socket closes, and with it ends
every process below it, whatever group, session or parent that has come to have.

It imports nothing that is slow to load, and knows nothing of jobs.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import sys
import time

from wherry.emulator.engines.channel import Channel
from wherry.emulator.engines.memory import MemoryWatch, kernel_oom_kills
from wherry.emulator.engines.scratch import remove_tree
from wherry.emulator.engines.task import TaskRun
from wherry.engine import kernel, processes, signals
from wherry.engine.attempt import Family
from wherry.engine.loop import Loop, disregard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from wherry.emulator.engines.plan import TaskPlan
    from wherry.engine.attempt import Attempt

FULL = 1 << 20
"""Bytes under way to the emulator beyond which no more output is read."""

_COLLECT_AFTER = 256
_LAST_WORDS = 5.0
_LONG_LINE = 1 << 14
_VICTIM = b"500"


def main(arguments: list[str]) -> None:
    """Start the agent, and see that nothing of it is left when it ends.

    Args:
        arguments: the socket's descriptor, that of the folder's lock, the emulator's pid, and the
            folder for scratch folders, which is removed at the end.
    """
    fd, lock, emulator = map(int, arguments[:3])
    folder = arguments[3]
    # What runs here must not inherit what tells whether the agent lives.
    os.set_inheritable(fd, False)
    os.set_inheritable(lock, False)
    os.chdir("/")
    kernel.become_subreaper()
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        _be_agent(fd, emulator, guard, folder)
    os.close(fd)
    for number in (signals.SIGINT, signals.SIGHUP):
        signals.handle(number, signals.SIG_IGN)
    signals.handle(signals.SIGTERM, lambda *_: processes.send([child], signals.SIGTERM))
    os.waitpid(child, 0)
    processes.kill_descendants()
    for _ in remove_tree(folder):
        pass


def _be_agent(fd: int, emulator: int, guard: int, folder: str) -> None:
    """Be the agent; never returns."""
    code = 1
    try:
        Agent(Channel(fd), folder).run([emulator, guard])
        code = 0
    except BaseException:  # noqa: BLE001 — the last place where it can be told
        import traceback

        sys.stderr.write(traceback.format_exc())
        sys.stderr.flush()
    finally:
        os._exit(code)


class OutputLog:
    """Sends what one container writes to the emulator.

    A line is sent when it is whole, as container runtimes do it: two streams that end up in one
    log must not cut each other's lines. One of more than 16 KiB goes in pieces.

    Args:
        agent: who sends.
        task_id, index: which container it is.
    """

    __slots__ = ("_agent", "_index", "_parts", "_task_id", "attempt", "blocked", "problem")

    def __init__(self, agent: Agent, task_id: str, index: int) -> None:
        self._agent = agent
        self._task_id = task_id
        self._index = index
        self._parts: dict[str, bytes] = {}
        self.attempt: Attempt | None = None
        self.blocked = False
        self.problem = ""

    def write(self, stream: str, chunks: list[bytes]) -> None:
        """Send what was read, and take no more while much is under way."""
        data = self._parts.pop(stream, b"") + b"".join(chunks)
        end = data.rfind(b"\n") + 1
        if len(data) - end >= _LONG_LINE:
            end = len(data)
        if end < len(data):
            self._parts[stream] = data[end:]
        if end:
            self._send(data[:end])

    def retry(self) -> bool:
        """Tell whether more may come; the agent says so by itself when that changes."""
        return not self.blocked

    def discard(self) -> None:
        """Do nothing: nobody waits so long that it would be called."""

    def close(self) -> None:
        """Send the last lines, if they have no end."""
        for part in self._parts.values():
            self._send(part)
        self._parts.clear()

    def _send(self, data: bytes) -> None:
        held_up = self._agent.send_output(self, self._task_id, self._index, data)
        self.blocked = self.blocked or held_up


class Agent:
    """Does what the emulator says, and tells it what happens.

    Args:
        channel: the connection to the emulator.
        folder: where tasks have their folders; its name is part of every marker.
    """

    def __init__(self, channel: Channel, folder: str) -> None:
        self._channel = channel
        self._folder = folder
        self.token = os.path.basename(folder)
        self.loop = Loop()
        self.family = Family()
        self.memory = MemoryWatch(self.loop, self.family, self._kill_for_memory)
        self.stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.limits: list[tuple[int, int, int]] = []
        self._tasks: dict[str, TaskRun] = {}
        self._held_up: list[OutputLog] = []
        self._wants_to_write = False
        self._oom_kills = kernel_oom_kills()
        self._is_leaving = False
        self._ended = 0

    def run(self, masters: list[int]) -> None:
        """Serve until the emulator closes the connection, or one of these processes ends."""
        kernel.become_subreaper()
        self._become_the_smaller_evil()
        self._make_room_for_descriptors()
        # Every page that is written to after a fork is copied; garbage is collected now and then.
        gc.disable()
        gc.freeze()
        self.loop.on_signal(signals.SIGCHLD, self._on_child)
        self.loop.on_signal(signals.SIGTERM, self._leave)
        for number in (signals.SIGINT, signals.SIGHUP, signals.SIGPIPE, signals.SIGXFSZ):
            signals.handle(number, disregard)
        for pid in masters:
            self._follow(pid)
        self.loop.add(self._channel.fd, lambda _: self._on_channel())
        self._channel.put(("ready", os.getpid()))
        self.loop.run_until(lambda: self._is_leaving, self._flush)
        processes.kill_descendants()
        self._say_last_words()

    # What containers ask for.

    def log(self, task_id: str, index: int) -> OutputLog:
        """Return where a container's output goes."""
        return OutputLog(self, task_id, index)

    def send_output(self, log: OutputLog, task_id: str, index: int, data: bytes) -> bool:
        """Send a container's output; tells whether its log has to wait before it sends more."""
        self._channel.put(("output", task_id, index, data))
        if self._channel.waiting > FULL:
            self._channel.flush()
        if self._channel.waiting <= FULL:
            return False
        self._held_up.append(log)
        return True

    def was_out_of_memory(self) -> bool:
        """Tell whether the kernel has killed something for want of memory since the last time."""
        before, self._oom_kills = self._oom_kills, kernel_oom_kills()
        return self._oom_kills > before

    # What the emulator says.

    def _on_channel(self) -> None:
        begun: list[TaskRun] = []
        for verb, *rest in self._channel.receive():
            if verb == "start":
                begun.extend(self._start(*rest))
            else:
                _confirm(begun)
                self._stop(*rest)
        _confirm(begun)
        if self._channel.at_end:
            self._is_leaving = True

    def _start(self, plan: TaskPlan) -> list[TaskRun]:
        if plan["fault"]:
            ends = [(None, "")] * len(plan["containers"])
            self._channel.put(("ended", plan["id"], False, [(None, plan["fault"]), *ends[1:]]))
            return []
        if not self._tasks:
            self._oom_kills = kernel_oom_kills()  # What came before was nobody's here.
        task = TaskRun(self, self._folder, plan, self._task_started, self._task_ended)
        self._tasks[task.id] = task
        task.set_off()
        return [task]

    def _stop(self, task_id: str, grace: float) -> None:
        task = self._tasks.get(task_id)
        if task is not None:
            task.stop(grace)

    # What happens.

    def _task_started(self, task: TaskRun) -> None:
        self._channel.put(("started", task.id))

    def _task_ended(self, task: TaskRun) -> None:
        del self._tasks[task.id]
        ends = [run.end for run in task.containers]
        self._remove(task.scratch.removal())
        self._channel.put(("ended", task.id, task.has_run, ends))
        self._ended += 1
        if self._ended % _COLLECT_AFTER == 0:
            gc.collect()

    def _remove(self, removal: Iterator[None]) -> None:
        for _ in removal:
            self.loop.call_later(0, lambda: self._remove(removal))
            return

    def _kill_for_memory(self, attempt: Attempt) -> None:
        for task in self._tasks.values():
            if task.kill_for_memory(attempt):
                return

    def _on_child(self) -> None:
        for pid, status, cpu_seconds, max_rss_kib in processes.reap():
            attempt = self.family.programs.get(pid)
            if attempt is not None:
                attempt.program_ended(status, cpu_seconds, max_rss_kib)
        for attempt in list(self.family.leaving):
            attempt.settle()

    def _flush(self) -> None:
        """Send what waits, and let output be read again when little is left of it."""
        channel = self._channel
        channel.flush()
        if self._held_up and channel.waiting <= FULL // 2:
            held_up, self._held_up = self._held_up, []
            for log in held_up:
                log.blocked = False
                if log.attempt is not None:
                    log.attempt.resume()
            channel.flush()
        if bool(channel.waiting) != self._wants_to_write:
            self._wants_to_write = bool(channel.waiting)
            self.loop.want_to_write(channel.fd, self._wants_to_write)
        if channel.broken:
            self._is_leaving = True

    # Beginning and end.

    def _follow(self, pid: int) -> None:
        """End with another process, even if a child of it keeps the socket open."""
        try:
            self.loop.add(os.pidfd_open(pid), lambda _: self._leave())
        except ProcessLookupError:
            self._leave()
        except OSError:
            return  # An old kernel; the socket serves alone.

    def _leave(self) -> None:
        self._is_leaving = True

    def _say_last_words(self) -> None:
        poll = select.poll()
        poll.register(self._channel.fd, select.POLLOUT)
        end = time.monotonic() + _LAST_WORDS
        self._channel.flush()
        while self._channel.waiting and time.monotonic() < end:
            poll.poll(int(_LAST_WORDS * 1000))
            self._channel.flush()

    def _become_the_smaller_evil(self) -> None:
        """Have the kernel choose a task, and not the emulator, when the machine has no memory."""
        try:
            with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:
                file.write(_VICTIM)
        except OSError:
            pass

    def _make_room_for_descriptors(self) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            # Programs get the limits that the emulator has; only this process raises its own.
            self.limits = [(resource.RLIMIT_NOFILE, soft, hard)]
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _confirm(begun: list[TaskRun]) -> None:
    for task in begun:
        task.confirm()
    begun.clear()

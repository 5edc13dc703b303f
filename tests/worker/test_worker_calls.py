"""One call, run by a process: its value, its exceptions, its output, its end.

Functions are defined inside the tests, so that they travel by value as a notebook's do.
"""

from __future__ import annotations

import functools
import operator
import os
import signal
import threading

import pytest

from wherry.worker.formats import STREAM_MOST


def test_a_function_by_reference_gives_its_value(bench):
    ran, outcome = bench.done(operator.add, 1, 2)

    assert (ran.code, ran.err) == (0, "")
    assert outcome.value() == 3
    assert "cloudpickle" not in outcome.header  # it was not needed, and not loaded


def test_a_function_by_value_gives_its_value(bench):
    offset = 10

    def shifted(numbers):
        return [number + offset for number in numbers]

    ran, outcome = bench.done(shifted, [1, 2])

    assert ran.code == 0
    assert outcome.value() == [11, 12]
    assert outcome.header["exit"] == 0
    assert outcome.header["python"].count(".") == 2
    assert set(outcome.header["phases"]) >= {"fetching", "running"}
    assert outcome.header["peak_kib"] > 1000


def test_large_arrays_come_and_go_as_buffers(bench):
    numpy = pytest.importorskip("numpy")

    def doubled(array):
        assert array.flags.writeable
        array *= 2
        return array

    ran, outcome = bench.done(doubled, numpy.arange(1_000_000))

    assert ran.code == 0, ran.err
    assert outcome.value().sum() == 2 * numpy.arange(1_000_000).sum()
    assert outcome.header["items"][0]["parts"] == 3


def test_an_exception_is_stored_before_the_process_ends_with_1(bench):
    def fails(value):
        raise ValueError(f"no {value}")

    ran, outcome = bench.done(fails, "luck")

    assert ran.code == 1
    assert outcome.error()["kind"] == "exception"
    assert outcome.error()["type"] == "ValueError"
    assert outcome.error()["message"] == "no luck"
    assert repr(outcome.exception()) == "ValueError('no luck')"
    assert outcome.error()["traceback"] in ran.err


def test_a_traceback_begins_with_the_users_own_frame(bench):
    def fails():
        raise KeyError("here")

    _, outcome = bench.done(fails)

    assert "_wherry_worker" not in outcome.error()["traceback"]
    assert outcome.error()["traceback"].count("  File ") == 1


def test_causes_of_an_exception_are_in_its_traceback(bench):
    def fails():
        try:
            os.listdir("/nowhere")
        except OSError as error:
            raise RuntimeError("outer") from error

    _, outcome = bench.done(fails)

    assert "FileNotFoundError" in outcome.error()["traceback"]
    assert "direct cause" in outcome.error()["traceback"]


def test_an_exception_that_cannot_be_pickled_is_told_in_words(bench):
    def fails():
        class OddError(Exception):
            def __init__(self, one, two):
                super().__init__(f"{one} and {two}")
                self.lock = threading.Lock()

        raise OddError(1, 2)

    ran, outcome = bench.done(fails)

    assert ran.code == 1
    assert "exception" not in outcome.error()
    assert outcome.error()["message"] == "1 and 2"
    assert outcome.error()["type"].endswith("OddError")


def test_an_exception_that_could_not_be_loaded_again_is_not_stored(bench):
    def fails():
        class StrictError(Exception):
            def __init__(self, one, two):
                super().__init__(one)

        raise StrictError(1, 2)

    _, outcome = bench.done(fails)

    assert "exception" not in outcome.error()
    assert outcome.error()["message"] == "1"


def test_an_exception_whose_message_raises_is_told_all_the_same(bench):
    def fails():
        class MuteError(Exception):
            def __str__(self):
                raise RuntimeError("no words")

        raise MuteError

    ran, outcome = bench.done(fails)

    assert ran.code == 1
    assert "no words" in outcome.error()["message"]


@pytest.mark.parametrize(("argument", "code"), [(0, 0), (None, 0), (3, 3), ("stop", 1), (256, 0)])
def test_sys_exit_gives_its_own_code(bench, argument, code):
    def leaves():
        raise SystemExit(argument)

    ran, outcome = bench.done(leaves)

    assert ran.code == code
    assert outcome.header["exit"] == code
    assert outcome.error()["kind"] == "exit"
    assert ran.err == ("stop\n" if argument == "stop" else "")


def test_os_exit_leaves_no_outcome_and_loses_no_output(bench):
    def leaves():
        os.write(1, b"last words")
        os._exit(7)

    url = bench.call(leaves)
    ran = bench.run(url)

    assert (ran.code, ran.out) == (7, "last words")
    assert not bench.has_outcome(url)


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
def test_a_signal_ends_the_worker_as_it_ended_the_function(bench, number):
    def dies():
        os.write(1, b"last words")
        os.kill(os.getpid(), number)

    url = bench.call(dies)
    ran = bench.run(url)

    assert (ran.code, ran.out) == (-number, "last words")
    assert not bench.has_outcome(url)


def test_a_segfault_shows_where_it_was(bench):
    def crashes():
        import ctypes

        ctypes.string_at(0)

    ran = bench.run(bench.call(crashes))

    assert ran.code == -signal.SIGSEGV
    assert "Segmentation fault" in ran.err
    assert "crashes" in ran.err


def test_sigterm_reaches_a_function_that_handles_it(bench):
    def waits():
        import time

        class ToldError(Exception):
            pass

        def tell(*_):
            raise ToldError

        signal.signal(signal.SIGTERM, tell)
        try:
            print("ready", flush=True)
            time.sleep(60)
        except ToldError:
            return "saved"

    bench.environ["AWS_BATCH_JOB_ID"] = "x"
    url = bench.call(waits)
    process = bench.start(url)
    assert process.stdout.readline() == b"ready\n"
    process.terminate()
    process.communicate(timeout=30)

    assert process.returncode == 0
    assert bench.outcome(url).value() == "saved"


def test_output_is_seen_live_line_by_line(bench):
    def talks(fifo):
        print("one")
        with open(fifo) as file:  # until the test has seen the line
            file.read()
        print("two")

    fifo = str(bench.root / "fifo")
    os.mkfifo(fifo)
    process = bench.start(bench.call(talks, fifo))
    assert process.stdout.readline() == b"one\n"
    with open(fifo, "w"):
        pass
    out, _ = process.communicate(timeout=30)

    assert out == b"two\n"


def test_output_of_all_kinds_is_kept_with_the_outcome(bench):
    def talks():
        import subprocess
        import sys

        print("from python ä")
        os.system("echo from a shell")
        subprocess.run(["sh", "-c", "echo to stderr >&2"], check=True)
        sys.stderr.write("and from python\n")

    ran, outcome = bench.done(talks)

    assert ran.out == outcome.text("stdout") == "from python ä\nfrom a shell\n"
    assert ran.err == outcome.text("stderr") == "to stderr\nand from python\n"


def test_of_much_output_all_is_shown_and_the_end_is_kept(bench):
    lines = 300_000

    def talks():
        import sys

        for number in range(lines):
            sys.stdout.write(f"{number:07}\n")

    ran, outcome = bench.done(talks)

    assert len(ran.out) == 8 * lines
    assert len(outcome.text("stdout")) == STREAM_MOST
    assert ran.out.endswith(outcome.text("stdout"))


def test_endless_output_of_a_process_left_behind_does_not_hold_the_call(bench):
    def leaves():
        import subprocess

        subprocess.Popen(["sh", "-c", "while :; do echo more; done"])
        return "done"

    url = bench.call(leaves)
    process = bench.start(url)
    process.stdout.close()
    process.wait(timeout=60)

    assert bench.outcome(url).value() == "done"
    process.stderr.close()


def test_warnings_are_shown_and_told(bench):
    def warns():
        import warnings

        warnings.warn("careful", stacklevel=1)
        return 1

    ran, outcome = bench.done(warns)
    (warning,) = outcome.header["items"][0]["warnings"]

    assert "UserWarning: careful" in ran.err
    assert (warning["message"], warning["category"]) == ("careful", "UserWarning")
    assert warning["lineno"] > 0


def test_time_is_told(bench):
    def works():
        import time

        end = time.process_time() + 0.1
        while time.process_time() < end:
            pass
        time.sleep(0.1)

    _, outcome = bench.done(works)
    (item,) = outcome.header["items"]

    assert item["cpu"] >= 0.09
    assert item["wall"] >= item["cpu"]


def test_a_value_that_cannot_be_pickled_is_named_with_the_part_at_fault(bench):
    def locked():
        class Model:
            def __init__(self):
                self.weights = [1, 2]
                self.state = {"lock": threading.Lock()}

        return Model()

    ran, outcome = bench.done(locked)

    assert ran.code == 1
    assert outcome.error()["kind"] == "result"
    assert "Model, cannot be pickled: value.state['lock'] is a" in outcome.error()["message"]
    assert outcome.error()["message"] in ran.err


def test_a_generator_is_refused_with_what_to_do(bench):
    def counts():
        yield 1

    ran, outcome = bench.done(counts)

    assert ran.code == 1
    assert outcome.error()["kind"] == "result"
    assert "generator" in outcome.error()["message"]
    assert "list" in outcome.error()["message"]


def test_a_value_that_nests_too_deeply_is_told_as_such(bench):
    def deep():
        value = None
        for _ in range(200_000):
            value = [value]
        return value

    ran, outcome = bench.done(deep)

    assert ran.code == 1
    assert "nests too deeply" in outcome.error()["message"]


def test_a_function_that_does_not_load_here_names_the_module(bench):
    class Absent:
        def __reduce__(self):
            return __import__, ("surely_not_installed_anywhere",)

    url = bench.call(functools.partial(print, Absent()))
    ran = bench.run(url)
    error = bench.outcome(url).header["error"]

    assert ran.code == 1
    assert error["kind"] == "unpickle"
    assert "'surely_not_installed_anywhere'" in error["message"]
    assert error["message"] in ran.err


def test_code_of_another_minor_version_is_refused_with_both_versions(bench):
    def own():
        return 1

    ran, outcome = bench.done(own, python="3.8.1")

    assert ran.code == 1
    assert outcome.header["error"]["kind"] == "python"
    assert "the client's is 3.8" in outcome.header["error"]["message"]


def test_a_function_by_reference_may_come_from_another_version(bench):
    ran, outcome = bench.done(operator.mul, 6, 7, python="3.8.1")

    assert ran.code == 0
    assert outcome.value() == 42


def test_a_damaged_argument_is_told_before_anything_runs(bench):
    part = bench.value((("x",), {}))
    path = bench.root / "blobs" / part["blob"][:2] / part["blob"]
    path.write_bytes(path.read_bytes()[:-1] + b"!")

    ran, outcome = bench.done(print, arguments=part)

    assert (ran.code, ran.out) == (1, "")
    assert outcome.header["error"]["kind"] == "fetch"
    assert "SHA-256" in outcome.header["error"]["message"]


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_an_argument_that_is_not_whole_is_told_by_name(bench, change):
    part = bench.value((("x" * 100,), {}))
    path = bench.root / "blobs" / part["blob"][:2] / part["blob"]
    path.unlink() if change == "gone" else path.write_bytes(path.read_bytes()[:50])

    ran, outcome = bench.done(print, arguments=part)

    assert ran.code == 1
    assert part["blob"] in outcome.header["error"]["message"]


def test_a_call_that_is_gone_is_told(bench):
    url = bench.call(print)
    (bench.root / "jobs" / "job-1" / "call.json").unlink()

    ran = bench.run(url)

    assert ran.code == 1
    assert "call.json is not there" in ran.err


def test_a_store_that_takes_nothing_is_told_by_an_exit_code_of_its_own(bench):
    url = bench.call(operator.add, 1, 1)
    (bench.root / "jobs" / "job-1" / "out").write_text("a file where a folder has to be")

    ran = bench.run(url)

    assert ran.code == 74
    assert "could not be stored" in ran.err


def test_a_value_that_finds_no_room_is_told_with_its_size(bench):
    def grows():
        import resource

        # A file that may grow no further meets the same refusal as one on a full disk.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        print("worked")
        return b"x" * (8 << 20)

    ran, outcome = bench.done(grows)

    assert ran.code == 1
    assert outcome.error()["kind"] == "store"
    assert "8,388," in outcome.error()["message"]
    assert outcome.error()["message"] in ran.err
    assert outcome.text("stdout") == "worked\n"
    assert [path.name for path in bench.out_path("x/job-1/call.json").parent.iterdir()] == ["0"]


def test_code_comes_as_a_tree(bench, tmp_path):
    from wherry.store.opening import open_store
    from wherry.workspace import archive, tree

    (tmp_path / "project/inner").mkdir(parents=True)
    (tmp_path / "project/inner/own_tree_module.py").write_text("def four(): return 4\n")
    packed = archive.pack(tree.scan(str(tmp_path / "project")))
    archive.upload(packed, open_store(bench.url))

    def uses():
        import own_tree_module

        return own_tree_module.four(), os.path.dirname(own_tree_module.__file__)

    target = str(tmp_path / "laid")
    code = [{"manifest": packed.digest, "target": target}]
    ran, outcome = bench.done(uses, code=code, syspath=[f"{target}/inner"])

    assert ran.code == 0, ran.err
    assert outcome.value() == (4, f"{target}/inner")


def test_a_program_is_run_in_an_unpacked_workspace(bench, tmp_path):
    import subprocess
    import sys

    from wherry.store.opening import open_store
    from wherry.worker import shipping
    from wherry.worker.formats import blob_key
    from wherry.workspace import archive, tree

    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "words").write_text("hello from the tree\n")
    packed = archive.pack(tree.scan(str(tmp_path / "project")))
    archive.upload(packed, open_store(bench.url))
    url = f"{bench.url}/{blob_key(packed.digest)}"
    command = [sys.executable, shipping.worker_zip_path(), "unpack", url, str(tmp_path / "laid")]
    ran = subprocess.run([*command, "--", "cat", "words"], capture_output=True, text=True)
    missing = subprocess.run([*command, "--", "no-such-program"], capture_output=True, text=True)

    assert (ran.returncode, ran.stdout) == (0, "hello from the tree\n"), ran.stderr
    assert (missing.returncode, missing.stderr) == (127, "wherry: no-such-program: not found\n")


def test_variables_are_set_before_the_function_is_loaded(bench):
    class Looks:
        def __reduce__(self):
            return os.getenv, ("FLAVOUR",)

    ran, outcome = bench.done(functools.partial(str.upper, Looks()), environ={"FLAVOUR": "plum"})

    assert ran.code == 0, ran.err
    assert outcome.value() == "PLUM"


def test_modules_are_found_in_the_calls_folders(bench, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "own_module.py").write_text("def twice(x): return 2 * x")

    def uses():
        import own_module

        return own_module.twice(4)

    _, outcome = bench.done(uses, syspath=[str(tmp_path / "mine")], cwd=str(tmp_path))

    assert outcome.value() == 8


def test_a_function_may_fork_and_start_threads(bench):
    def forks():
        pid = os.fork()
        if not pid:
            os._exit(5)
        thread = threading.Thread(target=print, args=["threaded"])
        thread.start()
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    ran, outcome = bench.done(forks)

    assert outcome.value() == 5
    assert ran.out == "threaded\n"


def test_what_was_registered_for_the_end_is_run(bench):
    def registers():
        import atexit

        atexit.register(print, "bye")

    ran, _ = bench.done(registers)

    assert (ran.code, ran.out) == (0, "bye\n")


def test_a_heartbeat_tells_the_phase(bench):
    def waits(path):
        import time

        while True:
            time.sleep(0.01)
            if os.path.exists(path):
                with open(path) as file:
                    text = file.read()
                    if "running" in text:
                        return text

    beat = bench.root / "jobs" / "job-1" / "beat" / "0"
    url = bench.call(waits, str(beat), beat=0.05)
    ran = bench.run(url)

    assert ran.code == 0
    assert '"attempt": 1' in bench.outcome(url).value()


def test_a_gang_knows_its_rank_and_its_main_node(bench):
    def looks():
        names = ("WHERRY_NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        return [os.environ[name] for name in names]

    bench.environ["WHERRY_RANK0_HOST"] = "first.example"
    url = bench.call(looks, nodes=3)
    assert bench.run(url, child=2).code == 0

    assert bench.outcome(url, 2).value() == ["2", "3", "first.example", "29500"]


def test_a_node_of_aws_batch_knows_its_rank(bench):
    def looks():
        return [os.environ[name] for name in ("RANK", "MASTER_ADDR")]

    bench.environ.update(
        WHERRY_REPLICA_ID="",
        AWS_BATCH_JOB_NODE_INDEX="1",
        AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS="10.0.0.7",
    )
    url = bench.call(looks, nodes=2)
    assert bench.run(url).code == 0

    assert bench.outcome(url, 1).value() == ["1", "10.0.0.7"]


def test_inputs_are_laid_and_outputs_are_stored(bench, tmp_path):
    def copies():
        import shutil

        shutil.copy("data/in.csv", "out.csv")

    work = tmp_path / "work"
    work.mkdir()
    part = bench.blob([b"1,2\n"])
    url = bench.call(copies, inputs={"data/in.csv": part}, outputs=["*.csv"], cwd=str(work))
    ran = bench.run(url)

    assert ran.code == 0, ran.err
    assert bench.outcome(url).header["outputs"] == {"out.csv": part}
    assert (bench.root / "jobs/job-1/files/0/out.csv").read_bytes() == b"1,2\n"


def test_an_output_that_matches_nothing_is_named(bench, tmp_path):
    ran, outcome = bench.done(operator.add, 1, 1, outputs=["*.nothing"], cwd=str(tmp_path))

    assert ran.code == 1
    assert outcome.header["error"]["kind"] == "output"
    assert "'*.nothing'" in outcome.header["error"]["message"]
    assert outcome.value() == 2


def test_an_input_never_leads_out_of_the_working_directory(bench, tmp_path):
    part = bench.blob([b"x"])
    ran, outcome = bench.done(print, inputs={"../escaped": part}, cwd=str(tmp_path))

    assert ran.code == 1
    assert "'../escaped'" in outcome.header["error"]["message"]


@pytest.mark.parametrize("words", [[], ["fetch"], ["call", "http://x/y"], ["unpack", "x"]])
def test_a_wrong_command_is_a_usage_error(bench, words):
    import subprocess
    import sys

    from wherry.worker import shipping

    ran = subprocess.run(
        [sys.executable, shipping.worker_zip_path(), *words], capture_output=True, text=True
    )

    assert ran.returncode == 2
    assert ran.stderr.startswith("wherry: ")

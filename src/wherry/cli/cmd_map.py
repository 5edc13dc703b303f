"""``wherry map``: a function of a file, called for each line or value, as one job."""

from __future__ import annotations

from wherry.cli.items import STDIN, read_lines, read_values
from wherry.cli.loading import load
from wherry.cli.output import say, warn
from wherry.cli.parsing import checked, one_of, set_completer, whole_number
from wherry.cli.times import read_seconds
from wherry.cli.values import print_results
from wherry.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any

    from wherry.cli.parsing import Parser
    from wherry.functions import ArrayJob, Executor

_EXECUTORS = ("local", "docker", "aws_batch")
_SETTINGS = ("vcpu", "memory", "num_gpus")
_NAMES = ("name", "queue", "image", "store", "session", "region", "profile")


_EPILOG = """\
examples:
  wherry map work.py:resize --each-line names.txt
  wherry map work.py:fit --from-json grid.jsonl --spread -e aws_batch \\
      --set batch_queue=main --set s3_bucket_name=my-bucket --set vcpu=4
"""


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.description = (
        "Call a function for each item, as one job with a process, a log and an exit code for "
        "each item, and print the values in the order of the items: JSON where a value can be "
        "that, else as Python shows it. The exit code is 1 when an item has failed."
    )
    parser.epilog = _EPILOG
    function = parser.add_argument(
        "function", metavar="FUNCTION", help="file.py:name or package.module:name"
    )
    set_completer(function, "functions")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--each-line", metavar="FILE", help="an item for each line of a file, as text (-: stdin)"
    )
    source.add_argument(
        "--from-json",
        metavar="FILE",
        help="an item for each value of a JSON list, or for each line of JSON (-: stdin)",
    )
    parser.add_argument(
        "--spread",
        action="store_true",
        help="pass a list's values as arguments, and an object's as named arguments",
    )
    parser.add_argument(
        "--chunksize",
        type=whole_number(1),
        default=1,
        metavar="N",
        help="items that share a process (default 1)",
    )
    parser.add_argument(
        "--max-failures",
        type=whole_number(0),
        metavar="N",
        help="end the rest when more than N processes have failed",
    )
    parser.add_argument("--name", help="the job's name; the function's by default")
    parser.add_argument(
        "-e",
        "--executor",
        type=one_of("executor", _EXECUTORS),
        metavar="KIND",
        help="where: local, docker or aws_batch; what [executor] in wherry.toml says by default, "
        "else local",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an argument of the executor or an option of the call, such as vcpu=2, image=NAME or "
        "retries=1; may be given again",
    )
    parser.add_argument("--detach", action="store_true", help="print the job's id, do not wait")
    parser.add_argument(
        "--timeout", type=checked(read_seconds), metavar="TIME", help="of one attempt of a process"
    )
    parser.set_defaults(func=run)


def run(args: Namespace) -> int:
    """Submit the map; wait and print values, or print its id."""
    is_text = args.each_line is not None
    source = args.each_line if is_text else args.from_json
    function = load(args.function)
    items: list[Any] = read_lines(source) if is_text else read_values(source)
    if not items:
        where = "standard input" if source == STDIN else source
        raise UsageError(f"{where} has no items; there is nothing to run")
    if args.spread:
        _check_spread(items)
        function = _spread(function)
    executor = _executor(args)
    runs = executor.map_array(
        function, items, chunksize=args.chunksize, max_failures=args.max_failures
    )
    if args.detach:
        print(runs.id)
        if args.max_failures is not None:
            warn(
                "--max-failures is kept by whoever waits: nothing ends the rest until "
                f"`wherry result {runs.id}` does"
            )
        return 0
    return _awaited(runs)


def _spread(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what calls a function with the parts of its one argument.

    It is made in here so that it goes along by value: jobs elsewhere do not have this package.
    """

    def call(item: Any) -> Any:
        return function(**item) if isinstance(item, dict) else function(*item)

    call.__name__ = getattr(function, "__name__", "call")
    call.__module__ = function.__module__  # A module that no path leads to goes along by it.
    return call


def _check_spread(items: list[Any]) -> None:
    for number, item in enumerate(items):
        if not isinstance(item, (list, dict)):
            raise UsageError(f"--spread takes lists and objects; item {number} is {item!r}")


def _executor(args: Namespace) -> Executor:
    from wherry.functions.defaults import default_executor
    from wherry.functions.kinds import make_executor

    given = dict(map(_pair, args.set))
    options = {"name": args.name, "timeout": args.timeout}
    given |= {name: value for name, value in options.items() if value is not None}
    if args.executor is None and not args.set:
        return default_executor().options(**given)
    from wherry.runner.config import Config

    settings = {name: setting.value for name, setting in Config().executor().items()}
    kind = settings.pop("kind", "local")
    if args.executor not in (None, kind):
        kind, settings = args.executor, {}
    try:
        return make_executor(str(kind), {**settings, **given})
    except TypeError as error:
        raise UsageError(_wording(str(kind), error)) from None


def _wording(kind: str, error: TypeError) -> str:
    """Say in the command's words what Python says of arguments."""
    _, missing, names = str(error).partition("required positional argument")
    if not missing:
        return f"executor {kind}: {error}"
    name = names.rpartition(": ")[2].strip("'")
    return f"executor {kind} needs {name}: --set {name}=VALUE"


def _pair(text: str) -> tuple[str, Any]:
    """Read ``KEY=VALUE``; the value is a number or a JSON value where it looks like one."""
    import json

    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"--set takes KEY=VALUE, not {text!r}")
    key = key.replace("-", "_")
    if key == "kind":
        raise UsageError(f"--set {text}: say which kind of executor with -e {value}")
    if key in _SETTINGS and value.upper() in ("INHERIT", "AUTO"):
        from wherry.functions.settings import Setting

        return key, Setting[value.upper()]
    try:
        found = json.loads(value)
    except ValueError:
        found = value
    # A name may look like a number; nothing that is a number is called so.
    return key, value if key.endswith(_NAMES) else found


def _awaited(runs: ArrayJob) -> int:
    """Print values as they come; whoever goes away leaves the job to go on."""
    try:
        say(f"{runs.id}: {len(runs)} {'item' if len(runs) == 1 else 'items'}")
        code = print_results(runs.results(return_exceptions=True), numbered=True)
    except (KeyboardInterrupt, BrokenPipeError):
        say(
            f"{runs.id} goes on; `wherry result {runs.id}` waits again, "
            f"`wherry cancel {runs.handle}` ends it"
        )
        raise
    if code:
        say(f"`wherry retry {runs.id}` runs again what has failed")
    return code

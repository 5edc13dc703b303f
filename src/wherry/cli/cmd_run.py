"""``wherry run``: make an app of a component, start it, and stay with it until it ends."""

from __future__ import annotations

import sys
import time

from wherry.cli.output import Paint, is_terminal, print_json, say, warn
from wherry.cli.parsing import checked, columns, set_completer, whole_number
from wherry.cli.session import Session
from wherry.errors import ComponentError, UsageError, WherryError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from wherry.cli.parsing import Parser
    from wherry.runner import Runner
    from wherry.schedulers.api import AppDryRunInfo
    from wherry.specs.app import AppDef
    from wherry.specs.options import CfgVal

_USAGE = "wherry run [option ...] COMPONENT [option of the component ...]"
_EPILOG = """\
COMPONENT is a name that `wherry builtins` lists, or path/to/file.py:function, or
package.module:function. All that follows it is the component's, --help too.

The app's exit code is passed on. Ctrl-C cancels an app of this machine (twice: kills it) and
leaves one elsewhere running; Ctrl-Z leaves it running in any case. --json prints, at the end,
  handle, state, exit_code, msg         (with --detach: handle; with --dryrun: scheduler,
                                         request, app, warnings, shipments)
"""


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.usage = _USAGE
    parser.epilog = _EPILOG
    parser.passes_words = True
    scheduler = parser.add_argument(
        "-s", "--scheduler", metavar="NAME", help="where to run (see `wherry runopts`)"
    )
    set_completer(scheduler, "schedulers")
    parser.add_argument(
        "-cfg",
        "--cfg",
        "--scheduler_args",
        "--scheduler-args",
        dest="cfg",
        action="append",
        default=[],
        metavar="K=V,…",
        help="options of the scheduler, such as queue=main,quiet=yes",
    )
    parser.add_argument(
        "--workspace",
        action="append",
        metavar="DIR",
        help="the folder of code that goes along: used in place on this machine, laid over the "
        "image or sent to the job elsewhere; may be given again to lay several over each other; "
        "ROLE=DIR is for one role, '' for none",
    )
    parser.add_argument(
        "--snapshot",
        action="store_true",
        help="on this machine: run in a copy of the workspace, so that editing goes on",
    )
    parser.add_argument("--name", help="the app's name, instead of the component's choice")
    parser.add_argument(
        "--array",
        type=whole_number(1),
        metavar="N",
        help="run N independent copies; each finds its number in WHERRY_REPLICA_ID",
    )
    parser.add_argument(
        "--timeout",
        type=checked(_seconds),
        metavar="SECONDS",
        help="the time that one attempt may take (or 10m, 2h)",
    )
    after = parser.add_argument(
        "--depends-on",
        action="append",
        default=[],
        metavar="HANDLE",
        help="start only after this app has succeeded; may be given again",
    )
    set_completer(after, "handles")
    parser.add_argument(
        "-d",
        "--detach",
        action="store_true",
        default=None,
        help="print the handle and return; the app goes on (as apps on AWS Batch always do)",
    )
    parser.add_argument(
        "--no-detach",
        dest="detach",
        action="store_false",
        help="stay with the app, wherever it runs",
    )
    parser.add_argument("--dryrun", action="store_true", help="print the request, start nothing")
    parser.add_argument(
        "--preflight",
        action="store_true",
        help="first ask whether it can ever run there; it is not started if it cannot",
    )
    parser.add_argument(
        "--wait",
        action="store_true",
        help="of an app that is left alone: wait for the end, without logs",
    )
    parser.add_argument(
        "--log",
        action="store_true",
        help="of an app that is left alone: follow the logs all the same",
    )
    parser.add_argument(
        "--raw", action="store_true", help="let control codes in logs reach the terminal"
    )
    parser.add_argument("--json", action="store_true", help="print JSON on stdout, logs on stderr")
    parser.set_defaults(func=run)


def run(args: Namespace) -> int:
    """Run a component, as the options say."""
    if not args.words:
        raise UsageError(
            "which component? `wherry builtins` lists those with a name, path/to/file.py:function "
            "is one of your own; for example: wherry run utils.echo --msg hello"
        )
    component, *words = args.words
    if _asks_for_help(component, words):
        return 0
    with Session(args) as runner:
        app = _edited(_built(runner, component, words), args, runner)
        info = runner.dryrun(
            app,
            args.scheduler,
            _options(runner, args),
            workspace=args.workspace,
            snapshot=args.snapshot,
        )
        if not args.dryrun:
            info = runner.settled(info)
        for warning in info.warnings:
            warn(warning)
        if args.preflight:
            _check_beforehand(runner, info)
        if args.dryrun:
            return _show(info, as_json=args.json)
        if _detaches(runner, args, info.scheduler):
            return _leave(runner, info, args)
        return _stay(runner, info, args)


def _asks_for_help(component: str, words: list[str]) -> bool:
    if not any(word in ("-h", "--help") for word in words):
        return False
    from wherry import components

    found = components.find(component)
    if not components.wants_help(found, words):
        return False
    print(components.format_help(found, width=columns()), end="")
    return True


def _built(runner: Runner, component: str, words: list[str]) -> AppDef:
    try:
        return runner.build(component, words)
    except ComponentError as error:
        hint = _misplaced(component, words)
        if not hint:
            raise
        raise ComponentError(f"{error} ({hint})") from error


def _misplaced(component: str, words: list[str]) -> str:
    """Word the hint for an option of ours that stands after the component."""
    from wherry import components
    from wherry.cli.main import parser_of

    try:
        theirs = components.option_names(components.find(component))
    except WherryError:
        return ""
    ours = set(parser_of("run").option_names()).difference(theirs, ("-h", "--help"))
    for word in words:
        option = word.partition("=")[0]
        if option in ours:
            return f"options of `wherry run`, such as {option}, come before the component"
    return ""


def _edited(app: AppDef, args: Namespace, runner: Runner) -> AppDef:
    """Lay the options of the command line over what the component made."""
    changes: dict[str, Any] = {}
    if args.name is not None:
        changes["name"] = args.name
    if args.timeout is not None:
        changes["timeout"] = args.timeout
    if args.depends_on:
        after = [str(runner.resolve(handle)) for handle in args.depends_on]
        changes["depends_on"] = (*app.depends_on, *after)
    if args.array is not None:
        changes |= _array(app, args.array)
    if not changes:
        return app
    from dataclasses import replace

    return replace(app, **changes)


def _array(app: AppDef, count: int) -> dict[str, Any]:
    from dataclasses import replace

    if len(app.roles) != 1:
        names = ", ".join(role.name for role in app.roles)
        raise UsageError(f"--array needs an app of one role; {app.name!r} has several ({names})")
    (role,) = app.roles
    if role.num_replicas > 1 and not app.array:
        raise UsageError(
            f"--array {count}: role {role.name!r} already is {role.num_replicas} replicas that "
            "belong together; an array is made of copies of one"
        )
    return {"array": True, "roles": [replace(role, num_replicas=count, min_replicas=None)]}


def _options(runner: Runner, args: Namespace) -> dict[str, CfgVal]:
    if not args.cfg:
        return {}
    options = runner.scheduler_run_opts(args.scheduler or runner.default_scheduler())
    chosen: dict[str, CfgVal] = {}
    for text in args.cfg:
        chosen |= options.cfg_from_str(text)
    return chosen


def _show(info: AppDryRunInfo[Any], *, as_json: bool) -> int:
    if not as_json:
        if info.shipments:
            from wherry.cli.shipments import planned

            for shipment in info.shipments:
                say(planned(shipment))
        print(info)
        return 0
    from wherry.specs.plain import to_plain

    print_json(
        {
            "scheduler": info.scheduler,
            "request": to_plain(info.request),
            "app": to_plain(info.app),
            "warnings": list(info.warnings),
            "shipments": to_plain(info.shipments),
        }
    )
    return 0


def _check_beforehand(runner: Runner, info: AppDryRunInfo[Any]) -> None:
    """Warn of what may keep an app from running, and refuse one that never can."""
    from wherry.specs.diagnosis import Certainty

    for finding in runner.scheduler(info.scheduler).preflight(info):
        words = " ".join(filter(None, (finding.summary, finding.detail, finding.resolution)))
        if finding.certainty is Certainty.CERTAIN:
            raise UsageError(f"it can never run there, and was not started: {words}")
        warn(words)


def _detaches(runner: Runner, args: Namespace, scheduler: str) -> bool:
    """Tell whether to leave an app alone: as was said, else if it runs far away."""
    if args.detach is not None:
        return bool(args.detach)
    configured = runner.config.detach()
    if configured is not None:
        return configured.value
    return runner.scheduler(scheduler).remote


def _leave(runner: Runner, info: AppDryRunInfo[Any], args: Namespace) -> int:
    """Start an app that goes on without this process; perhaps wait for it all the same."""
    handle = _started(runner, info)
    runner.detach(handle)
    if args.log:
        say(handle)
        return _follow(runner, info, handle, args, owned=False)
    if not args.wait:
        print_json({"handle": handle}) if args.json else print(handle)
        return 0
    say(handle) if args.json else print(handle, flush=True)
    return _end(runner, handle, args, time.monotonic())


def _started(runner: Runner, info: AppDryRunInfo[Any]) -> str:
    """Start an app, and tell what was shipped with it."""
    handle = runner.schedule(info)
    if info.shipments:
        from wherry.cli.shipments import shipped

        say(shipped(info.shipments))
    return handle


def _stay(runner: Runner, info: AppDryRunInfo[Any], args: Namespace) -> int:
    handle = _started(runner, info)
    say(handle)
    owned = runner.scheduler(info.scheduler).attached
    return _follow(runner, info, handle, args, owned=owned)


def _follow(
    runner: Runner, info: AppDryRunInfo[Any], handle: str, args: Namespace, *, owned: bool
) -> int:
    from wherry.cli import attach
    from wherry.cli.main import EXIT_BROKEN_PIPE, EXIT_INTERRUPTED, silence_stdout

    began = time.monotonic()
    replicas = sum(role.num_replicas for role in info.app.roles)
    stay = attach.Attachment(
        runner, handle, replicas, owned=owned, raw=args.raw, logs_to_stderr=args.json
    )
    outcome = stay.stay()
    if outcome == attach.ENDED:
        code = _end(runner, handle, args, began)
        return EXIT_INTERRUPTED if stay.interrupts else code
    if outcome == attach.UNHEARD:
        silence_stdout()
    return {attach.LEFT: EXIT_INTERRUPTED, attach.UNHEARD: EXIT_BROKEN_PIPE}.get(outcome, 0)


def _end(runner: Runner, handle: str, args: Namespace, began: float) -> int:
    """Wait for the end, tell how it was, and return the app's exit code."""
    status = runner.wait(handle)
    code = status.exit_code
    if args.json:
        from wherry.cli.records import ending_record

        print_json(ending_record(handle, status))
    if code != 0:
        from wherry.cli.report import failure

        say(failure(handle, status, Paint(sys.stderr)))
    elif is_terminal(sys.stderr):
        from wherry.cli.times import show_duration

        took = show_duration(time.monotonic() - began)
        say(f"{Paint(sys.stderr).state(status.state)} in {took}")
    return 1 if code is None else code


def _seconds(text: str) -> float:
    from wherry.cli.times import read_seconds

    return read_seconds(text)

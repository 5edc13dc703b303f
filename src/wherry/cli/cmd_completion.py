"""``wherry completion``: print what makes a shell complete our commands."""

from __future__ import annotations

from wherry.cli.parsing import one_of, set_completer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from wherry.cli.parsing import Parser

SHELLS = ("bash", "zsh", "fish")
_EPILOG = """\
bash: eval "$(wherry completion bash)"             in ~/.bashrc
zsh:  eval "$(wherry completion zsh)"              in ~/.zshrc, after compinit
fish: wherry completion fish | source              in ~/.config/fish/config.fish
"""


def configure(parser: Parser) -> None:
    """Describe the command."""
    parser.epilog = _EPILOG
    shell = parser.add_argument(
        "shell", type=one_of("shell", SHELLS), metavar="SHELL", help="bash, zsh or fish"
    )
    set_completer(shell, "shells")
    parser.set_defaults(func=run)


def run(args: Namespace) -> int:
    """Print the script."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["wherry"], True, args.shell))
    return 0

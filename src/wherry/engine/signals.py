"""Signals by name and number.

From the C module behind `signal`: the Python one builds enums, which costs a third of a start-up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as kernel_signals
else:
    import _signal as kernel_signals

SIGCHLD = int(kernel_signals.SIGCHLD)
SIGHUP = int(kernel_signals.SIGHUP)
SIGINT = int(kernel_signals.SIGINT)
SIGKILL = int(kernel_signals.SIGKILL)
SIGPIPE = int(kernel_signals.SIGPIPE)
SIGTERM = int(kernel_signals.SIGTERM)
SIGXFSZ = int(kernel_signals.SIGXFSZ)
SIG_DFL = kernel_signals.SIG_DFL
SIG_IGN = kernel_signals.SIG_IGN

handle = kernel_signals.signal
handler_of = kernel_signals.getsignal
interrupt = kernel_signals.default_int_handler
set_wakeup_fd = kernel_signals.set_wakeup_fd

_NAMES = {
    int(value): name
    for name, value in vars(kernel_signals).items()
    if name.startswith("SIG") and not name.startswith("SIG_") and isinstance(value, int)
}


def name_of(number: int) -> str:
    """Return a signal's name, such as ``"SIGKILL"``."""
    return _NAMES.get(number, f"signal {number}")

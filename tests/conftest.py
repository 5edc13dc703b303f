"""What all tests share: records and locks of their own, never the user's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

# A shell without job control ignores SIGINT for what it starts in the background, and so would
# every program that a test starts: Ctrl-C could not be tested there.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point every test at records, locks and configuration of its own."""
    for name in [name for name in os.environ if name.startswith("WHERRY_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "wherry-home"
    monkeypatch.setenv("WHERRY_HOME", str(home))
    monkeypatch.setenv("WHERRY_RUNTIME_DIR", str(tmp_path / "wherry-run"))
    monkeypatch.setenv("WHERRY_CONFIG_HOME", str(tmp_path / "wherry-config"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return home

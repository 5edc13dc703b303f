"""Where Wherry keeps its records, and where it keeps what lives only while the machine is up."""

from __future__ import annotations

import os


def home() -> str:
    """Return the folder of all records: ``$WHERRY_HOME``, or the user's data directory."""
    given = os.environ.get("WHERRY_HOME")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    import platformdirs

    return platformdirs.user_data_dir("wherry")


def runtime_dir() -> str:
    """Return the folder for this user's locks: ``$WHERRY_RUNTIME_DIR``, or one in ``/tmp``.

    It is the same for every ``WHERRY_HOME``, since the machine's cores and GPUs are.
    """
    given = os.environ.get("WHERRY_RUNTIME_DIR")
    if given:
        return os.path.abspath(os.path.expanduser(given))
    import tempfile

    return os.path.join(tempfile.gettempdir(), f"wherry-{os.getuid()}")


def journal_path() -> str:
    """Return the file that says which apps were created and which have ended."""
    return os.path.join(home(), "journal.jsonl")

"""Evaluate Booth's function: python -c PROGRAM X1 X2 TRIAL_IDX TRACKER_BASE."""

import json
import os
import sys
from importlib import import_module


def _save(base: str, name: str, text: str) -> None:
    if base.startswith("file://"):
        base = base[len("file://") :]
    if "://" not in base:
        os.makedirs(base, exist_ok=True)
        with open(os.path.join(base, name), "w") as file:
            file.write(text)
        return
    try:
        fsspec = import_module("fsspec")
    except ImportError:
        sys.exit(f"booth: {base} needs fsspec in the image")
    with fsspec.open(base.rstrip("/") + "/" + name, "w", auto_mkdir=True) as file:
        file.write(text)


def _main(x1: float, x2: float, trial: str, base: str) -> None:
    value = (x1 + 2 * x2 - 7) ** 2 + (2 * x1 + x2 - 5) ** 2
    print(value)
    _save(base, trial + ".json", json.dumps({"booth_eval": value}) + "\n")


if __name__ == "__main__":
    _main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4])

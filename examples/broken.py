"""A job that fails the way jobs do: something it needs is not there."""

from __future__ import annotations

print("loading the model")
with open("/models/does-not-exist.bin", "rb") as model:
    print(len(model.read()))

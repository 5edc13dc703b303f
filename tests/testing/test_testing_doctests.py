"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["", ".clock", ".scheduler"])
def test_the_examples_run(name):
    module = importlib.import_module(f"wherry.testing{name}")
    names = {word: getattr(module, word) for word in getattr(module, "__all__", ())}

    result = doctest.testmod(module, extraglobs=names)

    assert result.attempted > 0
    assert result.failed == 0

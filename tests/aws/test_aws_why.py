"""Every situation of docs/why.md is made on the emulator, and is printed as the page says."""

from __future__ import annotations

import os

import pytest

from support import why_page
from support.why_cases import CHAPTERS, SITUATIONS, Situation
from support.why_world import World, printed
from wherry.emulator import Running

UPDATE = bool(os.environ.get("UPDATE_WHY"))
each = pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.name)


@each
def test_a_situation_is_told_as_the_page_says(situation: Situation, wherry_aws: Running) -> None:
    world = World(wherry_aws)
    job = situation.make(world)

    diagnosis = world.diagnosed(job)

    text = printed(diagnosis)
    if UPDATE:
        why_page.write(situation.name, text)
    assert diagnosis.cause is not None
    assert diagnosis.cause.code == situation.code
    assert text == why_page.shown(situation.name)


def test_the_page_has_all_situations_and_no_others() -> None:
    ordered = [one.name for chapter in CHAPTERS for one in SITUATIONS if one.chapter == chapter]

    assert why_page.names() == ordered
    assert len(ordered) == len(set(ordered)) >= 25

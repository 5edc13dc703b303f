"""What the tests of aws_batch share: a scheduler that finds the emulator as any client would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from wherry.emulator import Running
from wherry.schedulers.aws_batch import AWSBatchScheduler


@pytest.fixture
def batch(wherry_aws: Running) -> Iterator[AWSBatchScheduler]:
    """A scheduler, and an emulator of the test's own in its environment."""
    made = AWSBatchScheduler("tests")
    yield made
    made.close()

"""A small experiment as three jobs: data, training, score; the same on every executor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support import engine
from wherry import DebugExecutor, Deps, DockerExecutor
from wherry.specs import BindMount

SECONDS = 110


@pytest.fixture
def experiment(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    import experiment

    return experiment


def test_a_support_vector_machine_is_trained_and_scored_alike(
    experiment, make_anywhere, monkeypatch
):
    options = {"code": None, "deps": Deps(modules=[experiment]), "env": {"OMP_NUM_THREADS": "1"}}
    expected = experiment.run_experiment(DebugExecutor())
    ex = make_anywhere(**options)
    if ex.environment == "docker":
        packages = engine.packages()
        options["env"]["PYTHONPATH"] = packages
        mounts = [BindMount(packages, packages, read_only=True)]
        ex = DockerExecutor(engine.image("python"), mounts=mounts, **options)
    elif ex.environment == "aws_batch":
        # The emulator's jobs are processes, of the python3 that is first on their PATH.
        options["env"]["PYTHONPATH"] = engine.packages()
        ex = ex.options(memory=1, **options)

    assert experiment.run_experiment(ex) == expected > 0.9
    if ex.environment == "docker":
        for job in ex.jobs():
            job.delete()


class Nearest:
    """A classifier of the standard library alone, for images that have no more."""

    def __init__(self, means):
        self.means = means

    def label(self, x):
        return min(self.means, key=lambda name: abs(self.means[name] - x))


def load_numbers():
    import random

    chance = random.Random(7)
    return [(name, chance.gauss(mean, 1)) for name, mean in [("a", 0), ("b", 5)] * 50]


def train_nearest(data):
    names = {name for name, _ in data}
    groups = {name: [x for other, x in data if other == name] for name in names}
    return Nearest({name: sum(group) / len(group) for name, group in groups.items()})


def score_nearest(data, clf):
    return sum(clf.label(x) == name for name, x in data) / len(data)


def run_nearest(ex):
    data = ex.submit(load_numbers).result(SECONDS)
    clf = ex.submit(train_nearest, data[50:]).result(SECONDS)
    return ex.submit(score_nearest, data[:50], clf).result(SECONDS)


def test_classes_of_a_module_that_goes_by_value_come_back_as_they_were(make_anywhere):
    # With everything it names, this module goes by value.
    ex = make_anywhere(deps=Deps(modules=[sys.modules[__name__]]), code=None)

    assert run_nearest(ex) == run_nearest(DebugExecutor()) > 0.9


def nearest_digit(pixels):
    """Return the kind of the training image that an image is closest to."""
    import numpy as np

    global _known
    try:
        images, kinds = _known
    except NameError:
        from sklearn.datasets import load_digits

        images, kinds = _known = load_digits(return_X_y=True)
    return int(kinds[np.square(images - pixels).sum(axis=1).argmin()])


def test_a_map_over_ten_thousand_images_of_digits_knows_them_all(ex):
    datasets = pytest.importorskip("sklearn.datasets")
    import itertools

    images, kinds = datasets.load_digits(return_X_y=True)
    assert len(images) == 1797
    many = list(itertools.islice(itertools.cycle(images), 10_000))
    expected = list(itertools.islice(itertools.cycle(kinds.tolist()), 10_000))
    options = ex.options(env={"OMP_NUM_THREADS": "1"})

    runs = options.map_array(nearest_digit, many, chunksize=2_500)

    assert list(runs.results(timeout=SECONDS)) == expected
    assert len(runs.exit_codes) == 10_000
    assert runs.record.children == 4

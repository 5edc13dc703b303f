"""A support vector machine on scikit-learn's irises, as three jobs: load, train, score.

`python examples/experiment.py [local | docker IMAGE | aws BUCKET QUEUE]`: the same calls run on
this machine, in containers, or on AWS Batch.
"""

from __future__ import annotations

import sys
import sysconfig

from numpy.random import default_rng
from sklearn import datasets, svm

import wherry


def load_data():
    """Return the irises in an order that looks random and is always the same."""
    iris = datasets.load_iris()
    order = default_rng(7).permutation(iris.target.size)
    return iris.data[order], iris.target[order]


def train_svm(data, C, gamma):
    """Train on the last sixty."""
    features, kinds = data
    return svm.SVC(C=C, gamma=gamma).fit(features[90:], kinds[90:])


def score_svm(data, classifier):
    """Return the share of the first ninety that is told right."""
    features, kinds = data
    return classifier.score(features[:90], kinds[:90])


def run_experiment(executor, C=1.0, gamma=0.7):
    """Run the three jobs, one after the other; return the score."""
    data = executor.submit(load_data).result()
    classifier = executor.submit(train_svm, data, C=C, gamma=gamma).result()
    return executor.submit(score_svm, data, classifier).result()


def in_containers(image):
    """Return an executor whose containers see the packages that are installed here."""
    packages = sysconfig.get_path("purelib")
    return wherry.DockerExecutor(
        image,
        mounts=[wherry.BindMount(packages, packages, read_only=True)],
        env={"PYTHONPATH": packages},
    )


def on_aws(bucket, queue):
    """Return an executor for AWS Batch."""
    return wherry.AWSBatchExecutor(s3_bucket_name=bucket, batch_queue=queue, vcpu=1, memory=1)


WHERE = {"local": wherry.LocalExecutor, "docker": in_containers, "aws": on_aws}

if __name__ == "__main__":
    where, *words = sys.argv[1:] or ["local"]
    print(f"{where}: {run_experiment(WHERE[where](*words)):.4f} of the irises are told right")

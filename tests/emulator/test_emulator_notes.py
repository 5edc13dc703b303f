"""What job definitions ask for and is left out is said."""

from __future__ import annotations

import pytest

from support.emulated import SIMPLE, World, multinode
from wherry.emulator.batch import actions, notes
from wherry.emulator.batch.ports import Document


def single(**properties: object) -> Document:
    return {"containerProperties": {"image": "x", **properties}}


def task(*containers: Document, **properties: object) -> Document:
    return {"ecsProperties": {"taskProperties": [{"containers": list(containers), **properties}]}}


def pod(**properties: object) -> Document:
    return {"eksProperties": {"podProperties": {"containers": [{"image": "x"}], **properties}}}


def nodes(document: Document) -> Document:
    container = document.get("containerProperties")
    group = {**document, **({"container": container} if container else {})}
    return {"nodeProperties": {"nodeRangeProperties": [group]}}


_CREDENTIALS = {"credentialsParameter": "arn"}
_SECRET_OPTIONS = {"logDriver": "awslogs", "secretOptions": [{"name": "a", "valueFrom": "b"}]}
_WINDOWS = {"operatingSystemFamily": "WINDOWS_SERVER_2022_CORE"}
_CASES = {
    "credentials of a registry": (single(repositoryCredentials=_CREDENTIALS), "repositoryCred"),
    "credentials in a task": (task({"repositoryCredentials": _CREDENTIALS}), "repositoryCred"),
    "FireLens": (task({"firelensConfiguration": {"type": "fluentbit"}}), "firelensConfiguration"),
    "another log driver": (single(logConfiguration={"logDriver": "splunk"}), "Log drivers"),
    "secrets of a log driver": (single(logConfiguration=_SECRET_OPTIONS), "secretOptions"),
    "ECS Exec": (task({}, enableExecuteCommand=True), "enableExecuteCommand"),
    "a size of the disk": (single(ephemeralStorage={"sizeInGiB": 30}), "ephemeralStorage"),
    "Windows": (single(runtimePlatform=_WINDOWS), "Windows"),
    "EFS": (single(volumes=[{"name": "a", "efsVolumeConfiguration": {}}]), "EFS"),
    "S3 Files": (single(volumes=[{"name": "a", "s3filesVolumeConfiguration": {}}]), "S3 Files"),
    "a Kubernetes secret": (pod(volumes=[{"name": "a", "secret": {}}]), "Kubernetes secrets"),
    "a claim": (pod(volumes=[{"name": "a", "persistentVolumeClaim": {}}]), "claims"),
    "a service account": (pod(serviceAccountName="a"), "serviceAccountName"),
    "a DNS policy": (pod(dnsPolicy="Default"), "dnsPolicy"),
    "secrets for images": (pod(imagePullSecrets=[{"name": "a"}]), "imagePullSecrets"),
    "a pull policy": (pod(initContainers=[{"imagePullPolicy": "Never"}]), "imagePullPolicy"),
}


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("where", [lambda document: document, nodes], ids=["job", "nodes"])
def test_it_is_said(case, where):
    document, words = _CASES[case]

    [note] = notes.of(where(document))

    assert words in note


def test_every_note_has_a_case():
    said = {note for document, _ in _CASES.values() for note in notes.of(document)}

    assert said == {sentence for _, sentence in notes.LEFT_OUT}


def test_an_ordinary_definition_has_no_notes():
    assert notes.of(SIMPLE) == notes.of(multinode()) == notes.of(pod()) == []
    assert notes.of(single(runtimePlatform={"cpuArchitecture": "ARM64"})) == []


def test_the_status_of_a_region_names_the_definitions_that_ask_for_it():
    world = World()
    assert actions.status(world.plane)["notes"] == []
    with_exec = single(enableExecuteCommand=True)
    for _ in range(4):
        world.define("train", with_exec)
    world.define("old", single(ephemeralStorage={"sizeInGiB": 30})).status = "INACTIVE"

    [note] = actions.status(world.plane)["notes"]

    assert note == (
        "enableExecuteCommand is not used: there is no ECS Exec. "
        "Asked for by train:4, train:3, train:2 and 1 more."
    )

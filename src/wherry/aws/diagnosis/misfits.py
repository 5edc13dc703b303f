"""The words for a request that does not fit: a table from obstacles to findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wherry.aws.diagnosis.fit import Kind, Obstacle
from wherry.specs.diagnosis import Certainty, Finding


@dataclass(frozen=True)
class _Words:
    """Texts in which the parts of an obstacle are filled in."""

    summary: str
    detail: str
    resolution: str


_WORDS: Mapping[Kind, _Words] = {
    Kind.PLATFORM: _Words(
        "The job is made for another platform than its queue has.",
        "It can run on {asked}; the environment {environment} is {offered}.",
        "Submit it to a queue of {asked}, or register its definition with the platform "
        "capability of this queue.",
    ),
    Kind.GANG: _Words(
        "A multi-node parallel job cannot run in this queue's environment.",
        "The environment {environment} is {offered}; AWS Batch runs multi-node jobs on managed "
        "on-demand EC2 instances only.",
        "Use a queue of on-demand EC2 instances, or make the replicas independent (an array).",
    ),
    Kind.FARGATE_GPU: _Words(
        "The job asks for a GPU, and Fargate has none.",
        "It asks for {asked}; the environment {environment} is Fargate.",
        "Use a queue of EC2 instances with GPUs.",
    ),
    Kind.FARGATE_PAIR: _Words(
        "Fargate has no task of this size.",
        "The job asks for {asked}; with so many vCPUs Fargate has {offered}.",
        "Ask for a pair that Fargate has.",
    ),
    Kind.INSTANCE_TYPE: _Words(
        "The job asks for an instance type that its queue does not have.",
        "It asks for {asked}; the environment {environment} has {offered}.",
        "Leave the instance type out, or add it to the environment.",
    ),
    Kind.ARCHITECTURE: _Words(
        "The job is made for another processor architecture than its queue has.",
        "It asks for {asked}; the instances of environment {environment} are {offered}.",
        "Use a queue with {asked} instances, or build the image for {offered}.",
    ),
    Kind.GPUS: _Words(
        "The job asks for more GPUs than any instance of its queue has.",
        "It asks for {asked}; of what the environment {environment} may launch, {where} has the "
        "most: {offered}.",
        "Ask for fewer GPUs, or add instance types that have them to {environment}.",
    ),
    Kind.VCPUS: _Words(
        "The job asks for more vCPUs than any instance of its queue has.",
        "It asks for {asked}; of what the environment {environment} may launch, {where} has the "
        "most: {offered}.",
        "Ask for at most {offered}, or add larger instance types to {environment}.",
    ),
    Kind.MEMORY: _Words(
        "The job asks for more memory than any instance of its queue has.",
        "It asks for {asked}; of what the environment {environment} may launch, {where} has the "
        "most for containers: {offered}.",
        "Ask for at most {offered}, or add larger instance types to {environment}.",
    ),
    Kind.TIGHT_MEMORY: _Words(
        "The job asks for memory that its host keeps for itself.",
        "It asks for {asked}; of what the environment {environment} may launch, {where} has the "
        "most, and of that the system and the ECS agent leave about {offered} for containers.",
        "Ask for at most {offered}, or add larger instance types to {environment}.",
    ),
    Kind.MAX_VCPUS: _Words(
        "The job needs more vCPUs than its environment may ever have.",
        "It needs {asked}; maxvCpus of the environment {environment} is {offered}.",
        "Raise maxvCpus of {environment}, or ask for less.",
    ),
}


def finding(obstacle: Obstacle) -> Finding:
    """Return what there is to say of an obstacle."""
    words = _WORDS[obstacle.kind]
    parts = {
        "asked": obstacle.asked,
        "offered": obstacle.offered,
        "environment": obstacle.environment,
        "where": obstacle.where,
    }
    return Finding(
        obstacle.kind.value,
        words.summary.format(**parts),
        words.detail.format(**parts),
        words.resolution.format(**parts),
        Certainty.CERTAIN if obstacle.is_certain else Certainty.LIKELY,
    )

"""The numbers of AWS Batch that a request is checked against before it is sent.

*Limits* is https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html, *model* is the
API model that botocore carries.
"""

from __future__ import annotations

NAME_LENGTH = 128  # model: jobName, jobDefinitionName, jobQueue
SHARE_LENGTH = 255  # model: SubmitJob.shareIdentifier
PRIORITIES = (0, 9999)  # model: SubmitJob.schedulingPriorityOverride
IMAGE_LENGTH = 255  # model: ContainerProperties.image
ARRAY_SIZES = (2, 10_000)  # limits; model: ArrayProperties.size
DEPENDENCIES = 20  # limits
NODE_GROUPS = 5  # userguide/mnp-node-groups
NODES = 1000  # userguide/multi-node-parallel-jobs: the ECS limit of a cluster
ATTEMPTS = 10  # model: RetryStrategy.attempts
EXIT_RULES = 5  # model: RetryStrategy.evaluateOnExit
PATTERN_LENGTH = 512  # model: EvaluateOnExit
TIMEOUT_SECONDS = 60  # userguide/job_timeouts
FARGATE_DAYS = 14  # userguide/job_timeouts: longer jobs may be ended
MEMORY_MIB = 4  # model: ResourceRequirement.value
TAGS = 50  # userguide/using-tags; a job's and its definition's together when propagated
TAG_KEY_LENGTH = 128  # model: TagKey
TAG_VALUE_LENGTH = 256  # model: TagValue
DEFINITION_BYTES = 24 * 1024  # limits: RegisterJobDefinition
SUBMIT_BYTES = 30 * 1024  # limits: SubmitJob
OVERRIDES_CHARACTERS = 8192  # ECS RunTask; Netflix/metaflow#1482, ASFHyP3/hyp3#3041

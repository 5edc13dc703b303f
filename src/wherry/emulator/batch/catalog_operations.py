"""Which function does which operation, for all that is not about jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wherry.emulator.batch import (
    consumables,
    definitions,
    environments,
    policies,
    queues,
    quota_shares,
    service_environments,
    tags,
)
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.ports import Document

Operation = Callable[[Catalog, Document], Document]

OPERATIONS: Mapping[str, Operation] = {
    "RegisterJobDefinition": definitions.register,
    "DeregisterJobDefinition": definitions.deregister,
    "DescribeJobDefinitions": definitions.describe,
    "CreateComputeEnvironment": environments.create,
    "UpdateComputeEnvironment": environments.update,
    "DeleteComputeEnvironment": environments.delete,
    "DescribeComputeEnvironments": environments.describe,
    "CreateJobQueue": queues.create,
    "UpdateJobQueue": queues.update,
    "DeleteJobQueue": queues.delete,
    "DescribeJobQueues": queues.describe,
    "CreateSchedulingPolicy": policies.create,
    "UpdateSchedulingPolicy": policies.update,
    "DeleteSchedulingPolicy": policies.delete,
    "DescribeSchedulingPolicies": policies.describe,
    "ListSchedulingPolicies": policies.list_,
    "CreateConsumableResource": consumables.create,
    "UpdateConsumableResource": consumables.update,
    "DeleteConsumableResource": consumables.delete,
    "DescribeConsumableResource": consumables.describe,
    "ListConsumableResources": consumables.list_,
    "CreateQuotaShare": quota_shares.create,
    "UpdateQuotaShare": quota_shares.update,
    "DeleteQuotaShare": quota_shares.delete,
    "DescribeQuotaShare": quota_shares.describe,
    "ListQuotaShares": quota_shares.list_,
    "CreateServiceEnvironment": service_environments.create,
    "UpdateServiceEnvironment": service_environments.update,
    "DeleteServiceEnvironment": service_environments.delete,
    "DescribeServiceEnvironments": service_environments.describe,
    "ListTagsForResource": tags.list_,
    "TagResource": tags.tag,
    "UntagResource": tags.untag,
    **dict.fromkeys(service_environments.JOB_OPERATIONS, service_environments.refuse_jobs),
}
"""Each operation of the catalog by its name in the API; takes a request that `wire` has checked."""

"""How much of an EC2 instance's memory a container can really have.

A job that asks for all the memory of its instance type waits for ever: the hypervisor and the
kernel keep a part before the ECS agent registers the rest, and AWS Batch's image reserves 32 MiB
more for the agent (AWS Batch user guide, "Compute resource memory management" and "Reserve system
memory"). The part is not published. It has been measured, as memory advertised minus memory that
the running host reports, for more than 500 types (Amazon Linux 2, aws/karpenter-provider-aws,
``pkg/providers/instancetype/zz_generated.memory_overhead.go``, commit 15e8769; the entries there
that equal a type's whole memory were not measured):

==================  ==========  ========  =======
type                advertised  kept MiB  percent
==================  ==========  ========  =======
t3.micro                 1,024       103     10.1
c6g.medium               2,048       209     10.2
c5.large                 4,096       433     10.6
m5.large                 8,192       559      6.8
m5.xlarge               16,384       867      5.3
m5.4xlarge              65,536     2,718      4.1
c5.9xlarge              73,728     3,521      4.8
c5.18xlarge            147,456     6,727      4.6
m5d.12xlarge           196,608     7,555      3.8
m6a.32xlarge           524,288    19,168      3.7
r6a.48xlarge         1,572,864    57,072      3.6
==================  ==========  ========  =======

No single share fits: 4 percent, a common rule, is too little for the first eight of these. The
worst cases at each size lie under three straight lines, the lowest of which is what we keep back.
They stand 58 MiB and more above every measured point, since images differ: Amazon Linux 2023 left
86 MiB less of 32 GiB than Amazon Linux 2 (ASFHyP3/hyp3#1900), and an update of Amazon Linux 2
took 4 MiB more (aws/amazon-ecs-ami#597).

What ECS hosts registered is above what the formula gives: r6id.xlarge 31,517 (30,877),
r6id.4xlarge 126,722 (124,757; both ASFHyP3/hyp3#1900), trn1.32xlarge 507,821 (503,059;
meta-pytorch/torchx#795), m6i.large 7,817 (7,407; aws/amazon-ecs-ami#597). Types newer than the
measurements get the same lines. An image that keeps huge pages, or a larger
``ECS_RESERVED_MEMORY``, needs a smaller request than this.
"""

from __future__ import annotations

import math

AGENT_MIB = 32
"""What AWS Batch's default image reserves for the ECS agent."""

# Kept by the host: MiB, plus a percentage of the memory. The lowest line counts.
_KEPT = ((96, 10.0), (384, 4.5), (1536, 3.75))


def offered(advertised: int) -> int:
    """Return the MiB that a container can ask for on an otherwise empty host.

    Args:
        advertised: the instance type's memory in MiB, as ``DescribeInstanceTypes`` gives it.
    """
    kept = min(base + advertised * percent / 100 for base, percent in _KEPT)
    return advertised - math.ceil(kept) - AGENT_MIB

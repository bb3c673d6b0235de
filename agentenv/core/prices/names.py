"""The names of all prices that a price book must have, with their units and descriptions.

Prices that are the same in all regions are in each file, too, so that a file is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentenv.core.prices.units import Unit

# By name: the unit, and what is paid for.
PRICES: Final[Mapping[str, tuple[Unit, str]]] = {
    "eks.cluster": ("h", "an EKS control plane, its version in standard support"),
    "eks.cluster-extended": ("h", "the same in extended support, all in all"),
    "fargate.vcpu": ("vCPU-h", "a core on Fargate"),
    "fargate.memory": ("GB-h", "a gigabyte of memory on Fargate"),
    "fargate.disk": ("GB-h", "a gigabyte of disk on Fargate beyond the twenty that are free"),
    "nat.gateway": ("h", "a NAT gateway"),
    "nat.traffic": ("GB", "a gigabyte through a NAT gateway"),
    "transit.attachment": ("h", "the attachment of a VPC to a transit gateway"),
    "transit.traffic": ("GB", "a gigabyte that a VPC sends to a transit gateway"),
    "address.public": ("h", "a public IPv4 address"),
    "endpoint.interface": ("h", "an interface endpoint in one zone"),
    "endpoint.traffic": ("GB", "a gigabyte through interface endpoints"),
    "traffic.out": ("GB", "a gigabyte to the internet"),
    "traffic.cross-zone": ("GB", "a gigabyte that leaves or enters a zone; one that does both is paid twice"),
    "balancer.application": ("h", "an Application Load Balancer"),
    "balancer.application-work": ("LCU-h", "its unit of work"),
    "balancer.network": ("h", "a Network Load Balancer"),
    "balancer.network-work": ("LCU-h", "its unit of work"),
    "ebs.gp3": ("GB-month", "a gigabyte of a gp3 volume"),
    "efs.standard": ("GB-month", "a gigabyte in EFS Standard"),
    "efs.infrequent": ("GB-month", "a gigabyte in EFS Infrequent Access"),
    "efs.archive": ("GB-month", "a gigabyte in EFS Archive"),
    "efs.read": ("GB", "a gigabyte read with Elastic throughput, metadata counted"),
    "efs.write": ("GB", "a gigabyte written with Elastic throughput, metadata counted"),
    "efs.tiering": ("GB", "a gigabyte that moves to or is read from Infrequent Access"),
    "efs.provisioned": ("month", "a MiB a second of provisioned throughput"),
    "backup.efs": ("GB-month", "a gigabyte of warm backups of EFS"),
    "kms.key": ("month", "a key of one's own"),
    "kms.requests": ("million", "requests to KMS"),
    "logs.taken-in": ("GB", "a gigabyte of logs taken in by CloudWatch"),
    "logs.delivered": ("GB", "a gigabyte of flow logs delivered to CloudWatch"),
    "logs.kept": ("GB-month", "a gigabyte of logs kept, compressed"),
    "cloudwatch.dashboard": ("month", "a dashboard"),
    "cloudwatch.metric": ("month", "a custom metric"),
    "cloudwatch.alarm": ("month", "an alarm"),
    "s3.standard": ("GB-month", "a gigabyte in S3 Standard"),
    "s3.writes": ("million", "writes and lists of S3"),
    "athena.scanned": ("TB", "a terabyte that Athena reads"),
    "dynamodb.writes": ("million", "writes on demand of at most a kilobyte"),
    "dynamodb.reads": ("million", "reads on demand of at most four kilobytes"),
    "dynamodb.kept": ("GB-month", "a gigabyte in a table"),
    "sqs.requests": ("million", "requests to SQS"),
}

# The instances that are looked up: families that a stack may name, in the sizes that hold sandboxes well.
FAMILIES: Final = (
    *("t4g", "m6g", "m7g", "m8g", "c7g", "c8g", "r7g", "r8g"),
    *("m7i", "m7a", "c7i", "c7a", "c8i", "m8i", "r8i"),
)
SIZES: Final = ("medium", "large", "xlarge", "2xlarge", "4xlarge")
GPU_FAMILIES: Final = ("g5", "g6")
GPU_SIZES: Final = ("xlarge", "2xlarge")

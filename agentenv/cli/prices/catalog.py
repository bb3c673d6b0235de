"""Which line of AWS's price list each of our prices is: its service, its kind of usage, and how it becomes our unit.

Usage is named after its region (`EUC1-NatGateway-Hours`) in most regions, and without in some; lists are asked for by
region, so the name's end says enough. Where more than one price matches, none is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

MILLION = Decimal(10**6)


@dataclass(frozen=True)
class Wanted:
    """One price in the list."""

    service: str
    usage: str  # a pattern, to the end of the usage's name
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    times: Decimal = Decimal(1)  # of the list's unit in ours
    beside: str = ""  # the price that it comes on top of
    where: str = "regionCode"  # what the list calls the region

    def is_usage(self, name: str) -> bool:
        """Whether a kind of usage is it."""
        return re.search(rf"(?:^|-)(?:{self.usage})$", name) is not None


def _balancer(kind: str, usage: str) -> Wanted:
    return Wanted("AWSELB", usage, {"productFamily": f"Load Balancer-{kind}"})


_OUT = "fromRegionCode"

CATALOG: Mapping[str, Wanted] = {
    "eks.cluster": Wanted("AmazonEKS", "AmazonEKS-Hours:perCluster"),
    "eks.cluster-extended": Wanted("AmazonEKS", "AmazonEKS-Hours:extendedSupport", beside="eks.cluster"),
    "fargate.vcpu": Wanted("AmazonEKS", "Fargate-vCPU-Hours:perCPU"),
    "fargate.memory": Wanted("AmazonEKS", "Fargate-GB-Hours"),
    "fargate.disk": Wanted("AmazonEKS", "Fargate-EphemeralStorage-GB-Hours"),
    "nat.gateway": Wanted("AmazonEC2", "NatGateway-Hours", {"productFamily": "NAT Gateway"}),
    "nat.traffic": Wanted("AmazonEC2", "NatGateway-Bytes", {"productFamily": "NAT Gateway"}),
    "address.public": Wanted("AmazonVPC", "PublicIPv4:InUseAddress"),
    "endpoint.interface": Wanted("AmazonVPC", "VpcEndpoint-Hours", {"operation": "VpcEndpoint"}),
    "endpoint.traffic": Wanted("AmazonVPC", "VpcEndpoint-Bytes", {"operation": "VpcEndpoint"}),
    "traffic.out": Wanted("AWSDataTransfer", "DataTransfer-Out-Bytes", {"transferType": "AWS Outbound"}, where=_OUT),
    "traffic.cross-zone": Wanted(
        "AWSDataTransfer", "DataTransfer-Regional-Bytes", {"transferType": "IntraRegion"}, where=_OUT
    ),
    "balancer.application": _balancer("Application", "LoadBalancerUsage"),
    "balancer.application-work": _balancer("Application", "LCUUsage"),
    "balancer.network": _balancer("Network", "LoadBalancerUsage"),
    "balancer.network-work": _balancer("Network", "LCUUsage"),
    "ebs.gp3": Wanted("AmazonEC2", r"EBS:VolumeUsage\.gp3", {"productFamily": "Storage"}),
    "efs.standard": Wanted("AmazonEFS", "TimedStorage-ByteHrs", {"storageClass": "General Purpose"}),
    "efs.infrequent": Wanted("AmazonEFS", "IATimedStorage-ET-ByteHrs"),
    "efs.archive": Wanted("AmazonEFS", "ArchiveTimedStorage-ByteHrs"),
    "efs.read": Wanted("AmazonEFS", "ETDataAccess-Bytes", {"accessType": "Read"}),
    "efs.write": Wanted("AmazonEFS", "ETDataAccess-Bytes", {"accessType": "Write"}),
    "efs.tiering": Wanted("AmazonEFS", "IADataAccess-Bytes"),
    "efs.provisioned": Wanted("AmazonEFS", "ProvisionedTP-MiBpsHrs"),
    "backup.efs": Wanted("AWSBackup", "WarmStorage-ByteHrs-EFS"),
    "kms.key": Wanted("awskms", "KMS-Keys"),
    "kms.requests": Wanted("awskms", "KMS-Requests", times=MILLION),
    "logs.taken-in": Wanted("AmazonCloudWatch", "DataProcessing-Bytes"),
    "logs.delivered": Wanted("AmazonCloudWatch", "VendedLog-Bytes"),
    "logs.kept": Wanted("AmazonCloudWatch", "TimedStorage-ByteHrs"),
    "cloudwatch.dashboard": Wanted("AmazonCloudWatch", "DashboardsUsageHour"),
    "cloudwatch.metric": Wanted("AmazonCloudWatch", "MetricMonitorUsage"),
    "cloudwatch.alarm": Wanted("AmazonCloudWatch", "AlarmMonitorUsage", {"alarmType": "Standard"}),
    "s3.standard": Wanted("AmazonS3", "TimedStorage-ByteHrs", {"volumeType": "Standard"}),
    "s3.writes": Wanted("AmazonS3", "Requests-Tier1", times=MILLION),
    "athena.scanned": Wanted("AmazonAthena", "DataScannedInTB"),
    "dynamodb.writes": Wanted("AmazonDynamoDB", "WriteRequestUnits", times=MILLION),
    "dynamodb.reads": Wanted("AmazonDynamoDB", "ReadRequestUnits", times=MILLION),
    "dynamodb.kept": Wanted("AmazonDynamoDB", "TimedStorage-ByteHrs"),
    "sqs.requests": Wanted("AWSQueueService", "Requests(?:-Tier1|-RBP)?", {"queueType": "Standard"}, times=MILLION),
}
INSTANCES: Mapping[str, str] = {
    "productFamily": "Compute Instance",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}

"""The query for each price in the AWS Price List: its service, its usage type, and the factor to the project's unit.

Usage types have a prefix for the region (`EUC1-NatGateway-Hours`) in most regions. Queries are limited to one region,
so the end of the usage type is enough. If more than one price matches, none is used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

MILLION = Decimal(10**6)


@dataclass(frozen=True)
class PriceQuery:
    """The query for one price."""

    service: str
    usage: str  # a pattern for the end of the usage type
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])
    factor: Decimal = Decimal(1)  # from the list's unit to the project's
    on_top_of: str = ""  # the price to which it is added
    region_attribute: str = "regionCode"

    def matches(self, name: str) -> bool:
        """Return whether a usage type matches."""
        return re.search(rf"(?:^|-)(?:{self.usage})$", name) is not None


def _balancer(kind: str, usage: str) -> PriceQuery:
    return PriceQuery("AWSELB", usage, {"productFamily": f"Load Balancer-{kind}"})


_OUT = "fromRegionCode"

CATALOG: Mapping[str, PriceQuery] = {
    "eks.cluster": PriceQuery("AmazonEKS", "AmazonEKS-Hours:perCluster"),
    "eks.cluster-extended": PriceQuery("AmazonEKS", "AmazonEKS-Hours:extendedSupport", on_top_of="eks.cluster"),
    "fargate.vcpu": PriceQuery("AmazonEKS", "Fargate-vCPU-Hours:perCPU"),
    "fargate.memory": PriceQuery("AmazonEKS", "Fargate-GB-Hours"),
    "fargate.disk": PriceQuery("AmazonEKS", "Fargate-EphemeralStorage-GB-Hours"),
    "nat.gateway": PriceQuery("AmazonEC2", "NatGateway-Hours", {"productFamily": "NAT Gateway"}),
    "nat.traffic": PriceQuery("AmazonEC2", "NatGateway-Bytes", {"productFamily": "NAT Gateway"}),
    "transit.attachment": PriceQuery("AmazonVPC", "TransitGateway-Hours", {"operation": "TransitGatewayVPC"}),
    "transit.traffic": PriceQuery("AmazonVPC", "TransitGateway-Bytes", {"operation": "TransitGatewayVPC"}),
    "address.public": PriceQuery("AmazonVPC", "PublicIPv4:InUseAddress"),
    "endpoint.interface": PriceQuery("AmazonVPC", "VpcEndpoint-Hours", {"operation": "VpcEndpoint"}),
    "endpoint.traffic": PriceQuery("AmazonVPC", "VpcEndpoint-Bytes", {"operation": "VpcEndpoint"}),
    "traffic.out": PriceQuery(
        "AWSDataTransfer", "DataTransfer-Out-Bytes", {"transferType": "AWS Outbound"}, region_attribute=_OUT
    ),
    "traffic.cross-zone": PriceQuery(
        "AWSDataTransfer", "DataTransfer-Regional-Bytes", {"transferType": "IntraRegion"}, region_attribute=_OUT
    ),
    "balancer.application": _balancer("Application", "LoadBalancerUsage"),
    "balancer.application-work": _balancer("Application", "LCUUsage"),
    "balancer.network": _balancer("Network", "LoadBalancerUsage"),
    "balancer.network-work": _balancer("Network", "LCUUsage"),
    "ebs.gp3": PriceQuery("AmazonEC2", r"EBS:VolumeUsage\.gp3", {"productFamily": "Storage"}),
    "efs.standard": PriceQuery("AmazonEFS", "TimedStorage-ByteHrs", {"storageClass": "General Purpose"}),
    "efs.infrequent": PriceQuery("AmazonEFS", "IATimedStorage-ET-ByteHrs"),
    "efs.archive": PriceQuery("AmazonEFS", "ArchiveTimedStorage-ByteHrs"),
    "efs.read": PriceQuery("AmazonEFS", "ETDataAccess-Bytes", {"accessType": "Read"}),
    "efs.write": PriceQuery("AmazonEFS", "ETDataAccess-Bytes", {"accessType": "Write"}),
    "efs.tiering": PriceQuery("AmazonEFS", "IADataAccess-Bytes"),
    "efs.provisioned": PriceQuery("AmazonEFS", "ProvisionedTP-MiBpsHrs"),
    "backup.efs": PriceQuery("AWSBackup", "WarmStorage-ByteHrs-EFS"),
    "kms.key": PriceQuery("awskms", "KMS-Keys"),
    "kms.requests": PriceQuery("awskms", "KMS-Requests", factor=MILLION),
    "logs.taken-in": PriceQuery("AmazonCloudWatch", "DataProcessing-Bytes"),
    "logs.delivered": PriceQuery("AmazonCloudWatch", "VendedLog-Bytes"),
    "logs.kept": PriceQuery("AmazonCloudWatch", "TimedStorage-ByteHrs"),
    "cloudwatch.dashboard": PriceQuery("AmazonCloudWatch", "DashboardsUsageHour"),
    "cloudwatch.metric": PriceQuery("AmazonCloudWatch", "MetricMonitorUsage"),
    "cloudwatch.alarm": PriceQuery("AmazonCloudWatch", "AlarmMonitorUsage", {"alarmType": "Standard"}),
    "s3.standard": PriceQuery("AmazonS3", "TimedStorage-ByteHrs", {"volumeType": "Standard"}),
    "s3.writes": PriceQuery("AmazonS3", "Requests-Tier1", factor=MILLION),
    "athena.scanned": PriceQuery("AmazonAthena", "DataScannedInTB"),
    "dynamodb.writes": PriceQuery("AmazonDynamoDB", "WriteRequestUnits", factor=MILLION),
    "dynamodb.reads": PriceQuery("AmazonDynamoDB", "ReadRequestUnits", factor=MILLION),
    "dynamodb.kept": PriceQuery("AmazonDynamoDB", "TimedStorage-ByteHrs"),
    "sqs.requests": PriceQuery(
        "AWSQueueService", "Requests(?:-Tier1|-RBP)?", {"queueType": "Standard"}, factor=MILLION
    ),
}
INSTANCES: Mapping[str, str] = {
    "productFamily": "Compute Instance",
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
}

"""Samples of AWS usage types, with the kind of charge and the line of each.

By product and usage as they are in cost and usage reports; most regions have their code before the usage.
"""

from __future__ import annotations

from typing import NamedTuple

from agentenv.core.attribution.types import Kind


class Usage(NamedTuple):
    """One kind of usage."""

    product: str
    name: str
    kind: Kind
    part: str


USAGES: tuple[Usage, ...] = (
    Usage("AmazonEKS", "USE1-AmazonEKS-Hours:perCluster", "fixed", "control plane"),
    Usage("AmazonEC2", "NatGateway-Hours", "fixed", "NAT"),
    Usage("AmazonEC2", "EUC1-NatGateway-Bytes", "network", "NAT"),
    Usage("AmazonEC2", "USE1-RegionalNatGateway-Bytes", "network", "NAT"),
    Usage("AmazonEC2", "NatGateway-Prvd-Bytes", "network", "NAT"),
    Usage("AmazonVPC", "USE1-VpcEndpoint-Hours", "fixed", "endpoints"),
    Usage("AmazonVPC", "USE1-VpcEndpoint-Bytes", "network", "endpoints"),
    Usage("AmazonVPC", "EUC1-VpcEndpoint-GWLBE-Bytes", "network", "endpoints"),
    Usage("AmazonVPC", "USE1-PublicIPv4:InUseAddress", "fixed", "public addresses"),
    Usage("AmazonVPC", "USE1-TransitGateway-Hours", "fixed", "other"),
    Usage("AmazonVPC", "USE1-TransitGateway-Bytes", "network", "transfer"),
    Usage("AmazonVPC", "USE1-VpcPeering-In-Bytes", "network", "transfer"),
    Usage("AmazonEC2", "DataTransfer-Regional-Bytes", "network", "transfer"),
    Usage("AmazonEC2", "EUC1-DataTransfer-Out-Bytes", "network", "transfer"),
    Usage("AWSDataTransfer", "USE1-EUC1-AWS-Out-Bytes", "network", "transfer"),
    Usage("AWSELB", "USE1-DataTransfer-Out-Bytes", "network", "transfer"),
    Usage("AWSELB", "USE1-LCUUsage", "fixed", "other"),
    Usage("AmazonCloudWatch", "USE1-DataProcessing-Bytes", "fixed", "logs and metrics"),
    Usage("AmazonCloudWatch", "USE1-VendedLog-Bytes", "fixed", "logs and metrics"),
    Usage("AmazonCloudWatch", "EUC1-TimedStorage-ByteHrs", "fixed", "logs and metrics"),
    Usage("AmazonCloudWatch", "USE1-DashboardsUsageHour", "fixed", "logs and metrics"),
    Usage("AmazonEFS", "USE1-TimedStorage-ByteHrs", "storage", "file systems"),
    Usage("AmazonEFS", "EUC1-IATimedStorage-ET-ByteHrs", "storage", "file systems"),
    Usage("AmazonEFS", "USE1-IATimedStorage-ET-SmallFiles", "storage", "file systems"),
    Usage("AmazonEFS", "USE1-ArchiveTimedStorage-ByteHrs", "storage", "file systems"),
    Usage("AmazonEFS", "USE1-ArchiveEarlyDelete-ByteHrs", "storage", "file systems"),
    Usage("AmazonEFS", "USE1-ETDataAccess-Bytes", "storage_io", "file systems"),
    Usage("AmazonEFS", "IADataAccess-Bytes", "storage_io", "file systems"),
    Usage("AmazonEFS", "USE1-ProvisionedTP-MiBpsHrs", "storage_io", "file systems"),
    Usage("AWSBackup", "USE1-WarmStorage-ByteHrs-EFS", "storage", "backups"),
    Usage("AWSBackup", "EUC1-ColdStorage-ByteHrs-EFS", "storage", "backups"),
    Usage("AWSBackup", "USE1-WarmStorage-ByteHrs-DynamoDB", "fixed", "backups"),
    Usage("AmazonEC2", "EUC1-EBS:VolumeUsage.gp3", "fixed", "disks of nodes"),
    Usage("AmazonDynamoDB", "TimedStorage-ByteHrs", "fixed", "other"),
    Usage("AmazonS3", "TimedStorage-ByteHrs", "fixed", "other"),
    Usage("AmazonAthena", "USE1-DataScannedInTB", "fixed", "other"),
    Usage("AmazonGuardDuty", "USE1-PaidEventsAnalyzed-Bytes", "fixed", "other"),
    Usage("awskms", "us-east-1-KMS-Keys", "fixed", "other"),
)

"""Patterns of AWS usage types, which decide how a line of the bill is divided. Python and Athena read them alike.

The product is checked first: bytes of ingested logs and of file reads are no network traffic.
"""

from __future__ import annotations

# Products whose bytes are not network traffic, as named in the bill
LOGS, FILES, BACKUPS = "AmazonCloudWatch", "AmazonEFS", "AWSBackup"

# Bytes through gateways and endpoints, and between zones and regions
MOVED = r"(NatGateway|VpcEndpoint|VpcPeering|TransitGateway)(-[A-Za-z]+)?-Bytes$|DataTransfer|AWS-(In|Out)-Bytes$"
# Storage of file systems, and early deletions from a storage class
STORED = r"TimedStorage|EarlyDelete"
# Backups of homes; other backups are common costs
COPIED = r"(WarmStorage-ByteHrs|ColdStorage-ByteHrs|EarlyDelete-ColdByteHrs)-EFS"

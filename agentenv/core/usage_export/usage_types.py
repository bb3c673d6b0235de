"""What lines of the bill are of, by what AWS calls the usage: patterns that Python and Athena read alike.

A service comes before them: logs that are taken in and files that are read are bytes as well, and move nowhere.
"""

from __future__ import annotations

# Products whose bytes are no traffic, as the bill names them
LOGS, FILES, BACKUPS = "AmazonCloudWatch", "AmazonEFS", "AWSBackup"

# Bytes that cross something: gateways, endpoints, zones, regions
MOVED = r"(NatGateway|VpcEndpoint|VpcPeering|TransitGateway)(-[A-Za-z]+)?-Bytes$|DataTransfer|AWS-(In|Out)-Bytes$"
# Of file systems: what lies there, and what went before the time for which its class is paid
KEPT = r"TimedStorage|EarlyDelete"
# Of backups: copies of homes; others are of what is everybody's
COPIED = r"(WarmStorage-ByteHrs|ColdStorage-ByteHrs|EarlyDelete-ColdByteHrs)-EFS"

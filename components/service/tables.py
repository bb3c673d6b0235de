"""The DynamoDB tables of the ledger and of access, with point-in-time recovery."""

import pulumi
from pulumi_aws import dynamodb

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.gateway import access_table as access
from agentenv.core.ledger.table import ATTRIBUTES, BY_TIME, EXPIRES, OPEN_ROWS, OWNER, ROW

# A month is billed in the next one, so errors may be found weeks later.
RECOVERY_DAYS = 35


def ledger_table(labels: Labels, child: ChildOptions, *, protected: bool) -> dynamodb.Table:
    """Create the table; `kept` protects it and retains it when the stack is destroyed."""
    return dynamodb.Table(
        f"{labels.base}-ledger",
        name=labels.name("dynamodb-table", "ledger"),
        # Traffic follows users. Provisioned capacity would cost more than the requests.
        billing_mode="PAY_PER_REQUEST",
        hash_key=OWNER,
        range_key=ROW,
        attributes=[{"name": name, "type": kind} for name, kind in sorted(ATTRIBUTES.items())],
        local_secondary_indexes=[{"name": BY_TIME, "range_key": "from", "projection_type": "ALL"}],
        global_secondary_indexes=[
            {
                "name": OPEN_ROWS,
                "key_schemas": [
                    {"attribute_name": "open", "key_type": "HASH"},
                    {"attribute_name": ROW, "key_type": "RANGE"},
                ],
                "projection_type": "KEYS_ONLY",
            }
        ],
        ttl={"enabled": True, "attribute_name": EXPIRES},
        point_in_time_recovery={"enabled": True, "recovery_period_in_days": RECOVERY_DAYS},
        # The AWS managed key of DynamoDB, whose use is in CloudTrail.
        server_side_encryption={"enabled": True},
        deletion_protection_enabled=protected,
        tags=labels.tags("ledger"),
        opts=child(pulumi.ResourceOptions(protect=True, retain_on_delete=True) if protected else None),
    )


def access_table(labels: Labels, child: ChildOptions, *, protected: bool) -> dynamodb.Table:
    """Create the table of API keys, links, ended sessions and the audit trail of entering."""
    return dynamodb.Table(
        f"{labels.base}-access",
        name=labels.name("dynamodb-table", "access"),
        billing_mode="PAY_PER_REQUEST",
        hash_key=access.PART,
        range_key=access.ROW,
        attributes=[{"name": name, "type": kind} for name, kind in sorted(access.ATTRIBUTES.items())],
        local_secondary_indexes=[{"name": access.BY_CHANGE, "range_key": access.CHANGED, "projection_type": "ALL"}],
        ttl={"enabled": True, "attribute_name": access.EXPIRES},
        point_in_time_recovery={"enabled": True, "recovery_period_in_days": RECOVERY_DAYS},
        server_side_encryption={"enabled": True},
        deletion_protection_enabled=protected,
        tags=labels.tags("access"),
        opts=child(pulumi.ResourceOptions(protect=True, retain_on_delete=True) if protected else None),
    )

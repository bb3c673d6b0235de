"""The table of the ledger: who used what, for as long as the settings say, restorable to any second of weeks."""

import pulumi
from pulumi_aws import dynamodb

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.core.ledger.table import ATTRIBUTES, BY_TIME, EXPIRES, OPEN_ROWS, OWNER, ROW

# Weeks in which somebody may find out that rows are wrong; a month is billed in the next.
RECOVERY_DAYS = 35


def ledger_table(labels: Labels, child: ChildOptions, *, kept: bool) -> dynamodb.Table:
    """The table; `kept` where it outlives the stack, and nobody deletes it by mistake."""
    return dynamodb.Table(
        f"{labels.base}-ledger",
        name=labels.name("dynamodb-table", "ledger"),
        # Rows come as people do. Whatever was set aside for them would cost more than they do.
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
        # By the account's own key of DynamoDB, whose use its trail shows.
        server_side_encryption={"enabled": True},
        deletion_protection_enabled=kept,
        tags=labels.tags("ledger"),
        opts=child(pulumi.ResourceOptions(protect=True, retain_on_delete=True) if kept else None),
    )

"""Cost controls under the engine: they are accepted, settle, drift is repaired, and all are destroyed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentenv.rehearsal.stage.credentials import client
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.stage import Stage

ACCOUNT = "123456789012"


def named(outcome: Outcome) -> set[tuple[str, str]]:
    """Return operation and type of each changed resource."""
    return {
        (operation, urn.rsplit("::", 2)[-2].rpartition(":")[2]) for operation, urn, _ in outcome.changed_resources()
    }


def weaken(clients: dict[str, Any], outputs: dict[str, Any]) -> None:
    """Change resources as in the console: fewer alerts, an open bucket, queries without a limit, another export."""
    where = {"AccountId": ACCOUNT, "BudgetName": outputs["budget"]}
    # Without the last of them the aws plugin notices nothing.
    for note in clients["budgets"].describe_notifications_for_budget(**where)["Notifications"][1:]:
        note.pop("NotificationState")
        clients["budgets"].delete_notification(**where, Notification=note)
    changes = {"EnforceWorkGroupConfiguration": False, "RemoveBytesScannedCutoffPerQuery": True}
    clients["athena"].update_work_group(WorkGroup=outputs["workgroup"], ConfigurationUpdates=changes)
    (listed,) = clients["bcm-data-exports"].list_exports()["Exports"]
    export = clients["bcm-data-exports"].get_export(ExportArn=listed["ExportArn"])["Export"]
    export.pop("ExportArn")
    export["DestinationConfigurations"]["S3Destination"]["S3Prefix"] = "elsewhere"
    clients["bcm-data-exports"].update_export(ExportArn=listed["ExportArn"], Export=export)
    clients["s3"].delete_public_access_block(Bucket=outputs["bucket"])
    clients["s3"].delete_bucket_policy(Bucket=outputs["bucket"])
    # Over plain HTTP, which the policy refuses; exported objects are deleted with the bucket
    clients["s3"].put_object(Bucket=outputs["bucket"], Key="usage/dev-costs-usage/data/x.parquet", Body=b"x")


def test_cost_controls_are_deployed_repaired_and_destroyed(opened: Stage) -> None:
    before = set(opened.leftovers())
    engine: Engine = opened.program(
        Path(__file__).parent / "costs", "dev", {"aws:region": "us-east-1"}, {"name": "costs"}
    )
    clients = {
        service: client(service, engine.environment)
        for service in ("budgets", "s3", "athena", "bcm-data-exports", "ce", "glue")
    }
    engine.up()
    outputs = engine.outputs()
    assert outputs["bucket"] == f"dev-costs-usage-{ACCOUNT}"
    # Defaults that AWS adds to an export and a budget are no change.
    assert engine.refresh().changed == 0
    assert engine.up().changed == 0

    weaken(clients, outputs)
    seen = {kind for _, kind in named(engine.refresh())}
    assert {"Budget", "BucketPolicy", "BucketPublicAccessBlock", "Workgroup", "Export"} <= seen
    engine.call("config", "set-all", "--plaintext", "budget=600", "--plaintext", "days=93")
    assert {("update", "Budget"), ("update", "BucketLifecycleConfiguration")} < named(engine.up())
    where = {"AccountId": ACCOUNT, "BudgetName": outputs["budget"]}
    assert len(clients["budgets"].describe_notifications_for_budget(**where)["Notifications"]) == 3
    assert clients["budgets"].describe_budget(**where)["Budget"]["BudgetLimit"]["Amount"] == "600.0"
    block = clients["s3"].get_public_access_block(Bucket=outputs["bucket"])["PublicAccessBlockConfiguration"]
    assert all(block.values())
    group = clients["athena"].get_work_group(WorkGroup=outputs["workgroup"])["WorkGroup"]["Configuration"]
    assert (group["EnforceWorkGroupConfiguration"], group["BytesScannedCutoffPerQuery"]) == (True, 10 * 2**30)
    (export,) = clients["bcm-data-exports"].list_exports()["Exports"]
    shown = clients["bcm-data-exports"].get_export(ExportArn=export["ExportArn"])["Export"]
    assert shown["DestinationConfigurations"]["S3Destination"]["S3Prefix"] == "usage"

    engine.destroy()
    assert engine.state() == []
    # Cost allocation tags stay active, because they apply to the whole account.
    tags = {tag["TagKey"] for tag in clients["ce"].list_cost_allocation_tags(Status="Active")["CostAllocationTags"]}
    assert {"environment", "owner", "sandbox.users.io/user"} <= tags
    left = set(opened.leftovers()) - before
    assert left == {f"ce.cost_allocation_tags {tag}" for tag in tags}
    clients["ce"].update_cost_allocation_tags_status(
        CostAllocationTagsStatus=[{"TagKey": tag, "Status": "Inactive"} for tag in tags]
    )


def test_bill_of_another_region_is_exported_from_us_east_1(opened: Stage) -> None:
    before = set(opened.leftovers())
    engine: Engine = opened.program(
        Path(__file__).parent / "costs", "far", {"aws:region": "eu-central-1"}, {"name": "costs"}
    )
    home = {**engine.environment, "AWS_REGION": "us-east-1"}
    at_home = {service: client(service, home) for service in ("bcm-data-exports", "s3", "ce")}
    engine.up()
    assert engine.refresh().changed == 0
    assert engine.up().changed == 0
    (export,) = at_home["bcm-data-exports"].list_exports()["Exports"]
    definition = at_home["bcm-data-exports"].get_export(ExportArn=export["ExportArn"])["Export"]
    assert export["ExportArn"].split(":")[3] == "us-east-1"
    target = definition["DestinationConfigurations"]["S3Destination"]
    assert target["S3Region"] == "eu-central-1"
    where = at_home["s3"].get_bucket_location(Bucket=target["S3Bucket"])["LocationConstraint"]
    assert where == "eu-central-1"
    engine.destroy()
    assert engine.state() == []
    tags = sorted(
        tag["TagKey"] for tag in at_home["ce"].list_cost_allocation_tags(Status="Active")["CostAllocationTags"]
    )
    assert set(opened.leftovers()) - before == {f"ce.cost_allocation_tags {tag}" for tag in tags}
    at_home["ce"].update_cost_allocation_tags_status(
        CostAllocationTagsStatus=[{"TagKey": tag, "Status": "Inactive"} for tag in tags]
    )

"""Billing data exports: kept, checked, never written, because nothing is billed."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.iam import policy_documents as policy_text
from agentenv.rehearsal.cloud.iam.policy_conditions import alike, context_of, met
from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows import resource_tags

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

SERVICE = "bcm-data-exports"
EXPORTS, TAGS = "bcm-data-exports.exports", "_bcm-data-exports.tags"
TABLES = (
    "COST_AND_USAGE_REPORT",
    "COST_AND_USAGE_DASHBOARD",
    "COST_OPTIMIZATION_RECOMMENDATIONS",
    "CARBON_EMISSIONS",
    "FOCUS_1_0_AWS",
    "FOCUS_1_0_AWS_PREVIEW",
    "FOCUS_1_2_AWS",
)
QUERY = re.compile(
    r"\s*select\s+(?P<columns>.+?)\s+from\s+(?P<table>\w+)(\s+where\s+.+)?\s*", re.IGNORECASE | re.DOTALL
)
HOME = "us-east-1"
REPORT = "COST_AND_USAGE_REPORT"
# What AWS fills in where a table's configuration leaves it out, but for which bill it is of
LEFT_OUT = {
    "INCLUDE_MANUAL_DISCOUNT_COMPATIBILITY": "FALSE",
    "INCLUDE_RESOURCES": "FALSE",
    "INCLUDE_SPLIT_COST_ALLOCATION_DATA": "FALSE",
    "TIME_GRANULARITY": "HOURLY",
}
# Columns that are there with a configuration only
WITH = {"line_item_resource_id": "INCLUDE_RESOURCES", "split_line_item_": "INCLUDE_SPLIT_COST_ALLOCATION_DATA"}
FAMILIES = re.compile(
    r"(bill|identity|line_item|pricing|product|reservation|savings_plan|split_line_item|capacity_reservation)_\w+"
    r"|discount(_\w+)?|cost_category|product|resource_tags|tags"
)
PACKED = {"PARQUET": ("PARQUET",), "TEXT_OR_CSV": ("GZIP", "ZIP")}


def _invalid(text: str) -> Refused:
    return Refused("ValidationException", text)


def _at_home(desk: Desk) -> None:
    """There is one endpoint, whatever region a client was made for; SDKs know, and sign for its region."""
    if desk.region != HOME:
        raise Refused("InvalidSignatureException", f"Credential should be scoped to a valid region: {HOME}.", 403)


def _export(desk: Desk, name: str = "ExportArn") -> Record:
    _at_home(desk)
    found = desk.shelf(EXPORTS, everywhere=True).get(desk.asked[name])
    if found is None:
        text = f"Export not found: {desk.asked[name]}"
        raise Refused("ResourceNotFoundException", text, resourceId=desk.asked[name], resourceType="Export")
    return found


def _check(desk: Desk, export: dict[str, Any]) -> None:
    query = QUERY.fullmatch(export["DataQuery"]["QueryStatement"])
    if not query or query["table"].upper() not in TABLES:
        raise _invalid(f"The query must select columns of one table, which is one of {', '.join(TABLES)}.")
    for table in export["DataQuery"].get("TableConfigurations", {}):
        if table != query["table"]:
            raise _invalid(f"The table configuration {table} is not for the table of the query.")
    if query["table"].upper() == REPORT:
        _columns(query["columns"], export["DataQuery"].get("TableConfigurations", {}).get(query["table"], {}))
    target = export["DestinationConfigurations"]["S3Destination"]
    output = target["S3OutputConfigurations"]
    if output["Compression"] not in PACKED[output["Format"]]:
        raise _invalid(f"The format {output['Format']} is packed as {' or '.join(PACKED[output['Format']])}.")
    bucket = desk.backend("s3").buckets.get(target["S3Bucket"])
    if bucket is None or not _may_write(desk, bucket):
        text = f"S3 bucket permission validation failed: {target['S3Bucket']} does not exist, or its policy does not "
        raise _invalid(f"{text}let {SERVICE}.amazonaws.com put objects there.")


def _columns(said: str, table: dict[str, str]) -> None:
    """Columns that the report has as it is configured."""
    table = {**LEFT_OUT, **table}
    for name in (one.strip().partition(".")[0] for one in said.split(",")):
        lacks = [key for beginning, key in WITH.items() if name.startswith(beginning) and table[key] != "TRUE"]
        if name != "*" and (lacks or not FAMILIES.fullmatch(name)):
            raise _invalid(f"Columns are not a subset of table: {name}{''.join(f', without {key}' for key in lacks)}")


def _filled(desk: Desk, export: dict[str, Any]) -> dict[str, Any]:
    """As AWS keeps it: with every property of its table."""
    asked = export["DataQuery"]
    query = QUERY.fullmatch(asked["QueryStatement"])
    if not query or query["table"].upper() != REPORT:
        return export
    known = {"BILLING_VIEW_ARN": f"arn:aws:billing::{desk.account}:billingview/primary", **LEFT_OUT}
    table = {**known, **asked.get("TableConfigurations", {}).get(query["table"], {})}
    return {**export, "DataQuery": {**asked, "TableConfigurations": {query["table"]: table}}}


def _may_write(desk: Desk, bucket: Any) -> bool:
    policy = bucket.policy
    if not policy:
        return False
    document, _ = policy_text.read(policy if isinstance(policy, str) else policy.decode())
    for one in policy_text.statements(document):
        principal = one.get("Principal")
        services = policy_text.listed(principal.get("Service", [])) if isinstance(principal, dict) else []
        actions = set(policy_text.listed(one.get("Action", [])))
        if (
            one.get("Effect") == "Allow"
            and f"{SERVICE}.amazonaws.com" in services
            and actions & {"s3:PutObject", "s3:*"}
            and any(
                alike(where, f"arn:aws:s3:::{bucket.name}/any") for where in policy_text.listed(one.get("Resource", []))
            )
            and _of_this_account(desk, one.get("Condition", {}))
        ):
            return True
    return False


def _of_this_account(desk: Desk, conditions: dict[str, Any]) -> bool:
    """Whether the service, for an export of this account, is who the conditions describe."""
    source = {"aws:SourceAccount": desk.account, "aws:SourceArn": f"arn:aws:{SERVICE}:{HOME}:{desk.account}:export/any"}
    return met(conditions, context_of(**source))


def create(desk: Desk) -> dict[str, Any]:
    """An export of a name that is free, into a bucket that it may write to."""
    _at_home(desk)
    said = desk.asked["Export"]
    kept = desk.shelf(EXPORTS, everywhere=True)
    if any(one["Export"]["Name"] == said["Name"] for one in kept.values()):
        raise _invalid(f"An export with the name {said['Name']} already exists.")
    _check(desk, said)
    arn = f"arn:aws:{SERVICE}:us-east-1:{desk.account}:export/{said['Name']}-{uuid.uuid4()}"
    moment = datetime.now(UTC)
    status = {"StatusCode": "HEALTHY", "CreatedAt": moment, "LastUpdatedAt": moment}
    kept[arn] = {"Export": {**_filled(desk, said), "ExportArn": arn}, "ExportStatus": status}
    tags = {tag["Key"]: tag["Value"] for tag in desk.asked.get("ResourceTags", [])}
    desk.shelf(TAGS, everywhere=True)[arn] = tags
    return {"ExportArn": arn}


def update(desk: Desk) -> dict[str, Any]:
    """Another query or place; the name stays."""
    kept, said = _export(desk), desk.asked["Export"]
    if said["Name"] != kept["Export"]["Name"]:
        raise _invalid("The name of an export cannot be changed.")
    _check(desk, said)
    kept["Export"] = {**_filled(desk, said), "ExportArn": desk.asked["ExportArn"]}
    kept["ExportStatus"]["LastUpdatedAt"] = datetime.now(UTC)
    return {"ExportArn": desk.asked["ExportArn"]}


def delete(desk: Desk) -> dict[str, Any]:
    """Gone; what it would have written stays in the bucket."""
    _export(desk)
    arn = desk.asked["ExportArn"]
    del desk.shelf(EXPORTS, everywhere=True)[arn]
    desk.shelf(TAGS, everywhere=True).pop(arn, None)
    return {"ExportArn": arn}


def listed(desk: Desk) -> dict[str, Any]:
    """The exports of the account."""
    _at_home(desk)
    found = [
        {"ExportArn": arn, "ExportName": one["Export"]["Name"], "ExportStatus": one["ExportStatus"]}
        for arn, one in desk.shelf(EXPORTS, everywhere=True).items()
    ]
    shown, token = page(found, desk.asked.get("MaxResults"), desk.asked.get("NextToken"), "ValidationException")
    return {"Exports": shown, "NextToken": token}


def executions(desk: Desk) -> dict[str, Any]:
    """None: exports are not run here."""
    _export(desk)
    return {"Executions": []}


def _tags(desk: Desk) -> Record:
    _export(desk, "ResourceArn")
    return desk.shelf(TAGS, everywhere=True)[desk.asked["ResourceArn"]]


ROWS = (
    Row(SERVICE, "CreateExport", create, kept=True),
    Row(SERVICE, "GetExport", _export),
    Row(SERVICE, "UpdateExport", update, kept=True),
    Row(SERVICE, "DeleteExport", delete),
    Row(SERVICE, "ListExports", listed),
    Row(SERVICE, "ListExecutions", executions, kept=True),
    *resource_tags.rows(SERVICE, _tags),
)

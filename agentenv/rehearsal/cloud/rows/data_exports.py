"""Billing data exports: validated and stored, never run, because nothing is billed."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentenv.core.iam import documents
from agentenv.core.iam.evaluation import request_keys
from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import OperationHandler
from agentenv.rehearsal.cloud.responses import AwsError
from agentenv.rehearsal.cloud.rows import resource_tags

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import RequestContext
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


def _invalid(text: str) -> AwsError:
    return AwsError("ValidationException", text)


def _check_region(context: RequestContext) -> None:
    """Raise unless the call is signed for the region of the only endpoint."""
    if context.region != HOME:
        raise AwsError("InvalidSignatureException", f"Credential should be scoped to a valid region: {HOME}.", 403)


def _export(context: RequestContext, name: str = "ExportArn") -> Record:
    _check_region(context)
    export = context.records(EXPORTS, is_global=True).get(context.parameters[name])
    if export is None:
        text = f"Export not found: {context.parameters[name]}"
        raise AwsError("ResourceNotFoundException", text, resourceId=context.parameters[name], resourceType="Export")
    return export


def _check(context: RequestContext, export: dict[str, Any]) -> None:
    query = QUERY.fullmatch(export["DataQuery"]["QueryStatement"])
    if not query or query["table"].upper() not in TABLES:
        raise _invalid(f"The query must select columns of one table, which is one of {', '.join(TABLES)}.")
    for table in export["DataQuery"].get("TableConfigurations", {}):
        if table != query["table"]:
            raise _invalid(f"The table configuration {table} is not for the table of the query.")
    if query["table"].upper() == REPORT:
        _check_columns(query["columns"], export["DataQuery"].get("TableConfigurations", {}).get(query["table"], {}))
    target = export["DestinationConfigurations"]["S3Destination"]
    output = target["S3OutputConfigurations"]
    if output["Compression"] not in PACKED[output["Format"]]:
        raise _invalid(f"The format {output['Format']} is packed as {' or '.join(PACKED[output['Format']])}.")
    bucket = context.backend("s3").buckets.get(target["S3Bucket"])
    if bucket is None or not _may_write(context, bucket):
        text = f"S3 bucket permission validation failed: {target['S3Bucket']} does not exist, or its policy does not "
        raise _invalid(f"{text}let {SERVICE}.amazonaws.com put objects there.")


def _check_columns(columns: str, table: dict[str, str]) -> None:
    """Raise for columns that the report does not have as configured."""
    table = {**LEFT_OUT, **table}
    for name in (column.strip().partition(".")[0] for column in columns.split(",")):
        lacks = [key for beginning, key in WITH.items() if name.startswith(beginning) and table[key] != "TRUE"]
        if name != "*" and (lacks or not FAMILIES.fullmatch(name)):
            raise _invalid(f"Columns are not a subset of table: {name}{''.join(f', without {key}' for key in lacks)}")


def _with_defaults(context: RequestContext, export: dict[str, Any]) -> dict[str, Any]:
    """Return the export with every property of its table, as AWS stores it."""
    data_query = export["DataQuery"]
    query = QUERY.fullmatch(data_query["QueryStatement"])
    if not query or query["table"].upper() != REPORT:
        return export
    defaults = {"BILLING_VIEW_ARN": f"arn:aws:billing::{context.account}:billingview/primary", **LEFT_OUT}
    table = {**defaults, **data_query.get("TableConfigurations", {}).get(query["table"], {})}
    return {**export, "DataQuery": {**data_query, "TableConfigurations": {query["table"]: table}}}


def _may_write(context: RequestContext, bucket: Any) -> bool:
    policy = bucket.policy
    if not policy:
        return False
    document, _ = documents.read(policy if isinstance(policy, str) else policy.decode())
    for statement in documents.statements(document):
        if (
            statement.allows
            and f"{SERVICE}.amazonaws.com" in statement.principals("Service")
            and {"s3:PutObject", "s3:*"} & set(statement.texts("Action"))
            and statement.matches_resource(f"arn:aws:s3:::{bucket.name}/any")
            and _allows_this_account(context, statement)
        ):
            return True
    return False


def _allows_this_account(context: RequestContext, statement: documents.Statement) -> bool:
    """Return whether the conditions of a statement allow the service, for an export of this account."""
    account = context.account
    arn = f"arn:aws:{SERVICE}:{HOME}:{account}:export/any"
    keys = request_keys(**{"aws:SourceAccount": account, "aws:SourceArn": arn})
    return all(condition.is_met(keys) for condition in statement.conditions)


def create(context: RequestContext) -> dict[str, Any]:
    """Create an export with an unused name, into a bucket that it may write to."""
    _check_region(context)
    export = context.parameters["Export"]
    exports = context.records(EXPORTS, is_global=True)
    if any(existing["Export"]["Name"] == export["Name"] for existing in exports.values()):
        raise _invalid(f"An export with the name {export['Name']} already exists.")
    _check(context, export)
    arn = f"arn:aws:{SERVICE}:us-east-1:{context.account}:export/{export['Name']}-{uuid.uuid4()}"
    moment = datetime.now(UTC)
    status = {"StatusCode": "HEALTHY", "CreatedAt": moment, "LastUpdatedAt": moment}
    exports[arn] = {"Export": {**_with_defaults(context, export), "ExportArn": arn}, "ExportStatus": status}
    tags = {tag["Key"]: tag["Value"] for tag in context.parameters.get("ResourceTags", [])}
    context.records(TAGS, is_global=True)[arn] = tags
    return {"ExportArn": arn}


def update(context: RequestContext) -> dict[str, Any]:
    """Change the query or destination of an export."""
    existing, export = _export(context), context.parameters["Export"]
    if export["Name"] != existing["Export"]["Name"]:
        raise _invalid("The name of an export cannot be changed.")
    _check(context, export)
    existing["Export"] = {**_with_defaults(context, export), "ExportArn": context.parameters["ExportArn"]}
    existing["ExportStatus"]["LastUpdatedAt"] = datetime.now(UTC)
    return {"ExportArn": context.parameters["ExportArn"]}


def delete(context: RequestContext) -> dict[str, Any]:
    """Delete an export."""
    _export(context)
    arn = context.parameters["ExportArn"]
    del context.records(EXPORTS, is_global=True)[arn]
    context.records(TAGS, is_global=True).pop(arn, None)
    return {"ExportArn": arn}


def list_exports(context: RequestContext) -> dict[str, Any]:
    """Return the exports of the account."""
    _check_region(context)
    exports = [
        {"ExportArn": arn, "ExportName": export["Export"]["Name"], "ExportStatus": export["ExportStatus"]}
        for arn, export in context.records(EXPORTS, is_global=True).items()
    ]
    shown, token = page(
        exports, context.parameters.get("MaxResults"), context.parameters.get("NextToken"), "ValidationException"
    )
    return {"Exports": shown, "NextToken": token}


def list_executions(context: RequestContext) -> dict[str, Any]:
    """Return no executions: exports are not run here."""
    _export(context)
    return {"Executions": []}


def _tags(context: RequestContext) -> Record:
    _export(context, "ResourceArn")
    return context.records(TAGS, is_global=True)[context.parameters["ResourceArn"]]


ROWS = (
    OperationHandler(SERVICE, "CreateExport", create, stored_only=True),
    OperationHandler(SERVICE, "GetExport", _export),
    OperationHandler(SERVICE, "UpdateExport", update, stored_only=True),
    OperationHandler(SERVICE, "DeleteExport", delete),
    OperationHandler(SERVICE, "ListExports", list_exports),
    OperationHandler(SERVICE, "ListExecutions", list_executions, stored_only=True),
    *resource_tags.rows(SERVICE, _tags),
)

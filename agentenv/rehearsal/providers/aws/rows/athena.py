"""Glue databases and tables; Athena workgroups and named queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls, name_mapping
from agentenv.rehearsal.providers.aws.row import (
    AutoName,
    Call,
    CustomCreate,
    CustomStep,
    ReadCall,
    ResourceType,
    Tagging,
    Template,
)
from agentenv.rehearsal.providers.aws.value_kinds import between, matching, one_of

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Operation

NOT_FOUND: Final = ("EntityNotFoundException",)
NO_LINKS: Final = "databases and tables that stand for others are not simulated"
NO_ICEBERG: Final = "tables of Iceberg are not simulated"
LOWER: Final = matching(r"[^A-Z]*", "has capitals, which the catalogue does not keep")


# -- the catalogue ----------------------------------------------------------------------------------------------------


def _input(op: Operation, operation: str, member: str, names: tuple[str, ...]) -> dict[str, Any]:
    shape = api_calls.members("glue", operation)[member].members
    out: dict[str, Any] = {}
    for name in names:
        if op.inputs.get(name) is not None:
            response = name_mapping.member(shape, name) or name
            out[response] = name_mapping.send(op.inputs[name], shape[response], {}, name)
    return out


DATABASE_INPUTS: Final = ("createTableDefaultPermissions", "description", "locationUri", "parameters")


def _catalogue(op: Operation) -> dict[str, str]:
    return {"CatalogId": op.value("catalogId") or op.cloud.account()}


def _database_arn(op: Operation) -> str:
    return op.format("arn:{partition}:glue:{region}:{account}:database/", {}) + op.id.partition(":")[2]


def _create_database(op: Operation) -> Mapping[str, Any]:
    members = _input(op, "CreateDatabase", "DatabaseInput", ("name", *DATABASE_INPUTS))
    op.call("CreateDatabase", **_catalogue(op), DatabaseInput=members)
    return {"Id": f"{_catalogue(op)['CatalogId']}:{op.inputs['name']}"}


def _read_database(op: Operation) -> Mapping[str, Any] | None:
    catalogue, _, name = op.id.partition(":")
    response = op.call("GetDatabase", CatalogId=catalogue, Name=name, ignored_errors=NOT_FOUND).get("Database")
    if not response:
        return None
    tags = op.call("GetTags", ResourceArn=_database_arn(op)).get("Tags", {})
    return {**response, "CatalogId": catalogue, "Tags": tags}


def _update_database(op: Operation) -> None:
    if not op.creating:
        catalogue, _, name = op.id.partition(":")
        members = {"Name": name, **_input(op, "UpdateDatabase", "DatabaseInput", DATABASE_INPUTS)}
        op.call("UpdateDatabase", CatalogId=catalogue, Name=name, DatabaseInput=members)


DATABASE = ResourceType(
    type="aws:glue/catalogDatabase:CatalogDatabase",
    service="glue",
    create=CustomCreate(_create_database, ("catalogId", "name", *DATABASE_INPUTS)),
    id="Id",
    read=_read_database,
    updates=(CustomStep(_update_database, DATABASE_INPUTS),),
    delete=(
        Call(
            "DeleteDatabase", constants={"CatalogId": "$out.catalogId", "Name": "$out.name"}, ignored_errors=NOT_FOUND
        ),
    ),
    output_sources={"arn": lambda op, _: _database_arn(op)},
    auto_name=AutoName(max_length=255, prefix_input=""),
    tags=Tagging(
        tag_operation="TagResource",
        untag_operation="UntagResource",
        constants={"ResourceArn": _database_arn},
        tags_member="TagsToAdd",
        keys_member="TagsToRemove",
        key_value_members=None,
    ),
    value_kinds={"name": LOWER},
    unsupported={"federatedDatabase": NO_LINKS, "targetDatabase": NO_LINKS},
    parse_import_id=lambda text: (text, {"catalogId": text.partition(":")[0], "name": text.partition(":")[2]}),
)

TABLE_INPUTS: Final = (
    *("description", "owner", "parameters", "partitionKeys", "retention", "storageDescriptor", "tableType"),
    *("viewExpandedText", "viewOriginalText"),
)


def _table_path(op: Operation) -> tuple[str, str, str]:
    catalogue, database, name = op.id.split(":", 2)
    return catalogue, database, name


def _create_table(op: Operation) -> Mapping[str, Any]:
    database, catalogue = op.inputs["databaseName"], _catalogue(op)["CatalogId"]
    members = _input(op, "CreateTable", "TableInput", ("name", *TABLE_INPUTS))
    op.call("CreateTable", CatalogId=catalogue, DatabaseName=database, TableInput=members)
    return {"Id": f"{catalogue}:{database}:{op.inputs['name']}"}


def _read_table(op: Operation) -> Mapping[str, Any] | None:
    catalogue, database, name = _table_path(op)
    response = op.call("GetTable", CatalogId=catalogue, DatabaseName=database, Name=name, ignored_errors=NOT_FOUND).get(
        "Table"
    )
    return {**response, "CatalogId": catalogue} if response else None


def _update_table(op: Operation) -> None:
    if not op.creating:
        catalogue, database, name = _table_path(op)
        members = {"Name": name, **_input(op, "UpdateTable", "TableInput", TABLE_INPUTS)}
        op.call("UpdateTable", CatalogId=catalogue, DatabaseName=database, TableInput=members)


def _delete_table(op: Operation) -> None:
    catalogue, database, name = _table_path(op)
    op.call("DeleteTable", CatalogId=catalogue, DatabaseName=database, Name=name, ignored_errors=NOT_FOUND)


def _parse_table_id(text: str) -> tuple[str, dict[str, Any]]:
    catalogue, database, name = text.split(":", 2)
    return text, {"catalogId": catalogue, "databaseName": database, "name": name}


TABLE = ResourceType(
    type="aws:glue/catalogTable:CatalogTable",
    service="glue",
    create=CustomCreate(_create_table, ("catalogId", "databaseName", "name", *TABLE_INPUTS)),
    id="Id",
    read=_read_table,
    updates=(CustomStep(_update_table, TABLE_INPUTS),),
    delete=(CustomStep(_delete_table),),
    output_sources={
        "arn": lambda op, _: (
            op.format("arn:{partition}:glue:{region}:{account}:table/", {}) + "/".join(_table_path(op)[1:])
        ),
        "partitionIndices": lambda _, __: [],
    },
    auto_name=AutoName(max_length=255, prefix_input=""),
    value_kinds={"name": LOWER},
    ordered_lists=frozenset({"partitionKeys", "storageDescriptor.columns"}),
    unsupported={
        "openTableFormatInput": NO_ICEBERG,
        "partitionIndices": "indices of partitions are not simulated",
        "targetTable": NO_LINKS,
        "viewDefinition": NO_LINKS,
    },
    parse_import_id=_parse_table_id,
)


# -- Athena -----------------------------------------------------------------------------------------------------------

WORKGROUP_NOT_FOUND: Final = ("InvalidRequestException",)
# What an update calls by another name, because it may also take it away.
RESULT_MEMBER: Final = "ResultConfiguration"
MIN_CUTOFF: Final = 10_485_760


def _workgroup_arn(op: Operation) -> str:
    return op.format("arn:{partition}:athena:{region}:{account}:workgroup/{id}", {})


def _configuration(op: Operation) -> dict[str, Any]:
    shape = api_calls.members("athena", "CreateWorkGroup")["Configuration"]
    members = op.inputs.get("configuration") or {}
    # The official provider's own defaults
    configuration = {"enforceWorkgroupConfiguration": True, "publishCloudwatchMetricsEnabled": True, **members}
    engine = configuration.get("engineVersion")
    if engine:
        configuration["engineVersion"] = {key: item for key, item in engine.items() if key != "effectiveEngineVersion"}
    return name_mapping.send(configuration, shape, {}, "configuration")


def _create_workgroup(op: Operation) -> Mapping[str, Any]:
    more = {"Description": op.inputs["description"]} if op.inputs.get("description") else {}
    return op.call("CreateWorkGroup", Name=op.inputs["name"], Configuration=_configuration(op), **more)


def _update_workgroup(op: Operation) -> None:
    parameters: dict[str, Any] = {}
    if op.inputs.get("state"):
        parameters["State"] = op.inputs["state"]
    if not op.creating:
        parameters["Description"] = op.inputs.get("description") or ""
        updates = _configuration(op)
        if RESULT_MEMBER in updates:
            updates[f"{RESULT_MEMBER}Updates"] = updates.pop(RESULT_MEMBER)
        if "BytesScannedCutoffPerQuery" not in updates:
            updates["RemoveBytesScannedCutoffPerQuery"] = True
        parameters["ConfigurationUpdates"] = updates
    op.call("UpdateWorkGroup", WorkGroup=op.id, **parameters)


WORKGROUP = ResourceType(
    type="aws:athena/workgroup:Workgroup",
    service="athena",
    create=CustomCreate(_create_workgroup, ("configuration", "description", "name")),
    id="$in.name",
    read=ReadCall("GetWorkGroup", {"WorkGroup": "$id"}, "WorkGroup", not_found_errors=WORKGROUP_NOT_FOUND),
    more_reads=(
        ReadCall(
            "ListTagsForResource",
            {"ResourceARN": _workgroup_arn},
            fields={"Tags": "Tags"},
        ),
    ),
    updates=(
        CustomStep(_update_workgroup, ("state",)),
        CustomStep(lambda op: None if op.creating else _update_workgroup(op), ("configuration", "description")),
    ),
    delete=(
        Call(
            "DeleteWorkGroup",
            ("forceDestroy",),
            member_names={"forceDestroy": "RecursiveDeleteOption"},
            constants={"WorkGroup": "$id"},
        ),
    ),
    output_sources={"arn": Template("arn:{partition}:athena:{region}:{account}:workgroup/{id}")},
    auto_name=AutoName(max_length=128, prefix_input=""),
    tags=Tagging(
        tag_operation="TagResource", untag_operation="UntagResource", constants={"ResourceARN": _workgroup_arn}
    ),
    write_only=frozenset({"forceDestroy"}),
    value_kinds={
        "name": matching(r"[0-9A-Za-z_.-]{1,128}", "is not a workgroup's name (letters, digits, ., - and _)"),
        "state": one_of("ENABLED", "DISABLED"),
        "configuration.bytesScannedCutoffPerQuery": between(MIN_CUTOFF, 2**63),
        "configuration.resultConfiguration.encryptionConfiguration.encryptionOption": one_of(
            "SSE_S3", "SSE_KMS", "CSE_KMS"
        ),
        "configuration.resultConfiguration.outputLocation": matching(r"s3://.+", "is no place in S3: write s3://…"),
    },
    defaults={"forceDestroy": False, "state": "ENABLED"},
    computed=frozenset({"configuration.engineVersion.effectiveEngineVersion"}),
    parse_import_id=lambda text: (text, {"name": text}),
)

NAMED_QUERY = ResourceType(
    type="aws:athena/namedQuery:NamedQuery",
    service="athena",
    create=Call(
        "CreateNamedQuery",
        ("database", "description", "name", "query", "workgroup"),
        member_names={"query": "QueryString"},
    ),
    id="NamedQueryId",
    read=ReadCall("GetNamedQuery", {"NamedQueryId": "$id"}, "NamedQuery", not_found_errors=WORKGROUP_NOT_FOUND),
    delete=(Call("DeleteNamedQuery", constants={"NamedQueryId": "$id"}, ignored_errors=WORKGROUP_NOT_FOUND),),
    output_sources={"query": "QueryString"},
    auto_name=AutoName(max_length=128, prefix_input=""),
    defaults={"workgroup": "primary"},
)

ROWS: Final = (DATABASE, TABLE, WORKGROUP, NAMED_QUERY)

"""Glue and Athena: what files are taken for, and where questions about them are asked from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws import api_calls as calls
from agentenv.rehearsal.providers.aws import name_mapping as spelling
from agentenv.rehearsal.providers.aws.row import Call, Do, Form, Look, Make, Name, Row, Tags
from agentenv.rehearsal.providers.aws.value_kinds import among, between, matching

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

GONE: Final = ("EntityNotFoundException",)
ELSEWHERE: Final = "databases and tables that stand for others are not simulated"
NO_ICEBERG: Final = "tables of Iceberg are not simulated"
LOWER: Final = matching(r"[^A-Z]*", "has capitals, which the catalogue does not keep")


# -- the catalogue ----------------------------------------------------------------------------------------------------


def _input(s: Situation, operation: str, member: str, names: tuple[str, ...]) -> dict[str, Any]:
    shape = calls.members("glue", operation)[member].members
    out: dict[str, Any] = {}
    for name in names:
        if s.inputs.get(name) is not None:
            found = spelling.member(shape, name) or name
            out[found] = spelling.send(s.inputs[name], shape[found], {}, name)
    return out


DATABASE_INPUTS: Final = ("createTableDefaultPermissions", "description", "locationUri", "parameters")


def _catalogue(s: Situation) -> dict[str, str]:
    return {"CatalogId": s.value("catalogId") or s.cloud.account()}


def _database_arn(s: Situation) -> str:
    return s.form("arn:{partition}:glue:{region}:{account}:database/", {}) + s.id.partition(":")[2]


def _make_database(s: Situation) -> Mapping[str, Any]:
    said = _input(s, "CreateDatabase", "DatabaseInput", ("name", *DATABASE_INPUTS))
    s.call("CreateDatabase", **_catalogue(s), DatabaseInput=said)
    return {"Id": f"{_catalogue(s)['CatalogId']}:{s.inputs['name']}"}


def _find_database(s: Situation) -> Mapping[str, Any] | None:
    catalogue, _, name = s.id.partition(":")
    found = s.call("GetDatabase", CatalogId=catalogue, Name=name, forgives=GONE).get("Database")
    if not found:
        return None
    tags = s.call("GetTags", ResourceArn=_database_arn(s)).get("Tags", {})
    return {**found, "CatalogId": catalogue, "Tags": tags}


def _renew_database(s: Situation) -> None:
    if not s.creating:
        catalogue, _, name = s.id.partition(":")
        said = {"Name": name, **_input(s, "UpdateDatabase", "DatabaseInput", DATABASE_INPUTS)}
        s.call("UpdateDatabase", CatalogId=catalogue, Name=name, DatabaseInput=said)


DATABASE = Row(
    type="aws:glue/catalogDatabase:CatalogDatabase",
    service="glue",
    create=Make(_make_database, ("catalogId", "name", *DATABASE_INPUTS)),
    id="Id",
    find=_find_database,
    sets=(Do(_renew_database, DATABASE_INPUTS),),
    delete=(Call("DeleteDatabase", given={"CatalogId": "$out.catalogId", "Name": "$out.name"}, forgives=GONE),),
    shows={"arn": lambda s, _: _database_arn(s)},
    name=Name(longest=255, prefix_input=""),
    tags=Tags(
        put="TagResource",
        drop="UntagResource",
        on={"ResourceArn": _database_arn},
        member="TagsToAdd",
        keys="TagsToRemove",
        pair=None,
    ),
    kinds={"name": LOWER},
    refused={"federatedDatabase": ELSEWHERE, "targetDatabase": ELSEWHERE},
    parse=lambda text: (text, {"catalogId": text.partition(":")[0], "name": text.partition(":")[2]}),
)

TABLE_INPUTS: Final = (
    *("description", "owner", "parameters", "partitionKeys", "retention", "storageDescriptor", "tableType"),
    *("viewExpandedText", "viewOriginalText"),
)


def _place(s: Situation) -> tuple[str, str, str]:
    catalogue, database, name = s.id.split(":", 2)
    return catalogue, database, name


def _make_table(s: Situation) -> Mapping[str, Any]:
    database, catalogue = s.inputs["databaseName"], _catalogue(s)["CatalogId"]
    said = _input(s, "CreateTable", "TableInput", ("name", *TABLE_INPUTS))
    s.call("CreateTable", CatalogId=catalogue, DatabaseName=database, TableInput=said)
    return {"Id": f"{catalogue}:{database}:{s.inputs['name']}"}


def _find_table(s: Situation) -> Mapping[str, Any] | None:
    catalogue, database, name = _place(s)
    found = s.call("GetTable", CatalogId=catalogue, DatabaseName=database, Name=name, forgives=GONE).get("Table")
    return {**found, "CatalogId": catalogue} if found else None


def _renew_table(s: Situation) -> None:
    if not s.creating:
        catalogue, database, name = _place(s)
        said = {"Name": name, **_input(s, "UpdateTable", "TableInput", TABLE_INPUTS)}
        s.call("UpdateTable", CatalogId=catalogue, DatabaseName=database, TableInput=said)


def _drop_table(s: Situation) -> None:
    catalogue, database, name = _place(s)
    s.call("DeleteTable", CatalogId=catalogue, DatabaseName=database, Name=name, forgives=GONE)


def _parse_table(text: str) -> tuple[str, dict[str, Any]]:
    catalogue, database, name = text.split(":", 2)
    return text, {"catalogId": catalogue, "databaseName": database, "name": name}


TABLE = Row(
    type="aws:glue/catalogTable:CatalogTable",
    service="glue",
    create=Make(_make_table, ("catalogId", "databaseName", "name", *TABLE_INPUTS)),
    id="Id",
    find=_find_table,
    sets=(Do(_renew_table, TABLE_INPUTS),),
    delete=(Do(_drop_table),),
    shows={
        "arn": lambda s, _: s.form("arn:{partition}:glue:{region}:{account}:table/", {}) + "/".join(_place(s)[1:]),
        "partitionIndices": lambda _, __: [],
    },
    name=Name(longest=255, prefix_input=""),
    kinds={"name": LOWER},
    ordered=frozenset({"partitionKeys", "storageDescriptor.columns"}),
    refused={
        "openTableFormatInput": NO_ICEBERG,
        "partitionIndices": "indices of partitions are not simulated",
        "targetTable": ELSEWHERE,
        "viewDefinition": ELSEWHERE,
    },
    parse=_parse_table,
)


# -- Athena -----------------------------------------------------------------------------------------------------------

WORKGROUP_GONE: Final = ("InvalidRequestException",)
# What an update calls by another name, because it may also take it away.
RESULTS: Final = "ResultConfiguration"
LEAST: Final = 10_485_760


def _workgroup_arn(s: Situation) -> str:
    return s.form("arn:{partition}:athena:{region}:{account}:workgroup/{id}", {})


def _configuration(s: Situation) -> dict[str, Any]:
    shape = calls.members("athena", "CreateWorkGroup")["Configuration"]
    said = s.inputs.get("configuration") or {}
    # The official provider's own defaults
    known = {"enforceWorkgroupConfiguration": True, "publishCloudwatchMetricsEnabled": True, **said}
    engine = known.get("engineVersion")
    if engine:
        known["engineVersion"] = {key: item for key, item in engine.items() if key != "effectiveEngineVersion"}
    return spelling.send(known, shape, {}, "configuration")


def _make_workgroup(s: Situation) -> Mapping[str, Any]:
    more = {"Description": s.inputs["description"]} if s.inputs.get("description") else {}
    return s.call("CreateWorkGroup", Name=s.inputs["name"], Configuration=_configuration(s), **more)


def _update_workgroup(s: Situation) -> None:
    asked: dict[str, Any] = {}
    if s.inputs.get("state"):
        asked["State"] = s.inputs["state"]
    if not s.creating:
        asked["Description"] = s.inputs.get("description") or ""
        updates = _configuration(s)
        if RESULTS in updates:
            updates[f"{RESULTS}Updates"] = updates.pop(RESULTS)
        if "BytesScannedCutoffPerQuery" not in updates:
            updates["RemoveBytesScannedCutoffPerQuery"] = True
        asked["ConfigurationUpdates"] = updates
    s.call("UpdateWorkGroup", WorkGroup=s.id, **asked)


WORKGROUP = Row(
    type="aws:athena/workgroup:Workgroup",
    service="athena",
    create=Make(_make_workgroup, ("configuration", "description", "name")),
    id="$in.name",
    find=Look("GetWorkGroup", {"WorkGroup": "$id"}, "WorkGroup", gone=WORKGROUP_GONE),
    also=(
        Look(
            "ListTagsForResource",
            {"ResourceARN": _workgroup_arn},
            puts={"Tags": "Tags"},
        ),
    ),
    sets=(
        Do(_update_workgroup, ("state",)),
        Do(lambda s: None if s.creating else _update_workgroup(s), ("configuration", "description")),
    ),
    delete=(
        Call(
            "DeleteWorkGroup",
            ("forceDestroy",),
            names={"forceDestroy": "RecursiveDeleteOption"},
            given={"WorkGroup": "$id"},
        ),
    ),
    shows={"arn": Form("arn:{partition}:athena:{region}:{account}:workgroup/{id}")},
    name=Name(longest=128, prefix_input=""),
    tags=Tags(put="TagResource", drop="UntagResource", on={"ResourceARN": _workgroup_arn}),
    unread=frozenset({"forceDestroy"}),
    kinds={
        "state": among("ENABLED", "DISABLED"),
        "configuration.bytesScannedCutoffPerQuery": between(LEAST, 2**63),
        "configuration.resultConfiguration.encryptionConfiguration.encryptionOption": among(
            "SSE_S3", "SSE_KMS", "CSE_KMS"
        ),
        "configuration.resultConfiguration.outputLocation": matching(r"s3://.+", "is no place in S3: write s3://…"),
    },
    defaults={"forceDestroy": False, "state": "ENABLED"},
    fills=frozenset({"configuration.engineVersion.effectiveEngineVersion"}),
    parse=lambda text: (text, {"name": text}),
)

NAMED_QUERY = Row(
    type="aws:athena/namedQuery:NamedQuery",
    service="athena",
    create=Call(
        "CreateNamedQuery", ("database", "description", "name", "query", "workgroup"), names={"query": "QueryString"}
    ),
    id="NamedQueryId",
    find=Look("GetNamedQuery", {"NamedQueryId": "$id"}, "NamedQuery", gone=WORKGROUP_GONE),
    delete=(Call("DeleteNamedQuery", given={"NamedQueryId": "$id"}, forgives=WORKGROUP_GONE),),
    shows={"query": "QueryString"},
    name=Name(longest=128, prefix_input=""),
    defaults={"workgroup": "primary"},
)

ROWS: Final = (DATABASE, TABLE, WORKGROUP, NAMED_QUERY)

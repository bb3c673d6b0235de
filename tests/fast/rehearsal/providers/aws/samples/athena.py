"""Samples of Glue and Athena."""

from typing import Any

from tests.fast.rehearsal.providers.aws.samples.sample import MORE_TAGS, TAGS, Ground, Sample


def _database(ground: Ground) -> str:
    name = ground.fresh("base")
    ground.client("glue").create_database(DatabaseInput={"Name": name})
    return name


def _workgroup(ground: Ground) -> str:
    name = ground.fresh("group")
    ground.client("athena").create_work_group(Name=name, Configuration={})
    return name


def _stored(*columns: str) -> dict[str, Any]:
    return {
        "location": "s3://a-bucket/usage/",
        "inputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "serDeInfo": {
            "serializationLibrary": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
            "parameters": {"serialization.format": "1"},
        },
        "columns": [{"name": name, "type": "string", "comment": "What it says"} for name in columns],
    }


def _configured(limit: int, **more: Any) -> dict[str, Any]:
    return {
        "enforceWorkgroupConfiguration": True,
        "publishCloudwatchMetricsEnabled": False,
        "bytesScannedCutoffPerQuery": limit,
        "engineVersion": {"selectedEngineVersion": "Athena engine version 3"},
        "resultConfiguration": {
            "outputLocation": "s3://a-bucket/results/",
            "encryptionConfiguration": {"encryptionOption": "SSE_S3"},
        },
        **more,
    }


def _unlimited(ground: Ground, id_: str, _: dict[str, Any]) -> object:
    changes = {"RemoveBytesScannedCutoffPerQuery": True}
    return ground.client("athena").update_work_group(WorkGroup=id_, ConfigurationUpdates=changes)


def _fewer_columns(ground: Ground, _: str, outputs: dict[str, Any]) -> object:
    glue = ground.client("glue")
    where = {"DatabaseName": outputs["databaseName"], "Name": outputs["name"]}
    stored = glue.get_table(**where)["Table"]
    changed = {key: stored[key] for key in ("Name", "TableType", "Parameters", "PartitionKeys") if key in stored}
    stored = {**stored["StorageDescriptor"], "Columns": stored["StorageDescriptor"]["Columns"][:1]}
    return glue.update_table(DatabaseName=outputs["databaseName"], TableInput={**changed, "StorageDescriptor": stored})


SAMPLES = {
    "aws:glue/catalogDatabase:CatalogDatabase": Sample(
        inputs=lambda g: {"name": g.fresh("usage"), "description": "The bill", "tags": TAGS},
        update={"description": "The bill, by the hour", "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=lambda g, i, _: g.client("glue").update_database(
            Name=i.partition(":")[2], DatabaseInput={"Name": i.partition(":")[2], "Description": "by hand"}
        ),
        drift=("description",),
    ),
    "aws:glue/catalogTable:CatalogTable": Sample(
        inputs=lambda g: {
            "databaseName": _database(g),
            "name": "hours",
            "tableType": "EXTERNAL_TABLE",
            "parameters": {"EXTERNAL": "TRUE", "projection.enabled": "true"},
            "partitionKeys": [{"name": "billing_period", "type": "string"}],
            "storageDescriptor": _stored("one", "two"),
        },
        update={"storageDescriptor": _stored("one", "two", "three"), "description": "Hours"},
        replace={"name": "another"},
        behind=_fewer_columns,
        drift=("storageDescriptor",),
    ),
    "aws:athena/workgroup:Workgroup": Sample(
        inputs=lambda g: {
            "name": g.fresh("usage"),
            "configuration": _configured(10_485_760),
            "forceDestroy": True,
            "tags": TAGS,
        },
        update={"configuration": _configured(20_971_520), "description": "Questions", "tags": MORE_TAGS},
        replace={"name": "another"},
        behind=_unlimited,
        drift=("configuration",),
        untold=("forceDestroy",),
    ),
    "aws:athena/namedQuery:NamedQuery": Sample(
        inputs=lambda g: {
            "name": "per-user",
            "database": "usage",
            "workgroup": _workgroup(g),
            "query": "SELECT 1",
            "description": "One",
        },
        replace={"query": "SELECT 2"},
    ),
}

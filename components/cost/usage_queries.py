"""Athena queries over the usage export: a Glue table, a workgroup, and saved queries."""

from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import athena, glue

from agentenv.components._lib.options import ChildOptions
from agentenv.components._lib.tags import Labels
from agentenv.components.cost.usage_export import UsageExport
from agentenv.core.usage_export import columns, locations, queries

TABLE = "usage"
PARQUET = "org.apache.hadoop.hive.ql.io.parquet"


@dataclass(frozen=True)
class UsageQueries:
    """The workgroup and database of queries."""

    workgroup: pulumi.Output[str]
    database: pulumi.Output[str]


def create_usage_queries(
    labels: Labels, child: ChildOptions, usage: UsageExport, *, cluster: str, tagged: bool, limit_bytes: int
) -> UsageQueries:
    """Create the table, the workgroup and its saved queries."""
    name = f"{labels.base}-usage"
    bucket = usage.bucket
    database = glue.CatalogDatabase(
        name,
        # Athena does not accept '-' in an unquoted name
        name=labels.name("glue-database", "usage", plain=True),
        description=f"The bill of environment {labels.environment}, by the hour",
        tags=labels.tags("usage"),
        opts=child(),
    )
    glue.CatalogTable(
        name,
        name=TABLE,
        database_name=database.name,
        description="Cost and usage, one line an hour and resource, and two an hour and pod",
        table_type="EXTERNAL_TABLE",
        parameters=bucket.apply(lambda bucket_name: locations.projection(bucket_name, usage.export)),
        partition_keys=[{"name": columns.PARTITION, "type": "string"}],
        storage_descriptor=bucket.apply(lambda bucket_name: _storage_descriptor(bucket_name, usage.export)),  # pyright: ignore[reportArgumentType] - of its shape
        opts=child(),
    )
    workgroup = athena.Workgroup(
        name,
        name=labels.name("athena-workgroup", "usage"),
        description=f"Questions about the costs of environment {labels.environment}",
        # Deletes its saved queries and query history too.
        force_destroy=True,
        configuration={
            # Otherwise a client could choose the location and encryption of results.
            "enforce_workgroup_configuration": True,
            "publish_cloudwatch_metrics_enabled": False,
            "bytes_scanned_cutoff_per_query": limit_bytes,
            "engine_version": {"selected_engine_version": "Athena engine version 3"},
            "result_configuration": {
                "output_location": bucket.apply(lambda bucket_name: f"s3://{bucket_name}/{locations.RESULTS}/"),
                "encryption_configuration": {"encryption_option": "SSE_S3"},
            },
        },
        tags=labels.tags("usage"),
        opts=child(),
    )
    source = queries.Source(
        labels.name("glue-database", "usage", plain=True), TABLE, labels.environment, cluster, tagged
    )
    for query in queries.queries(source):
        athena.NamedQuery(
            f"{name}-{query.name}",
            name=query.name,
            description=query.description,
            database=database.name,
            workgroup=workgroup.name,
            query=query.text,
            opts=child(),
        )
    return UsageQueries(workgroup.name, database.name)


def _storage_descriptor(bucket: str, export: str) -> dict[str, Any]:
    return {
        "location": locations.data(bucket, export),
        "input_format": f"{PARQUET}.MapredParquetInputFormat",
        "output_format": f"{PARQUET}.MapredParquetOutputFormat",
        "ser_de_info": {
            "serialization_library": f"{PARQUET}.serde.ParquetHiveSerDe",
            "parameters": {"serialization.format": "1"},
        },
        "columns": [
            {"name": column.name, "type": column.type, "comment": column.description} for column in columns.COLUMNS
        ],
    }

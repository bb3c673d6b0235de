"""The location of the export in its bucket, and the partition projection for Athena."""

from __future__ import annotations

from agentenv.core.usage_export.columns import PARTITION

# Below these, in one bucket: what AWS writes, and what queries answer.
USAGE, RESULTS = "usage", "results"


def data(bucket: str, export: str) -> str:
    """Return the folder with a folder for each month."""
    return f"s3://{bucket}/{USAGE}/{export}/data/"


def month(bucket: str, export: str) -> str:
    """Return the folder of a month, as a template of the partition projection."""
    return f"{data(bucket, export)}{PARTITION.upper()}=${{{PARTITION}}}/"


def projection(bucket: str, export: str, since: str = "2026-01") -> dict[str, str]:
    """Return the parameters of the table: months are projected, so no crawler is needed."""
    return {
        "EXTERNAL": "TRUE",
        "classification": "parquet",
        "projection.enabled": "true",
        f"projection.{PARTITION}.type": "date",
        f"projection.{PARTITION}.format": "yyyy-MM",
        f"projection.{PARTITION}.range": f"{since},NOW",
        f"projection.{PARTITION}.interval": "1",
        f"projection.{PARTITION}.interval.unit": "MONTHS",
        "storage.location.template": month(bucket, export),
    }

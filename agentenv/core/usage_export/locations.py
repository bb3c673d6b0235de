"""Where the export lies in its bucket, and how Athena finds a month of it without being told of each."""

from __future__ import annotations

from agentenv.core.usage_export.columns import PARTITION

# Below these, in one bucket: what AWS writes, and what queries answer.
USAGE, RESULTS = "usage", "results"


def data(bucket: str, export: str) -> str:
    """The folder that has a folder a month."""
    return f"s3://{bucket}/{USAGE}/{export}/data/"


def month(bucket: str, export: str) -> str:
    """A month's folder, in the words of Athena's projection."""
    return f"{data(bucket, export)}{PARTITION.upper()}=${{{PARTITION}}}/"


def projection(bucket: str, export: str, since: str = "2026-01") -> dict[str, str]:
    """The table's parameters: its months follow from the calendar, so that no crawler has to look for them."""
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

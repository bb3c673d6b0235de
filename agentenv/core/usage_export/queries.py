"""Athena queries of the export: cost per user, shared costs, and the unexplained gap.

All three start from the same lines (`_LINES`), so that what one leaves out another has:

    bill = what pods used + what instances had left over + Fargate's pods + everything shared + the gap

The gap is what instances cost on the bill less what their pods' lines say that they cost: rounding, hours of instances
without a line for a pod, and whatever AWS still has to write down. A gap that grows is a reason not to trust the rest.

A pod's line carries the label that the pod had within the hour, so the hour in which a warm sandbox is claimed counts
for its new owner as a whole. The service's ledger knows the second; these queries are what it is held against.
"""

# ruff: noqa: S608 - what is put into the text is quoted, or of letters that mean nothing to SQL

from __future__ import annotations

from dataclasses import dataclass

from agentenv.core.classes.names import USER_LABEL, namespace
from agentenv.core.usage_export.columns import PARTITION, tag_key
from agentenv.core.usage_export.usage_types import BACKUPS, FILES, LOGS, MOVED

# This month and the last, of which AWS still corrects lines.
RECENT = "date_format(current_date - interval '1' month, '%Y-%m')"
ROOM = namespace("")


@dataclass(frozen=True)
class Source:
    """The table, and the lines in it that belong to an environment."""

    database: str
    table: str
    environment: str
    cluster: str
    tagged: bool
    since: str = RECENT


@dataclass(frozen=True)
class Query:
    """A saved query."""

    name: str
    description: str
    text: str


def queries(source: Source) -> tuple[Query, ...]:
    """Return the saved queries."""
    lines = _lines(source)
    return (
        Query(
            "per-user-and-day",
            "Dollars a user, class and day; warm pools and the platform's own pods too",
            lines + _PER_USER,
        ),
        Query("shared-costs", "Dollars a day of what belongs to nobody in particular, by part", lines + _SHARED),
        Query("reconciliation-gap", "The bill a day, what of it is explained, and the rest", lines + _GAP),
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _lines(source: Source) -> str:
    # Taxes have neither a resource nor a usage type
    pods = f"coalesce(regexp_like(line_item_resource_id, {_text(f':pod/{source.cluster}/')}), false)"
    ours = f"element_at(resource_tags, {_text(tag_key('environment'))}) = {_text(source.environment)}"
    # Split lines have the pod's labels and not the instance's tags; without tags, all of the account is looked at.
    which = f"({pods} OR {ours})" if source.tagged else f"({pods} OR {_WHOLE})"
    return f"""WITH lines AS (
  SELECT
    date(line_item_usage_start_date) AS day,
    line_item_usage_start_date AS hour,
    line_item_product_code AS service,
    line_item_usage_type AS usage_type,
    line_item_resource_id AS resource,
    regexp_extract(split_line_item_parent_resource_id, 'i-[0-9a-f]+') AS parent,
    coalesce(split_line_item_parent_resource_id, '') <> '' AS is_split,
    {pods} AS is_pod,
    line_item_product_code = 'AmazonEC2'
      AND coalesce(regexp_like(line_item_usage_type, '(BoxUsage|SpotUsage|DedicatedUsage)'), false) AS is_instance,
    coalesce(split_line_item_split_cost, 0) AS used,
    coalesce(split_line_item_unused_cost, 0) AS idle,
    {_COST} AS cost,
    CASE
      WHEN {pods} THEN split_part(line_item_resource_id, '/', 3)
    END AS namespace,
    element_at(resource_tags, {_text(tag_key(USER_LABEL))}) AS owner
  FROM "{source.database}"."{source.table}"
  WHERE {PARTITION} >= {source.since}
    AND line_item_line_item_type NOT IN ({_FEES})
    AND {which}
)"""


_WHOLE = "coalesce(split_line_item_parent_resource_id, '') = ''"
# A commitment is counted where it was used, and not again where it was paid.
_FEES = "'RIFee', 'SavingsPlanRecurringFee', 'SavingsPlanUpfrontFee', 'SavingsPlanNegation'"
_COST = """CASE
      WHEN coalesce(split_line_item_parent_resource_id, '') <> '' THEN 0
      WHEN line_item_line_item_type = 'SavingsPlanCoveredUsage' THEN savings_plan_savings_plan_effective_cost
      WHEN line_item_line_item_type = 'DiscountedUsage' THEN reservation_effective_cost
      ELSE line_item_unblended_cost
    END"""

_PER_USER = f"""
SELECT
  day,
  CASE
    WHEN coalesce(owner, '') <> '' THEN owner
    WHEN starts_with(namespace, '{ROOM}') THEN '(warm pool)'
    ELSE '(platform)'
  END AS owner,
  CASE WHEN starts_with(namespace, '{ROOM}') THEN substr(namespace, {len(ROOM) + 1}) END AS class,
  sum(CASE WHEN is_split THEN used ELSE cost END) AS direct,
  sum(idle) AS idle_beside
FROM lines
WHERE is_pod
GROUP BY 1, 2, 3
ORDER BY 1 DESC, 4 DESC
"""

# An instance whose pods have lines is told of there; one without any is paid for by everybody.
_SPLIT_INSTANCES = """,
split_instances AS (
  SELECT DISTINCT hour, parent FROM lines WHERE is_split AND parent <> ''
)"""

_SHARED = f"""{_SPLIT_INSTANCES}
SELECT
  lines.day,
  lines.service,
  CASE
    WHEN lines.is_instance THEN 'instances without pods'
    WHEN lines.service = 'AmazonEKS' THEN 'control plane'
    WHEN lines.service = '{FILES}' THEN 'file systems'
    WHEN lines.service = '{BACKUPS}' THEN 'backups'
    WHEN lines.service = '{LOGS}' THEN 'logs and metrics'
    WHEN lines.usage_type LIKE '%NatGateway%' THEN 'NAT'
    WHEN lines.usage_type LIKE '%VpcEndpoint%' THEN 'endpoints'
    WHEN lines.usage_type LIKE '%PublicIPv4%' THEN 'public addresses'
    WHEN regexp_like(lines.usage_type, '{MOVED}') THEN 'transfer'
    WHEN lines.usage_type LIKE '%EBS:%' THEN 'disks of nodes'
    ELSE 'other'
  END AS part,
  sum(lines.cost) AS cost
FROM lines
LEFT JOIN split_instances ON lines.hour = split_instances.hour AND lines.resource = split_instances.parent
WHERE NOT lines.is_pod AND NOT (lines.is_instance AND split_instances.parent IS NOT NULL)
GROUP BY 1, 2, 3
ORDER BY 1 DESC, 4 DESC
"""

_GAP = f"""{_SPLIT_INSTANCES},
days AS (
  SELECT
    lines.day,
    sum(lines.cost) AS bill,
    sum(CASE WHEN lines.is_split THEN lines.used ELSE 0 END) AS pods_on_instances,
    sum(CASE WHEN lines.is_split THEN lines.idle ELSE 0 END) AS idle,
    sum(CASE WHEN lines.is_pod AND NOT lines.is_split THEN lines.cost ELSE 0 END) AS pods_on_fargate,
    sum(CASE
      WHEN lines.is_pod OR (lines.is_instance AND split_instances.parent IS NOT NULL) THEN 0
      ELSE lines.cost
    END) AS shared
  FROM lines
  LEFT JOIN split_instances ON lines.hour = split_instances.hour AND lines.resource = split_instances.parent
  GROUP BY 1
)
SELECT
  day,
  bill,
  pods_on_instances,
  idle,
  pods_on_fargate,
  shared,
  bill - pods_on_instances - idle - pods_on_fargate - shared AS gap
FROM days
ORDER BY 1 DESC
"""

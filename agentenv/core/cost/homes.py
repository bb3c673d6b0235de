"""The cost of homes: storage, reads and writes, and backups. A home is retained while its workspace is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.lines import Part, plain
from agentenv.core.prices.units import HOURS_A_MONTH, total
from agentenv.core.service.home_metering import home_folders

if TYPE_CHECKING:
    from agentenv.core.cost.assumptions import Assumptions
    from agentenv.core.cost.context import EstimateContext


ENTRY_BYTES = 4096  # the billed bytes of a metadata operation


def homes(context: EstimateContext, hours: Decimal) -> Iterator[Part]:
    """Yield the cost of a user's home with a number of active hours a month."""
    storage, taken = context.settings.storage, context.taken
    size = taken.home
    touched = still_touched(storage.infrequent_access_after, taken)
    # Only Elastic file systems have an archive, and nothing is archived before it is seldom used.
    archived = 1 - still_touched(storage.archive_after, taken) if storage.throughput == "elastic" else Decimal(0)
    archived = min(archived, 1 - touched)
    seldom = 1 - touched - archived
    storage_cost = total(
        (
            context.cost("efs.standard", size * touched, "GB-month"),
            context.cost("efs.infrequent", size * seldom * taken.padding, "GB-month"),
            context.cost("efs.archive", size * archived * taken.padding, "GB-month"),
        )
    )
    words = f"{plain(size)} GB: {touched:.0%} Standard, {seldom:.0%} Infrequent Access, {archived:.0%} Archive"
    yield Part("homes", storage_cost, words, "user")
    moved = size * taken.tiered if touched < 1 else Decimal(0)
    cost, words = context.cost("efs.tiering", moved, "GB"), f"{plain(moved)} GB to and from cheaper classes"
    if storage.throughput == "elastic":
        reads, writes = (taken.reads + taken.metadata / 2) * hours, (taken.writes + taken.metadata / 2) * hours
        cost += context.cost("efs.read", reads, "GB") + context.cost("efs.write", writes, "GB")
        words = f"{plain(reads)} GB read and {plain(writes)} GB written, metadata counted; {words}"
    yield Part("reading and writing homes", cost, words, "user")
    if storage.backup:
        copies = size * taken.backup_growth
        cost = context.cost("backup.efs", copies, "GB-month")
        yield Part("backups of homes", cost, f"{plain(copies)} GB for 35 days of copies", "user")


def throughput(context: EstimateContext) -> Iterator[Part]:
    """Yield the cost of provisioned throughput."""
    storage = context.settings.storage
    if storage.throughput == "provisioned" and storage.provisioned_mibps and not storage.existing:
        cost = context.rate("efs.provisioned").all_month() * (storage.provisioned_mibps * storage.file_systems)
        yield Part("throughput of homes", cost, f"{storage.provisioned_mibps} MiB/s on each of {storage.file_systems}")


def home_scans(context: EstimateContext) -> Iterator[Part]:
    """Yield the maximum cost of the job that measures homes."""
    if context.settings.storage.throughput != "elastic" or not home_folders(context.settings):
        return
    entries = context.settings.cost.storage_metering.entries_per_day
    read = entries * ENTRY_BYTES * (HOURS_A_MONTH / 24) / 10**9
    words = f"{plain(read)} GB of metadata: at most {entries} entries a day, 4 KiB each"
    yield Part("metering of homes", context.cost("efs.read", read, "GB"), words)


def still_touched(transition: str, taken: Assumptions) -> Decimal:
    """Return the share of a home that is accessed within a time; half of it is within the assumed time."""
    if transition == "never":
        return Decimal(1)
    days = Decimal(transition.removesuffix("d"))
    return days / (days + taken.half_touched)

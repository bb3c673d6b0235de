"""What homes cost: where they lie, what is read and written, and the copies; awake or asleep, a home is kept."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from model.cost.lines import Part, plain
from model.prices.units import Amount, total

if TYPE_CHECKING:
    from model.cost.assumptions import Assumptions
    from model.prices.book import PriceBook
    from model.settings.whole import Settings


def homes(settings: Settings, hours: Decimal, book: PriceBook, taken: Assumptions) -> Iterator[Part]:
    """A user's home, with so many active hours a month."""
    storage, size = settings.storage, taken.home
    touched = still_touched(storage.infrequent_access_after, taken)
    archived = 1 - still_touched(storage.archive_after, taken) if storage.archive_after != "never" else Decimal(0)
    archived = min(archived, 1 - touched) if storage.throughput == "elastic" else Decimal(0)
    cooler = 1 - touched - archived
    lies = total(
        (
            book.rate("efs.standard").of(Amount(size * touched, "GB-month")),
            book.rate("efs.infrequent").of(Amount(size * cooler * taken.padding, "GB-month")),
            book.rate("efs.archive").of(Amount(size * archived * taken.padding, "GB-month")),
        )
    )
    words = f"{plain(size)} GB: {touched:.0%} Standard, {cooler:.0%} Infrequent Access, {archived:.0%} Archive"
    yield Part("homes", lies, words, "user")
    moved = book.rate("efs.tiering").of(Amount(size * taken.tiered if touched < 1 else Decimal(0), "GB"))
    words = f"{plain(size * taken.tiered)} GB to and from cheaper classes"
    if storage.throughput == "elastic":
        read, write = (taken.reads + taken.metadata / 2) * hours, (taken.writes + taken.metadata / 2) * hours
        moved += book.rate("efs.read").of(Amount(read, "GB")) + book.rate("efs.write").of(Amount(write, "GB"))
        words = f"{plain(read)} GB read and {plain(write)} GB written, metadata counted; {words}"
    yield Part("reading and writing homes", moved, words, "user")
    if storage.backup:
        copies = size * taken.backup_growth
        cost = book.rate("backup.efs").of(Amount(copies, "GB-month"))
        yield Part("backups of homes", cost, f"{plain(copies)} GB for 35 days of copies", "user")


def throughput(settings: Settings, book: PriceBook) -> Iterator[Part]:
    """Throughput that is paid for whether it is used or not."""
    storage = settings.storage
    if storage.throughput == "provisioned" and storage.provisioned_mibps and not storage.existing:
        cost = book.rate("efs.provisioned").all_month() * (storage.provisioned_mibps * storage.file_systems)
        words = f"{storage.provisioned_mibps} MiB/s on each of {storage.file_systems}"
        yield Part("throughput of homes", cost, words)


def still_touched(transition: str, taken: Assumptions) -> Decimal:
    """How much of a home is touched within a time: half of it within the time that is assumed, and ever less beyond."""
    if transition == "never":
        return Decimal(1)
    days = Decimal(transition.removesuffix("d"))
    return days / (days + taken.half_touched)

"""Everything that exists now, by kind: `{"ec2.vpcs": ["vpc-1"]}`.

Taken before `up` and after `destroy`, it says what was left behind. It counts things, not their traces: no history,
no metric data, no tags of what is gone. Keys of KMS that wait for their deletion exist in AWS for days more; they stand
apart, under `kms.keys_pending`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rehearsal.cloud.shelves import Shelves


def census(shelves: Shelves) -> dict[str, list[str]]:
    """What exists in all accounts and regions."""
    return {kind: sorted(names) for kind, names in sorted(shelves.everything().items()) if names}

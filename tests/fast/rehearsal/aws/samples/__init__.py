"""A sample for each row of the stand-in aws provider: what it is made of, and what is done to it."""

from tests.fast.rehearsal.aws.samples import (
    asking,
    billing,
    buckets,
    cluster,
    doors,
    firewall,
    identity,
    keys,
    logs,
    messages,
    network,
    routes,
    storage,
    tables,
    watch,
)
from tests.fast.rehearsal.aws.samples.sample import Sample

FAMILIES = (
    network,
    routes,
    firewall,
    doors,
    identity,
    keys,
    logs,
    storage,
    cluster,
    messages,
    watch,
    tables,
    buckets,
    billing,
    asking,
)
OTHERS: dict[str, Sample] = {**doors.OTHERS, **firewall.OTHERS}
SAMPLES: dict[str, Sample] = {token: sample for family in FAMILIES for token, sample in family.SAMPLES.items()}

"""A sample for each row of the stand-in aws provider: what it is made of, and what is done to it."""

from tests.fast.rehearsal.aws.samples import doors, firewall, identity, keys, logs, network, routes, storage
from tests.fast.rehearsal.aws.samples.sample import Sample

FAMILIES = (network, routes, firewall, doors, identity, keys, logs, storage)
SAMPLES: dict[str, Sample] = {token: sample for family in FAMILIES for token, sample in family.SAMPLES.items()}

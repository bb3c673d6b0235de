"""A sample for each row of the stand-in aws provider: what it is made of, and what is done to it."""

from tests.fast.rehearsal.providers.aws.samples import athena as asking
from tests.fast.rehearsal.providers.aws.samples import cloudwatch as watch
from tests.fast.rehearsal.providers.aws.samples import cost_explorer as billing
from tests.fast.rehearsal.providers.aws.samples import dynamodb as tables
from tests.fast.rehearsal.providers.aws.samples import ec2_endpoints as doors
from tests.fast.rehearsal.providers.aws.samples import ec2_routes as routes
from tests.fast.rehearsal.providers.aws.samples import ec2_security_groups as firewall
from tests.fast.rehearsal.providers.aws.samples import ec2_vpc as network
from tests.fast.rehearsal.providers.aws.samples import efs as storage
from tests.fast.rehearsal.providers.aws.samples import eks as cluster
from tests.fast.rehearsal.providers.aws.samples import elbv2 as balancing
from tests.fast.rehearsal.providers.aws.samples import iam as identity
from tests.fast.rehearsal.providers.aws.samples import kms as keys
from tests.fast.rehearsal.providers.aws.samples import logs
from tests.fast.rehearsal.providers.aws.samples import route53 as records
from tests.fast.rehearsal.providers.aws.samples import s3 as buckets
from tests.fast.rehearsal.providers.aws.samples import sqs_eventbridge as messages
from tests.fast.rehearsal.providers.aws.samples.sample import Sample

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
    balancing,
    records,
)
OTHERS: dict[str, Sample] = {**doors.OTHERS, **firewall.OTHERS}
SAMPLES: dict[str, Sample] = {token: sample for family in FAMILIES for token, sample in family.SAMPLES.items()}

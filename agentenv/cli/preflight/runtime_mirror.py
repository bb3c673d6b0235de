"""Check that the mirror of a stack has the runtimes that its nodes install, and that the VPC reaches it."""

from __future__ import annotations

from collections.abc import Sequence

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.cli.runtime_copies import location
from agentenv.config import Settings
from agentenv.core.nodes.mirrors import RuntimeFile, runtime_files


def questions(settings: Settings) -> list[Question]:
    """Return the questions about the mirror, if there is one and nodes install a runtime."""
    mirrors, existing = settings.network.mirrors, settings.network.existing
    files = runtime_files(needs.pools_of(settings))
    if not files or not (mirrors.bucket or mirrors.files):
        return []
    checks = [Question("runtimes in the mirror", len(files), lambda account: _check_files(account, settings, files))]
    if existing is not None:
        vpc = existing.vpc_id
        checks.append(Question("S3 endpoint of the VPC", vpc, lambda account: _check_endpoint(account, vpc, settings)))
    return checks


def _check_files(account: Account, settings: Settings, files: Sequence[RuntimeFile]) -> Answer:
    place = location(settings, account.identity["Account"])
    if place is None:
        return Answer(None, ok=None, why="network.mirrors.files is not the address of a bucket")
    if place.region != account.region:
        return Answer(None, ok=None, why=f"the bucket is in {place.region}")
    if not _exists(account, "head_bucket", Bucket=place.bucket):
        if not place.created:
            return Answer(0, ok=False, why=f"the bucket {place.bucket} does not exist")
        return Answer(0, ok=True, why=f"`up` creates the bucket; then run {_command(settings)}{_until(settings)}")
    missing = [
        file.path for file in files if not _exists(account, "head_object", Bucket=place.bucket, Key=place.key(file))
    ]
    count = len(files) - len(missing)
    if not missing:
        return Answer(count, ok=True, why="")
    why = f"{', '.join(missing)}: run {_command(settings)}{_until(settings)}"
    return Answer(count, ok=settings.network.nat != "none", why=why)


def _exists(account: Account, operation: str, **arguments: str) -> bool:
    try:
        account.call("s3", operation, **arguments)
    except AwsCallError as error:
        if error.code != "404":
            raise
        return False
    return True


def _command(settings: Settings) -> str:
    return f"agentenv mirror --stack {settings.environment}"


def _until(settings: Settings) -> str:
    if settings.network.nat == "none":
        return "; until then no node of sandboxes starts"
    return "; until then nodes read public addresses"


def _check_endpoint(account: Account, vpc: str, settings: Settings) -> Answer:
    service = f"com.amazonaws.{settings.region}.s3"
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "service-name", "Values": [service]}]
    found = account.list_all("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters)
    available = [row["VpcEndpointId"] for row in found if str(row["State"]).lower() == "available"]
    if available:
        return Answer(", ".join(available), ok=True, why="")
    why = f"nodes read the mirror through it; create a gateway endpoint of {service}{_until(settings)}"
    return Answer("none", ok=settings.network.nat != "none", why=why)

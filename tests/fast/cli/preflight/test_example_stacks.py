"""The example stacks pass preflight in a fresh simulated account, once its quotas and permissions are raised."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentenv.cli.preflight import quotas
from agentenv.cli.preflight.aws_calls import Account
from agentenv.cli.preflight.check import Check
from agentenv.cli.preflight.checks import preflight
from agentenv.cli.preflight.session import EXPIRATION
from agentenv.cli.stack_files import settings_of_file, stack_name
from agentenv.config import Settings
from agentenv.rehearsal.stage.cluster import ClusterOptions, existing_resources
from agentenv.rehearsal.stage.credentials import client
from tests.fast.rehearsal.cloud.running_cloud import running_cloud

ROOT = Path(__file__).resolve().parents[4]
# Stacks in existing resources are checked where those are created: tests/engine/components/test_adoption.py.
FILES = [
    path
    for folder in ("stacks", "examples/environment")
    for path in sorted((ROOT / folder).glob("Pulumi.*.yaml"))
    if "adopted" not in path.name
]
CORES = {
    f"quota: {'Spot' if capacity == 'spot' else 'on-demand'} cores, {group}": quota
    for (group, capacity), quota in quotas.CORES.items()
} | {"quota: cores on Fargate": quotas.FARGATE_CORES}


@pytest.fixture(scope="module")
def cloud() -> Iterator[str]:
    with running_cloud() as url:
        yield url


def settings_of(path: Path) -> Settings:
    settings = settings_of_file(path, stack_name(path))
    assert settings is not None
    return settings


def fresh_account(settings: Settings, number: int) -> ClusterOptions:
    """The options of a stack; one that names nothing of an account has an account of its own."""
    options = ClusterOptions.for_stack(settings)
    if options.deployer != ClusterOptions.deployer or options.existing:
        return options
    account = f"{444400000000 + number}"
    return dataclasses.replace(
        options,
        deployer=f"arn:aws:iam::{account}:role/deployer",
        existing=existing_resources(settings, account),
    )


def failed(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks if check.ok is False}


@pytest.mark.parametrize("path", FILES, ids=stack_name)
def test_example_passes_once_what_preflight_names_is_granted(
    cloud: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(path)
    options = fresh_account(settings, FILES.index(path))
    environment = {"AWS_ENDPOINT_URL": cloud, **options.environment(cloud)}
    soon = datetime.now(UTC) + timedelta(hours=2)
    for name, value in {**environment, EXPIRATION: soon.isoformat(), "AWS_EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(name, value)

    def checks() -> list[Check]:
        return preflight(settings, Account(settings.region)).checks

    # A role without policies may do nothing. A fresh account has five cores on demand, five of Spot, and no GPU.
    first = checks()
    permissions = {check.name for check in first if check.name.startswith("permissions: ")}
    refused = failed(first)
    too_low = refused.keys() & CORES.keys()
    assert refused.keys() - too_low == permissions != set()

    administrator = "arn:aws:iam::aws:policy/AdministratorAccess"
    role = options.deployer.rpartition("/")[2]
    client("iam", environment).attach_role_policy(RoleName=role, PolicyArn=administrator)
    for name in too_low:
        client("service-quotas", environment).request_service_quota_increase(
            ServiceCode=CORES[name].service,
            QuotaCode=CORES[name].code,
            DesiredValue=float(refused[name].needed or 0),
        )
    last = checks()
    assert failed(last) == {}
    unknown = {check.name: check.why for check in last if check.ok is None}
    if not settings.cluster.public_access_cidrs:
        del unknown["a client of the API server"]  # this machine is no client in the VPC
    assert all(why.startswith("the registry is not ECR") for why in unknown.values()), unknown


def test_fresh_account_is_too_small_for_prod_and_has_no_gpu(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", cloud)
    for name, value in ClusterOptions(deployer="arn:aws:iam::444499999999:role/deployer").environment(cloud).items():
        monkeypatch.setenv(name, value)
    account = Account("us-east-1")
    values = {key: quotas.quota_value(account, quota) for key, quota in quotas.CORES.items()}
    assert {capacity: value for (group, capacity), value in values.items() if group.startswith("Standard")} == {
        "on-demand": 5,
        "spot": 5,
    }
    assert {value for (group, _), value in values.items() if not group.startswith("Standard")} == {0}

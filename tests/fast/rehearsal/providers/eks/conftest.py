"""The stand-in in front of a monitor that answers as an engine with echoing providers would."""

from collections.abc import Iterator
from typing import Any

import pytest

from agentenv.rehearsal.providers.eks import readiness
from tests.fast.rehearsal.providers.eks.monitor import Bench, Monitor, of, serving

ARN = "arn:aws:iam::123456789012:role/a"
SUBNETS = {name: f"aws:ec2/subnet:Subnet::{name}" for name in ("s0", "s1", "s2", "s3")}
VPC = "aws:ec2/vpc:Vpc::v"
COMMON: dict[str, Any] = {
    "vpcId": of(VPC, "v"),
    "privateSubnetIds": [of(SUBNETS["s0"], "s0"), of(SUBNETS["s1"], "s1")],
    "publicSubnetIds": [of(SUBNETS["s2"], "s2"), of(SUBNETS["s3"], "s3")],
    "version": "1.35",
    "authenticationMode": "API",
    "skipDefaultNodeGroup": True,
    "endpointPrivateAccess": True,
    "endpointPublicAccess": True,
    "publicAccessCidrs": ["203.0.113.0/24"],
    "enabledClusterLogTypes": ["api", "audit", "authenticator", "controllerManager", "scheduler"],
    "encryptionConfigKeyArn": "arn:aws:kms:us-east-1:123456789012:key/1",
    "createOidcProvider": False,
    "accessEntries": {
        "admin": {
            "principalArn": ARN,
            "accessPolicies": {
                "a": {
                    "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                    "accessScope": {"type": "cluster"},
                }
            },
        }
    },
    "tags": {"a": "b"},
}
TAMED: dict[str, Any] = {
    **COMMON,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
    "deletionProtection": True,
    "upgradePolicy": {"supportType": "STANDARD"},
    "corednsAddonOptions": {"enabled": False},
    "kubeProxyAddonOptions": {"enabled": False},
}


@pytest.fixture
def monitor(monkeypatch: pytest.MonkeyPatch) -> Monitor:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    return Monitor(
        answers={
            "aws:index/getPartition:getPartition": lambda _: {"partition": "aws"},
            "aws:ec2/getRouteTable:getRouteTable": lambda _: {"routes": []},
            "aws:eks/getAddonVersion:getAddonVersion": lambda _: {"version": "v1.0.0-eksbuild.1"},
        }
    )


@pytest.fixture
def bench(monitor: Monitor) -> Iterator[Bench]:
    server, address = serving(monitor)
    yield Bench(monitor, address)
    server.stop(0).wait()


@pytest.fixture
def health_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The endpoints that were asked for their health; all of them have it."""
    found: list[str] = []

    def answers(endpoint: str) -> bool:
        found.append(endpoint)
        return True

    monkeypatch.setattr(readiness, "is_healthy", answers)
    return found

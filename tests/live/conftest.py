"""One control plane for all live tests, over a simulated account with a cluster."""

from __future__ import annotations

import base64
import json
import os
import secrets
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from agentenv.dev.machine import Machine, machine
from agentenv.dev.state import State, opened
from agentenv.local import processes
from agentenv.rehearsal.cloud.server import Cloud
from agentenv.rehearsal.controlplane.nodes.kwok_nodes import NodeShape
from agentenv.rehearsal.controlplane.plane import PROGRAMS, ControlPlane, control_plane
from agentenv.rehearsal.tools import ensure
from agentenv.rehearsal.tools.progress import Lines
from agentenv.rehearsal.tools.toolbox import Toolbox
from tests import file_order

# Files that take minutes, the longest first
LONG = (
    "examples/test_examples.py",
    "cli/test_rehearse.py",
    "service/test_other_callers_live.py",
    "cli/test_prove.py",
    "guardrails/test_attempts.py",
    "stack/test_environment_lifecycle.py",
    "stack/test_upgrade.py",
    "controlplane/sandboxes/test_pods_run.py",
    "controlplane/sandboxes/test_tools.py",
    "service/test_lifecycle_faults.py",
    "service/test_lifecycle_killed.py",
    "console/test_console.py",
    "dev/test_quickstarts.py",
)
CLUSTER = "stage"
REGION = "us-east-1"


def pytest_configure(config: pytest.Config) -> None:
    file_order.keep_order(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    file_order.begin_with(items, Path(__file__).parent, LONG)


@dataclass
class LiveCluster:
    """A control plane, its simulated account, and the environment variables of both."""

    plane: ControlPlane
    environment: Mapping[str, str]
    role: str  # a role that EKS may assume

    def aws(self, service: str) -> Any:
        """Return a client of the simulated account."""
        return boto3.client(
            service,
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name=REGION,
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )


@pytest.fixture(scope="session")
def toolbox() -> Toolbox:
    return ensure([*PROGRAMS, "agent-sandbox-manifests"], Lines(sys.stderr))


@pytest.fixture(scope="session")
def live(toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    run = f"test-{secrets.token_hex(4)}"
    with Cloud.start() as cloud:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            processes.MARK: run,
            "AWS_ENDPOINT_URL": cloud.url,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "rehearsal",
            "AWS_SECRET_ACCESS_KEY": "rehearsal",
        }
        folder: Path = tmp_path_factory.mktemp("plane")
        try:
            with control_plane(toolbox, folder / "plane", environment) as plane:
                created = LiveCluster(plane, environment, "")
                _announce(created)
                created.role = _cluster(created)
                plane.add_nodes(
                    [
                        NodeShape("n1", "us-east-1a", "m7g.xlarge", "4", "14Gi", labels={"tier": "standard"}),
                        NodeShape("n2", "us-east-1b", "m7g.xlarge", "4", "14Gi", labels={"tier": "standard"}),
                    ]
                )
                yield created
        finally:
            processes.end(run)


def _announce(live: LiveCluster) -> None:
    """Register the control plane as every cluster of the account."""
    plane = live.plane
    registration = {
        "endpoint": plane.server,
        "certificate_authority": base64.b64encode(plane.ca_pem.encode()).decode(),
        "issuer": plane.issuer,
    }
    address = f"{live.environment['AWS_ENDPOINT_URL']}/_cloud/eks"
    urllib.request.urlopen(urllib.request.Request(address, json.dumps(registration).encode())).close()  # noqa: S310 - loopback


def _cluster(live: LiveCluster) -> str:
    trust = (
        '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": '
        '{"Service": ["eks.amazonaws.com", "eks-fargate-pods.amazonaws.com"]}}]}'
    )
    role = live.aws("iam").create_role(RoleName="cluster", AssumeRolePolicyDocument=trust)["Role"]["Arn"]
    subnets = [row["SubnetId"] for row in live.aws("ec2").describe_subnets()["Subnets"]][:2]
    live.aws("eks").create_cluster(
        name=CLUSTER,
        roleArn=role,
        resourcesVpcConfig={"subnetIds": subnets},
        accessConfig={"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": False},
    )
    return role


@pytest.fixture(scope="session")
def on() -> Iterator[Machine]:
    """This machine, with the strongest runtime that it allows."""
    with machine(Lines(sys.stderr), gvisor=True) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Iterator[State]:
    """A state folder for one test."""
    with opened(tmp_path / "state") as folder:
        yield folder

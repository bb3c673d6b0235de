"""A cluster of the eks stand-in under the real engine: up, no change, refresh, update, destroy, and its outputs."""

from __future__ import annotations

import base64
import datetime
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentenv.rehearsal.controlplane.auth import eks_token
from agentenv.rehearsal.stage.engine import EngineError
from agentenv.rehearsal.stage.stage import Stage
from agentenv.rehearsal.tools import plugins
from tests.stub_server import Request, Response, self_signed, stub_server

ISSUER = "https://127.0.0.1/id/rehearsed"
PROGRAM = """
import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

settings = pulumi.Config()
vpc = aws.ec2.Vpc("net", cidr_block="10.40.0.0/16")
subnets = [
    aws.ec2.Subnet(f"inner-{zone}", vpc_id=vpc.id, cidr_block=f"10.40.{n}.0/24", availability_zone=f"us-east-1{zone}")
    for n, zone in enumerate("ab")
]
key = aws.kms.Key("secrets", enable_key_rotation=True)
admin = aws.iam.Role("admin", assume_role_policy={
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::123456789012:root"}, "Action": "sts:AssumeRole"}
    ],
})


def own_entries_only(made):
    if made.type_ != "aws:eks/cluster:Cluster":
        return None
    access = {**made.props["accessConfig"], "bootstrapClusterCreatorAdminPermissions": False}
    return pulumi.ResourceTransformResult({**made.props, "accessConfig": access}, made.opts)


cluster = eks.Cluster(
    "seats",
    name="seats",
    version="1.35",
    vpc_id=vpc.id,
    private_subnet_ids=[one.id for one in subnets],
    authentication_mode=eks.AuthenticationMode.API,
    access_entries={"admin": {
        "principal_arn": admin.arn,
        "access_policies": {"all": {
            "policy_arn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
            "access_scope": {"type": "cluster"},
        }},
    }},
    endpoint_private_access=True,
    endpoint_public_access=True,
    public_access_cidrs=["203.0.113.0/24"],
    encryption_config_key_arn=key.arn,
    enabled_cluster_log_types=["api", "audit"],
    upgrade_policy={"support_type": settings.get("support") or "STANDARD"},
    create_oidc_provider=False,
    skip_default_node_group=True,
    skip_default_security_groups=True,
    use_default_vpc_cni=True,
    coredns_addon_options={"enabled": False},
    kube_proxy_addon_options={"enabled": False},
    instance_type=settings.get("type"),
    tags={"owner": "us"},
    opts=pulumi.ResourceOptions(transforms=[own_entries_only]),
)
name = cluster.eks_cluster.apply(lambda one: one.name)
aws.eks.Addon("proxy", cluster_name=name, addon_name="kube-proxy")
eks.Addon("agent", cluster=cluster, addon_name="eks-pod-identity-agent")
aws.vpc.SecurityGroupEgressRule(
    "out", security_group_id=cluster.cluster_security_group_id, ip_protocol="-1", cidr_ipv4="10.40.0.0/16"
)
pulumi.export("kubeconfig", cluster.kubeconfig)
pulumi.export("json", cluster.kubeconfig_json)
pulumi.export("issuer", cluster.oidc_provider_url)
pulumi.export("group", cluster.cluster_security_group_id)
pulumi.export("name", name)
pulumi.export("somebody", cluster.get_kubeconfig(role_arn=admin.arn))
"""


@dataclass
class Api:
    """A stub of an API server, whose /healthz succeeds at the third request."""

    endpoint: str
    authority: str
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def api(opened: Stage, tmp_path: Path) -> Iterator[Api]:
    stub = Api("", base64.b64encode(self_signed(tmp_path / "server.pem")).decode())

    def respond(request: Request) -> Response:
        stub.requests.append(request.path)
        return Response(503 if len(stub.requests) == 1 else 200)

    with stub_server(respond, certificate=tmp_path / "server.pem") as port:
        stub.endpoint = f"https://127.0.0.1:{port}"
        plane = {"endpoint": stub.endpoint, "certificate_authority": stub.authority, "issuer": ISSUER}
        try:
            assert registered(opened, "POST", plane) == {**plane, "deployer_address": ""}
            yield stub
        finally:
            registered(opened, "DELETE")


def registered(stage: Stage, method: str, plane: dict[str, str] | None = None) -> Any:
    data = json.dumps(plane).encode() if plane else None
    request = urllib.request.Request(f"{stage.cloud}/_cloud/eks", data, method=method)  # noqa: S310 - our own loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own loopback
        return json.load(answer)


def test_cluster_is_deployed_settles_and_is_destroyed(opened: Stage, api: Api, tmp_path: Path) -> None:
    main = tmp_path / "program"
    main.mkdir()
    (main / "__main__.py").write_text(PROGRAM, encoding="utf-8")
    before = set(opened.leftovers())
    engine = opened.program(main, "dev", {"rehearsed:type": "m8g.large"})
    with pytest.raises(EngineError, match="instanceType is not supported by the stand-in: node groups"):
        engine.preview()
    engine.call("config", "rm", "--stack", engine.stack, "type")
    try:
        assert api.requests == [], "a preview sent a request"
        assert engine.up().changes["create"] > 15
        # Once more if a response was too late
        assert len(api.requests) >= 2, "not repeated until it was healthy"
        assert set(api.requests) == {"/healthz"}
        check_state(opened, engine.state())
        check_outputs(engine.outputs(), api, engine.environment)
        refreshed = engine.refresh()
        assert refreshed.changed == 0, refreshed.changed_resources()

        # Nothing else changes, so a second update has nothing to do.
        engine.call("config", "set", "--stack", engine.stack, "support", "EXTENDED")
        assert [(done, urn.rsplit("::", 1)[-1]) for done, urn, _ in engine.up().changed_resources()] == [
            ("update", "seats-eksCluster")
        ]
    finally:
        engine.destroy()
    assert engine.state() == []
    assert set(opened.leftovers()) == before


def check_state(stage: Stage, state: list[dict[str, Any]]) -> None:
    """Check the state: the transform reached the child, and ignored inputs are recorded."""
    (eks,) = [resource for resource in state if resource["type"] == "aws:eks/cluster:Cluster"]
    assert eks["inputs"]["accessConfig"]["bootstrapClusterCreatorAdminPermissions"] is False
    assert eks["inputs"]["tags"] == {"Name": "seats-eksCluster", "owner": "us"}
    (component,) = [resource for resource in state if resource["type"] == "eks:index:Cluster"]
    assert eks["parent"] == component["urn"]
    (addon,) = [
        resource for resource in state if resource["urn"].endswith("eks:index:Addon$aws:eks/addon:Addon::agent")
    ]
    assert addon["inputs"]["clusterName"] == "seats"
    assert eks["urn"] in addon["dependencies"]
    assert addon["parent"].startswith(f"{component['urn'].rpartition('::')[0]}$eks:index:Addon::")
    assert "eks.clusters" in {line.split(" ")[0] for line in stage.leftovers()}


def check_outputs(outputs: dict[str, Any], api: Api, environment: Mapping[str, str]) -> None:
    config = json.loads(outputs["json"])
    assert config == outputs["kubeconfig"]
    assert config["clusters"][0]["cluster"] == {
        "server": api.endpoint,
        "certificate-authority-data": api.authority,
    }
    assert outputs["issuer"] == ISSUER
    assert outputs["group"].startswith("sg-")
    assert outputs["name"] == "seats"
    assert "--role" in outputs["somebody"]
    command = config["users"][0]["user"]["exec"]
    ran = subprocess.run(
        [command["command"], *command["args"]],
        env={**environment, **{variable["name"]: variable["value"] for variable in command["env"]}},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    token = json.loads(ran.stdout)["status"]["token"]
    host = environment["AWS_ENDPOINT_URL"].removeprefix("http://")
    presented = eks_token.read(token, datetime.datetime.now(datetime.UTC), also_from=host)
    assert presented.signed_for("seats", environment["AWS_SECRET_ACCESS_KEY"])


def test_stage_provides_an_aws_cli_where_none_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin" if not Path("/usr/bin/aws").exists() else os.devnull)
    (tmp_path / "executor").write_text("", encoding="utf-8")
    programs = plugins.shims(tmp_path / "shims", Path(sys.executable), executor=tmp_path / "executor")
    (shim,) = [program for program in programs if program.name == "aws"]
    ran = subprocess.run(
        [str(shim.path), "eks", "get-token", "--cluster-name", "seats", "--region", "us-east-1"],
        env={"AWS_ACCESS_KEY_ID": "rehearsal", "AWS_SECRET_ACCESS_KEY": "rehearsal", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    presented = eks_token.read(json.loads(ran.stdout)["status"]["token"], datetime.datetime.now(datetime.UTC))
    assert presented.signed_for("seats", "rehearsal")

"""Tests of every constraint: a sample that violates it alone, and a valid neighbour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from agentenv.config.constraints import CONSTRAINTS
from agentenv.config.constraints.names import LONGEST_CLASS
from agentenv.config.sections.network import PLATFORM_ENDPOINTS
from tests.fast.config.stack_samples import (
    IMAGE,
    OTHER_IMAGE,
    VETTED,
    config,
    fargate,
    mistakes,
    mistakes_of,
    sandbox,
)


@dataclass(frozen=True)
class Sample:
    """A configuration that a row refuses, and one beside it that nothing refuses."""

    constraint: str
    path: str
    refused: dict[str, Any]
    sound: dict[str, Any]
    environment: str = "dev"
    found: list[str] = field(default_factory=list)
    region: str = "us-east-1"  # of the refused one


ISSUER = "https://login.example.com"
MONITOR = "arn:aws:ce::123456789012:anomalymonitor/11111111-2222-3333-4444-555555555555"
CERTIFICATE = "arn:aws:acm:us-east-1:111122223333:certificate/6ce8a1b2"
# A service that is reached under a domain, as it has to be.
REACHED = {"image": f"registry.example.com/workspace-service@sha256:{'a' * 64}", "domain": "w.example.com"} | {
    "certificate": CERTIFICATE
}

OPEN = {**REACHED, "reach": "internet", "issuer": ISSUER, "callers": ["203.0.113.0/24"]}
OWN_DOMAIN = {"workspaceDomain": "w.example.net"}
SIGN_IN = {"clientId": "c", "clientSecret": "arn:aws:secretsmanager:us-east-1:111122223333:secret:sign-in-a1b2c3"}
ZONE, OTHER_ZONE = "Z0123456789ABCDEFGHIJ", "Z9876543210ABCDEFGHIJ"
SERVICE_IMAGE = f"registry.example.com/workspace-service@sha256:{'a' * 64}"
WORKSPACED = {"image": f"registry.example.com/workspaced@sha256:{'b' * 64}"}
INSIDE: dict[str, Any] = {"service": {"image": SERVICE_IMAGE, "workspaced": WORKSPACED}}


BURSTING = {"cpu": "250m", "memory": "512Mi", "burst": {"cpu": "2", "memory": "2Gi"}}
MEDIUM = {"cpu": "500m", "memory": "2Gi", "burst": {"cpu": "4", "memory": "4Gi"}}


def one_class(**changes: Any) -> dict[str, Any]:
    return {"sandboxClasses": [sandbox(**changes)]}


def on_fargate(**changes: Any) -> dict[str, Any]:
    return {"sandboxClasses": [fargate(**changes)]}


def seats(*names: str, **changes: Any) -> dict[str, Any]:
    workspaces = [{"name": name, "class": "standard", "user": "u-1", **changes} for name in names]
    return {"sandboxClasses": [sandbox()], "workspaces": workspaces}


def under(parent: dict[str, Any], child: dict[str, Any]) -> dict[str, Any]:
    return {"sandboxClasses": [sandbox("parent", **parent), sandbox("child", parent="parent", **child)]}


PROXY = {"network": {"egressProxy": {"namespace": "egress", "app": "squid"}}}
POLICY = "arn:aws:iam::111122223333:policy/read"
EXCHANGE = {"kind": "exchange"}
ROOMY = {"capacity": {"limits": {"cpu": "2000", "memory": "8Ti"}}}
IMPATIENT = {"cluster": {"sandboxController": {"flags": {"readinessGrace": "60s"}}}}
ROLE = "arn:aws:iam::111122223333:role/platform"
NETWORK = {"vpcId": "vpc-0123456789abcdef0", "privateSubnetIds": ["subnet-01234567", "subnet-12345678"]}
CLASS = "sandboxClasses[0]"
HOURS = {"start": "08:00", "end": "18:00", "size": 1}
ECR = "111122223333.dkr.ecr.us-east-1.amazonaws.com"
IN_ECR = f"{ECR}/sandbox@sha256:{'ab' * 32}"
NO_NAT = {
    "nat": "none",
    "endpoints": list(PLATFORM_ENDPOINTS),
    "mirrors": {"registry": f"{ECR}/mirror", "files": "https://copies.s3.us-east-1.amazonaws.com"},
}

TWO_FILE_SYSTEMS = {"storage": {"fileSystems": 2}}

NITRO_IMAGE = {"capacity": {"nitroImages": ["ami-0a1b2c3d4e5f60718"]}}
ROUTED = {"peers": ["10.0.0.0/16"], "transitGateway": "tgw-0a1b2c3d4e5f60718"}
SAMPLES = [
    Sample("region-of-another-partition", "aws:region", {}, {}, region="cn-north-1"),
    Sample(
        "efs-driver-without-pod-identity",
        "cluster.addonVersions.efsCsiDriver",
        {"cluster": {"addonVersions": {"efsCsiDriver": "v2.1.15-eksbuild.1"}}},
        {"cluster": {"addonVersions": {"efsCsiDriver": "v3.0.0-eksbuild.1"}}},
    ),
    Sample(
        "workspaced-without-image",
        f"{CLASS}.daemon",
        one_class(daemon="workspaced"),
        {**one_class(daemon="workspaced"), **INSIDE},
    ),
    Sample("workspaced-without-service", "service.workspaced", {"service": {"workspaced": WORKSPACED}}, INSIDE),
    Sample(
        "workspaced-without-service",
        "service.workspaced",
        {"service": {**INSIDE["service"], "enabled": False}},
        {"service": {"image": SERVICE_IMAGE, "enabled": False}},
    ),
    Sample(
        "workspaced-without-command",
        f"{CLASS}.args",
        {**one_class(args=["--serve"]), **INSIDE},
        {**one_class(command=["/bin/agent"], args=["--serve"]), **INSIDE},
    ),
    Sample(
        "workspaced-without-command",
        f"{CLASS}.args",
        {**one_class(args=["--serve"]), **INSIDE},
        {**one_class(args=["--serve"], daemon="image"), **INSIDE},
    ),
    Sample(
        "workspaced-flag-in-env",
        f"{CLASS}.env[0]",
        {**one_class(env=[{"name": "WORKSPACED_GRACE", "value": "1h"}]), **INSIDE},
        {**one_class(env=[{"name": "WORKSPACE_NAME", "value": "x"}]), **INSIDE},
    ),
    Sample(
        "probe-of-workspaced",
        f"{CLASS}.probe.port",
        {**one_class(probe={"port": 49983}), **INSIDE},
        {**one_class(probe={"port": 49984}), **INSIDE},
    ),
    Sample(
        "daemon-granted-to-class",
        f"{CLASS}.capabilities[0]",
        {"sandboxClasses": [sandbox(capabilities=[{"class": "other", "ports": [49983]}]), sandbox("other")], **INSIDE},
        {"sandboxClasses": [sandbox(capabilities=[{"class": "other", "ports": [8080]}]), sandbox("other")], **INSIDE},
    ),
    Sample(
        "suspend-grace-over-node",
        f"{CLASS}.suspendGrace",
        {**INSIDE, **one_class(capacity="spot", suspendGrace="31s", workTree={"kind": "local"})},
        {**INSIDE, **one_class(capacity="spot", suspendGrace="30s", workTree={"kind": "local"})},
    ),
    Sample(
        "work-tree-without-home",
        f"{CLASS}.workTree.kind",
        {**INSIDE, **one_class(storage={"kind": "none"}, workTree={"kind": "local"})},
        {**INSIDE, **one_class(storage={"kind": "none"})},
    ),
    Sample(
        "work-tree-without-home",
        f"{CLASS}.workTree.kind",
        {**INSIDE, **one_class(daemon="image", workTree={"kind": "local"})},
        {**INSIDE, **one_class(workTree={"kind": "local"})},
    ),
    Sample(
        "work-tree-over-home",
        f"{CLASS}.storage.mountPath",
        {**INSIDE, **one_class(storage={"mountPath": "/work"}, workTree={"kind": "local"})},
        {**INSIDE, **one_class(storage={"mountPath": "/workshop"}, workTree={"kind": "local"})},
    ),
    Sample(
        "work-tree-interval",
        f"{CLASS}.workTree.interval",
        {**INSIDE, **one_class(workTree={"kind": "local", "interval": "9s"})},
        {**INSIDE, **one_class(workTree={"kind": "local", "interval": "10s"})},
    ),
    Sample(
        "suspend-grace-over-node",
        f"{CLASS}.suspendGrace",
        one_class(suspendGrace="91s", capacity="spot"),
        one_class(suspendGrace="91s"),
    ),
    Sample(
        "suspend-grace-over-node",
        f"{CLASS}.suspendGrace",
        {**one_class(suspendGrace="10m"), "capacity": {"terminationGrace": "5m"}},
        on_fargate(suspendGrace="10m"),
    ),
    Sample(
        "mount-path-taken",
        f"{CLASS}.storage.mountPath",
        one_class(storage={"mountPath": "/opt/workspaced/home"}),
        one_class(storage={"mountPath": "/opt/home"}),
    ),
    Sample(
        "class-name-taken",
        f"{CLASS}.name",
        {"sandboxClasses": [sandbox("schedules")]},
        {"sandboxClasses": [sandbox("schedule")]},
    ),
    Sample(
        "release-twice",
        f"{CLASS}.releases[0].image",
        one_class(releases=[{"image": IMAGE}]),
        one_class(releases=[{"image": OTHER_IMAGE}]),
    ),
    Sample(
        "release-twice",
        f"{CLASS}.releases[1].image",
        one_class(releases=[{"image": OTHER_IMAGE}, {"channel": "canary", "image": OTHER_IMAGE}]),
        one_class(releases=[{"image": OTHER_IMAGE}, {"channel": "canary", "image": OTHER_IMAGE.replace("cd", "ef")}]),
    ),
    Sample(
        "storage-class-taken",
        "sandboxClasses[1].name",
        {**TWO_FILE_SYSTEMS, "sandboxClasses": [sandbox("a"), sandbox("a-1")]},
        {**TWO_FILE_SYSTEMS, "sandboxClasses": [sandbox("a"), sandbox("a-2")]},
    ),
    Sample(
        "storage-class-taken",
        "sandboxClasses[0].name",
        {**TWO_FILE_SYSTEMS, "sandboxClasses": [sandbox("a-1"), sandbox("a")]},
        {**TWO_FILE_SYSTEMS, "sandboxClasses": [sandbox("a-1"), sandbox("a", storage={"kind": "none"})]},
    ),
    Sample(
        "mount-path-taken",
        f"{CLASS}.storage.mountPath",
        one_class(storage={"mountPath": "/proc/self"}),
        one_class(storage={"mountPath": "/process"}),
    ),
    Sample(
        "mount-path-taken",
        f"{CLASS}.storage.mountPath",
        one_class(storage={"mountPath": "/var/run/secrets/sandbox.users.io/identity"}),
        one_class(storage={"mountPath": "/var/run/mine"}),
    ),
    Sample(
        "mount-path-taken",
        f"{CLASS}.storage.mountPath",
        one_class(storage={"mountPath": "/usr"}),
        one_class(storage={"mountPath": "/usr/local/share/work"}),
    ),
    Sample(
        "mount-path-taken",
        f"{CLASS}.storage.mountPath",
        one_class(storage={"kind": "shared", "mountPath": "/shared"}),
        one_class(storage={"kind": "slot", "mountPath": "/shared"}),
    ),
    Sample(
        "scratch-without-local-disk",
        f"{CLASS}.storage.kind",
        one_class(storage={"kind": "scratch"}),
        {"capacity": {"families": ["m8g", "m8gd"]}, **one_class(storage={"kind": "scratch"})},
    ),
    Sample(
        "scratch-without-local-disk",
        f"{CLASS}.storage.kind",
        {"capacity": {"families": ["m7i", "m8gd"]}, **one_class(architecture="amd64", storage={"kind": "scratch"})},
        {"capacity": {"families": ["m7i", "m6id"]}, **one_class(architecture="amd64", storage={"kind": "scratch"})},
    ),
    Sample(
        "scratch-without-local-disk",
        f"{CLASS}.storage.kind",
        one_class(tier="untrusted", storage={"kind": "scratch"}),
        {
            "capacity": {"nestedFamilies": ["m8i", "i4i-metal"]},
            **one_class(tier="untrusted", storage={"kind": "scratch"}),
        },
    ),
    Sample(
        "ephemeral-over-root-volume",
        f"{CLASS}.resources.ephemeral",
        one_class(resources={"ephemeral": "41Gi"}),
        one_class(resources={"ephemeral": "40Gi"}),
    ),
    Sample(
        "timezone-unknown",
        f"{CLASS}.pool.schedules[0].timezone",
        one_class(pool={"schedules": [{**HOURS, "timezone": "Europe/Berln"}]}),
        one_class(pool={"schedules": [{**HOURS, "timezone": "Europe/Berlin"}]}),
        found=["Europe/Berln"],
    ),
    # Kubernetes knows it and refuses it: whose would it be?
    Sample(
        "timezone-unknown",
        f"{CLASS}.pool.schedules[0].timezone",
        one_class(pool={"schedules": [{**HOURS, "timezone": "Local"}]}),
        one_class(pool={"schedules": [{**HOURS, "timezone": "Etc/GMT-2"}]}),
    ),
    Sample(
        "schedules-of-two-timezones",
        f"{CLASS}.pool.schedules[1].timezone",
        one_class(pool={"schedules": [HOURS, {**HOURS, "days": ["sat"], "timezone": "Europe/Berlin"}]}),
        one_class(pool={"schedules": [HOURS, {**HOURS, "days": ["sat"]}]}),
    ),
    Sample(
        "probe-beyond-readiness",
        f"{CLASS}.probe.startWithin",
        one_class(probe={"port": 8080, "startWithin": "6m"}),
        {
            **one_class(probe={"port": 8080, "startWithin": "6m"}),
            "cluster": {"sandboxController": {"flags": {"readinessGrace": "6m"}}},
        },
    ),
    Sample(
        "probe-beyond-readiness",
        f"{CLASS}.probe.startWithin",
        one_class(probe={"port": 8080, "startWithin": "301s"}),
        one_class(probe={"port": 8080, "startWithin": "1h"}, pool={"size": 0}),
    ),
    # What nobody said is no mistake of theirs.
    Sample(
        "probe-beyond-readiness",
        f"{CLASS}.probe.startWithin",
        {**one_class(probe={"port": 8080, "startWithin": "2m"}), **IMPATIENT},
        {**one_class(probe={"port": 8080}), **IMPATIENT},
    ),
    Sample("probe-of-two-ways", f"{CLASS}.probe", one_class(probe={}), one_class(probe={"port": 8080})),
    Sample(
        "probe-of-two-ways",
        f"{CLASS}.probe",
        one_class(probe={"port": 8080, "command": ["true"]}),
        one_class(probe={"command": ["true"]}),
    ),
    Sample(
        "probe-of-two-ways",
        f"{CLASS}.probe.path",
        one_class(probe={"command": ["true"], "path": "/ready"}),
        one_class(probe={"port": 8080, "path": "/ready"}),
    ),
    Sample(
        "fargate-size",
        f"{CLASS}.resources.ephemeral",
        on_fargate(resources={"ephemeral": "100Gi"}, storage={"kind": "scratch", "size": "76Gi"}),
        on_fargate(resources={"ephemeral": "100Gi"}, storage={"kind": "scratch", "size": "75Gi"}),
    ),
    Sample(
        "vpc-range-not-taken",
        "network.cidr",
        {"network": {"cidr": "10.40.0.0/15"}},
        {"network": {"cidr": "10.40.0.0/16"}},
    ),
    Sample("vpc-range-not-taken", "network.cidr", {"network": {"cidr": "10.40.0.0/28"}}, {}),
    Sample("vpc-range-not-taken", "network.cidr", {"network": {"cidr": "0.0.0.0/0"}}, {}),
    Sample("vpc-range-not-taken", "network.cidr", {"network": {"cidr": "169.254.0.0/20"}}, {}),
    Sample(
        "range-too-small-for-zones",
        "network.cidr",
        {"network": {"cidr": "10.40.0.0/22", "zones": 4}},
        {"network": {"cidr": "10.40.0.0/20", "zones": 4}},
    ),
    Sample(
        "range-too-small-for-pods",
        "network.cidr",
        {"network": {"cidr": "10.40.0.0/22"}, **one_class(maxSandboxes=1000)},
        {"network": {"cidr": "10.40.0.0/18"}, **one_class(maxSandboxes=1000)},
    ),
    Sample(
        "service-range-overlaps-vpc",
        "cluster.serviceCidr",
        {"cluster": {"serviceCidr": "10.40.128.0/20"}},
        {"cluster": {"serviceCidr": "10.41.128.0/20"}},
    ),
    Sample(
        "service-range-not-taken",
        "cluster.serviceCidr",
        {"cluster": {"serviceCidr": "100.64.0.0/16"}},
        {"cluster": {"serviceCidr": "192.168.0.0/16"}},
    ),
    Sample("service-range-not-taken", "cluster.serviceCidr", {"cluster": {"serviceCidr": "172.20.0.0/25"}}, {}),
    Sample(
        "peer-overlaps",
        "network.peers[1]",
        {"network": {"peers": ["10.0.0.0/16", "10.40.1.0/24"]}},
        {"network": {"peers": ["10.0.0.0/16", "10.41.1.0/24"]}},
    ),
    Sample("peer-overlaps", "network.peers[0]", {"network": {"peers": ["172.20.1.0/24"]}}, {}),
    Sample(
        "zone-of-another-region",
        "network.zones[1]",
        {"network": {"zones": ["us-east-1a", "us-east-2b"]}},
        {"network": {"zones": ["us-east-1a", "us-east-1b"]}},
    ),
    Sample(
        "zone-twice",
        "network.zones[2]",
        {"network": {"zones": ["us-east-1a", "us-east-1b", "us-east-1a"]}},
        {"network": {"zones": ["us-east-1a", "us-east-1b", "us-east-1c"]}},
    ),
    Sample(
        "internet-without-nat",
        f"{CLASS}.capabilities",
        {"network": NO_NAT, **one_class(image=IN_ECR, capabilities=["dns", "web"])},
        {"network": NO_NAT, **one_class(image=IN_ECR, capabilities=["dns"])},
    ),
    Sample(
        "internet-without-nat",
        f"{CLASS}.capabilities",
        {"network": NO_NAT, **one_class(image=IN_ECR, capabilities=[{"cidr": "8.8.8.0/24"}])},
        {"network": NO_NAT, **one_class(image=IN_ECR, capabilities=[{"cidr": "10.0.0.0/24"}])},
    ),
    Sample(
        "nat-none-without-endpoints",
        "network.endpoints",
        {"network": {**NO_NAT, "endpoints": ["sts"]}},
        {"network": {**NO_NAT, "endpoints": [*PLATFORM_ENDPOINTS, "xray"]}},
    ),
    Sample(
        "nat-none-without-registry",
        "network.mirrors.registry",
        {"network": {"nat": "none", "endpoints": list(PLATFORM_ENDPOINTS)}},
        {"network": NO_NAT},
    ),
    Sample(
        "nat-none-runtime-elsewhere",
        f"{CLASS}.tier",
        {"network": {**NO_NAT, "mirrors": {"registry": ECR}}, **one_class(image=IN_ECR)},
        {"network": NO_NAT, **one_class(image=IN_ECR)},
    ),
    Sample(
        "nat-none-runtime-elsewhere",
        f"{CLASS}.tier",
        {"network": {**NO_NAT, "mirrors": {"registry": ECR}}, **one_class(image=IN_ECR, tier="untrusted")},
        {
            "network": {**NO_NAT, "mirrors": {"registry": ECR}},
            **one_class(image=IN_ECR, **VETTED),
        },
    ),
    Sample(
        "nat-none-runtime-elsewhere",
        f"{CLASS}.tier",
        {"network": {**NO_NAT, "mirrors": {"registry": ECR}}, **one_class(image=IN_ECR)},
        {"network": {**NO_NAT, "mirrors": {"registry": ECR, "bucket": True}}, **one_class(image=IN_ECR)},
    ),
    Sample(
        "bucket-beside-files",
        "network.mirrors.bucket",
        {"network": {"mirrors": {"bucket": True, "files": "https://copies.s3.us-east-1.amazonaws.com"}}},
        {"network": {"mirrors": {"bucket": True}}},
    ),
    Sample(
        "nat-none-image-elsewhere",
        f"{CLASS}.image",
        {"network": NO_NAT, **one_class()},
        {"network": NO_NAT, **one_class(image=IN_ECR)},
    ),
    Sample(
        "nat-none-image-elsewhere",
        f"{CLASS}.releases[0].image",
        {"network": NO_NAT, **one_class(image=IN_ECR, releases=[{"image": IN_ECR.replace("us-east-1", "us-west-2")}])},
        {"network": NO_NAT, **one_class(image=IN_ECR, releases=[{"image": IN_ECR.replace("abab", "cdcd")}])},
    ),
    Sample(
        "public-endpoint-open",
        "cluster.publicAccessCidrs[0]",
        {"cluster": {"publicAccessCidrs": ["0.0.0.0/0"]}},
        {"cluster": {"publicAccessCidrs": ["203.0.113.0/24"]}},
        environment="prod",
    ),
    Sample(
        "public-range-is-private",
        "cluster.publicAccessCidrs[0]",
        {"cluster": {"publicAccessCidrs": ["10.0.0.0/16"]}},
        {"cluster": {"publicAccessCidrs": ["198.51.100.0/24"]}},
    ),
    Sample(
        "private-cluster-unreachable",
        "cluster.publicAccessCidrs",
        {"cluster": {"publicAccessCidrs": []}, "network": {"peers": ["10.0.0.0/16"]}},
        {"cluster": {"publicAccessCidrs": []}, "network": ROUTED},
    ),
    Sample(
        "private-cluster-unreachable",
        "cluster.publicAccessCidrs",
        {"cluster": {"publicAccessCidrs": [], "privateAccessFrom": []}, "network": ROUTED},
        {"cluster": {"publicAccessCidrs": [], "privateAccessFrom": ["10.0.8.0/24"]}, "network": ROUTED},
    ),
    Sample(
        "private-access-not-routed",
        "cluster.privateAccessFrom[0]",
        {"cluster": {"privateAccessFrom": ["10.1.0.0/16"]}, "network": ROUTED},
        {"cluster": {"privateAccessFrom": ["10.0.0.0/24"]}, "network": ROUTED},
    ),
    Sample(
        "private-access-not-routed",
        "cluster.privateAccessFrom[0]",
        {"cluster": {"privateAccessFrom": ["10.0.0.0/16"]}, "network": {"peers": ["10.0.0.0/16"]}},
        {"cluster": {"privateAccessFrom": []}, "network": {"peers": ["10.0.0.0/16"]}},
    ),
    Sample(
        "transit-gateway-without-peers",
        "network.transitGateway",
        {"network": {"transitGateway": "tgw-0a1b2c3d4e5f60718"}},
        {"network": ROUTED},
    ),
    Sample(
        "metadata-granted",
        f"{CLASS}.capabilities[0].cidr",
        one_class(capabilities=[{"cidr": "169.254.169.254/32"}]),
        one_class(capabilities=[{"cidr": "198.51.100.7/32"}]),
    ),
    Sample("metadata-granted", f"{CLASS}.capabilities[0].cidr", one_class(capabilities=[{"cidr": "0.0.0.0/0"}]), {}),
    Sample(
        "cluster-granted",
        f"{CLASS}.capabilities[0].cidr",
        one_class(capabilities=[{"cidr": "10.40.0.0/24"}]),
        one_class(capabilities=[{"cidr": "10.50.0.0/24"}]),
    ),
    Sample("cluster-granted", f"{CLASS}.capabilities[0].cidr", one_class(capabilities=[{"cidr": "172.20.0.1/32"}]), {}),
    Sample(
        "domain-without-proxy",
        f"{CLASS}.capabilities[0].domain",
        one_class(capabilities=[{"domain": "*.example.com"}]),
        {
            "network": {"egressProxy": {"namespace": "egress", "app": "proxy"}},
            **one_class(capabilities=[{"domain": "*.example.com"}]),
        },
    ),
    Sample(
        "access-points-over-limit",
        "storage.fileSystems",
        {"storage": {"fileSystems": 1}, **ROOMY, **one_class(pool={"size": 6_000})},
        {"storage": {"fileSystems": 2}, **ROOMY, **one_class(pool={"size": 6_000})},
    ),
    Sample(
        "access-points-over-limit",
        "storage.fileSystems",
        # One that is warm, once more while its release is replaced, and a seat.
        {**one_class(maxSandboxes=9_999), "workspaces": seats("a")["workspaces"]},
        {**one_class(maxSandboxes=9_998), "workspaces": seats("a")["workspaces"]},
    ),
    Sample(
        "access-points-over-limit",
        "storage.fileSystems",
        one_class(maxSandboxes=5_000, storage={"kind": "shared"}),
        one_class(maxSandboxes=4_999, storage={"kind": "shared"}),
    ),
    Sample(
        "provisioned-throughput",
        "storage.throughput",
        {"storage": {"throughput": "provisioned"}},
        {"storage": {"throughput": "provisioned", "provisionedMibps": 100}},
    ),
    Sample("provisioned-throughput", "storage.provisionedMibps", {"storage": {"provisionedMibps": 100}}, {}),
    Sample(
        "archive-without-elastic",
        "storage.archiveAfter",
        {"storage": {"archiveAfter": "90d", "throughput": "bursting"}},
        {"storage": {"archiveAfter": "90d"}},
    ),
    Sample(
        "archive-before-infrequent-access",
        "storage.archiveAfter",
        {"storage": {"archiveAfter": "30d", "infrequentAccessAfter": "30d"}},
        {"storage": {"archiveAfter": "60d", "infrequentAccessAfter": "30d"}},
    ),
    Sample(
        "archive-before-infrequent-access",
        "storage.archiveAfter",
        {"storage": {"archiveAfter": "30d", "infrequentAccessAfter": "never"}},
        {},
    ),
    Sample(
        "existing-file-systems-count",
        "storage.existing",
        {"storage": {"existing": ["fs-0123456789abcdef0"], "fileSystems": 2}},
        {"storage": {"existing": ["fs-0123456789abcdef0"]}},
    ),
    Sample(
        "existing-network-shaped",
        "network.flowLogDays",
        {"network": {"existing": NETWORK, "flowLogDays": 30}},
        {"network": {"existing": NETWORK, "peers": ["10.40.0.0/16"]}},
    ),
    Sample(
        "existing-network-shaped",
        "network.zones",
        {"network": {"existing": NETWORK, "zones": 2}},
        {"network": {"existing": NETWORK}},
    ),
    Sample(
        "existing-cluster-shaped",
        "cluster.admins",
        {
            "network": {"existing": NETWORK},
            "cluster": {"existing": "shared", "admins": ["arn:aws:iam::111122223333:role/platform"]},
        },
        {"network": {"existing": NETWORK}, "cluster": {"existing": "shared", "version": "1.36"}},
    ),
    Sample(
        "existing-file-systems-shaped",
        "storage.backup",
        {"storage": {"existing": ["fs-0123456789abcdef0"], "backup": False}},
        {"storage": {"existing": ["fs-0123456789abcdef0"], "retainDeletedFor": "7d"}},
    ),
    Sample(
        "cluster-named-twice",
        "cluster.name",
        {"network": {"existing": NETWORK}, "cluster": {"existing": "shared", "name": "agents"}},
        {"network": {"existing": NETWORK}, "cluster": {"existing": "shared"}},
    ),
    Sample(
        "existing-cluster-without-network",
        "cluster.existing",
        {"cluster": {"existing": "shared"}},
        {"network": {"existing": NETWORK}, "cluster": {"existing": "shared"}},
    ),
    Sample(
        "existing-subnet-twice",
        "network.existing",
        {"network": {"existing": {**NETWORK, "publicSubnetIds": ["subnet-01234567"]}}},
        {"network": {"existing": {**NETWORK, "publicSubnetIds": ["subnet-23456789"]}}},
    ),
    Sample(
        "mount-group-without-targets",
        "storage.mountGroup",
        {"network": {"existing": NETWORK}, "storage": {"mountGroup": "sg-01234567"}},
        {
            "network": {"existing": NETWORK},
            "storage": {"existing": ["fs-0123456789abcdef0"], "mountGroup": "sg-01234567"},
        },
    ),
    Sample(
        "mount-group-without-targets",
        "storage.mountGroup",
        {"storage": {"existing": ["fs-0123456789abcdef0"], "mountGroup": "sg-01234567"}},
        {"storage": {"existing": ["fs-0123456789abcdef0"]}},
    ),
    Sample(
        "gvisor-pod-identity",
        f"{CLASS}.identity.kind",
        one_class(identity={"kind": "pod-identity"}),
        one_class(identity={"kind": "irsa"}),
    ),
    Sample(
        "spot-nested-virtualization",
        f"{CLASS}.capacity",
        one_class(tier="untrusted", capacity="both"),
        one_class(tier="untrusted", capacity="on-demand"),
    ),
    Sample(
        "nitro-needs-version",
        f"{CLASS}.kernel",
        {"cluster": {"version": "1.35"}, **NITRO_IMAGE, **one_class(tier="untrusted", kernel="nitro")},
        {"cluster": {"version": "1.36"}, **NITRO_IMAGE, **one_class(tier="untrusted", kernel="nitro")},
    ),
    Sample(
        "nitro-needs-image",
        f"{CLASS}.kernel",
        {"cluster": {"version": "1.36"}, **one_class(tier="untrusted", kernel="nitro")},
        {"cluster": {"version": "1.36"}, **NITRO_IMAGE, **one_class(tier="untrusted", kernel="nitro")},
    ),
    Sample("kernel-without-untrusted", f"{CLASS}.kernel", one_class(kernel="nitro"), one_class()),
    Sample("kernel-without-untrusted", f"{CLASS}.kernel", on_fargate(kernel="nitro"), on_fargate()),
    Sample(
        "runtime-class-against-tier",
        f"{CLASS}.runtimeClass",
        one_class(runtimeClass="kata"),
        one_class(runtimeClass="gvisor"),
    ),
    Sample(
        "runtime-class-against-tier",
        f"{CLASS}.runtimeClass",
        one_class(tier="verified", runtimeClass="gvisor", claimableBy={"roles": ["admin"]}),
        one_class(tier="verified", claimableBy={"roles": ["admin"]}),
    ),
    Sample(
        "security-group-on-nodes",
        f"{CLASS}.enforcedBy",
        one_class(enforcedBy="security-group"),
        one_class(enforcedBy="network-policy"),
    ),
    Sample(
        "verified-open-to-all",
        f"{CLASS}.claimableBy",
        one_class(tier="verified"),
        one_class(tier="verified", claimableBy={"roles": [], "tokens": [{"name": "team", "value": "build"}]}),
    ),
    Sample(
        "gpu-behind-a-wall",
        f"{CLASS}.gpu",
        {"capacity": {"gpu": {"limit": 4}}, **one_class(tier="untrusted", gpu=1)},
        {"capacity": {"gpu": {"limit": 4}}, **one_class(**VETTED, gpu=1)},
    ),
    Sample(
        "gpu-behind-a-wall",
        f"{CLASS}.gpu",
        {"capacity": {"gpu": {"limit": 4}}, **one_class(gpu=1)},
        {"capacity": {"gpu": {"limit": 4}}, **one_class(gpu=0)},
    ),
    Sample(
        "gpu-over-limit",
        f"{CLASS}.gpu",
        {"capacity": {"gpu": {"limit": 1}}, **one_class(**VETTED, gpu=2)},
        {"capacity": {"gpu": {"limit": 2}}, **one_class(**VETTED, gpu=2)},
    ),
    Sample(
        "architecture-without-family",
        f"{CLASS}.architecture",
        {"capacity": {"families": ["m8g", "c7gn"]}, **one_class(architecture="amd64")},
        {"capacity": {"families": ["m8g", "g5"]}, **one_class(architecture="amd64")},
    ),
    Sample(
        "architecture-without-family",
        f"{CLASS}.architecture",
        one_class(tier="untrusted", architecture="arm64"),
        one_class(tier="untrusted", architecture="amd64"),
    ),
    Sample(
        "family-without-nested-virtualization",
        "capacity.nestedFamilies[1]",
        {"capacity": {"nestedFamilies": ["c8i", "m7i"]}},
        {"capacity": {"nestedFamilies": ["c8i-flex", "m8i"]}},
    ),
    Sample(
        "burst-below-request",
        f"{CLASS}.resources.burst.cpu",
        one_class(resources={"cpu": "1", "burst": {"cpu": "500m"}}),
        one_class(resources={"cpu": "500m", "burst": {"cpu": "0.5"}}),
    ),
    Sample(
        "burst-below-request",
        f"{CLASS}.sizes.medium.burst.memory",
        one_class(
            resources=BURSTING, sizes={"medium": {**MEDIUM, "memory": "4Gi", "burst": {"cpu": "4", "memory": "3Gi"}}}
        ),
        one_class(resources=BURSTING, sizes={"medium": MEDIUM}),
    ),
    Sample(
        "sandbox-over-limits",
        f"{CLASS}.sizes.large.cpu",
        {"capacity": {"limits": {"cpu": "8"}}, **one_class(sizes={"large": {"cpu": "16", "memory": "1Gi"}})},
        {"capacity": {"limits": {"cpu": "16"}}, **one_class(sizes={"large": {"cpu": "16", "memory": "1Gi"}})},
    ),
    Sample(
        "sizes-on-fargate",
        f"{CLASS}.sizes",
        on_fargate(sizes={"large": {"cpu": "4", "memory": "8Gi"}}),
        on_fargate(),
    ),
    Sample(
        "sizes-of-kata",
        f"{CLASS}.sizes",
        one_class(tier="untrusted", capacity="on-demand", sizes={"large": {"cpu": "4", "memory": "8Gi"}}),
        one_class(tier="untrusted", capacity="on-demand"),
    ),
    Sample(
        "sizes-out-of-order",
        f"{CLASS}.sizes.large",
        one_class(resources=BURSTING, sizes={"medium": MEDIUM, "large": {**MEDIUM, "cpu": "250m"}}),
        one_class(resources=BURSTING, sizes={"medium": MEDIUM, "large": {**MEDIUM, "cpu": "750m"}}),
    ),
    Sample(
        "sizes-out-of-order",
        f"{CLASS}.sizes.medium",
        one_class(resources=BURSTING, sizes={"medium": BURSTING}),
        one_class(resources=BURSTING, sizes={"medium": {**BURSTING, "memory": "513Mi"}}),
    ),
    Sample(
        "sizes-of-two-qos-classes",
        f"{CLASS}.sizes.medium.burst",
        one_class(resources=BURSTING, sizes={"medium": {"cpu": "4", "memory": "4Gi"}}),
        one_class(resources={"cpu": "1", "memory": "1Gi"}, sizes={"medium": {"cpu": "4", "memory": "4Gi"}}),
    ),
    Sample(
        "sandbox-over-limits",
        f"{CLASS}.resources.memory",
        {"capacity": {"limits": {"memory": "8Gi"}}, **one_class(resources={"memory": "16Gi"})},
        {"capacity": {"limits": {"memory": "16Gi"}}, **one_class(resources={"memory": "16Gi"}, pool={"size": 0})},
    ),
    Sample(
        "secret-in-env",
        f"{CLASS}.env[1]",
        one_class(env=[{"name": "LANG", "value": "C"}, {"name": "API_KEY", "value": "x"}]),
        one_class(env=[{"name": "LANG", "value": "C"}, {"name": "KEYBOARD", "value": "us"}]),
    ),
    Sample(
        "secret-in-env",
        f"{CLASS}.env[0]",
        one_class(env=[{"name": "PLAIN", "value": "AKIAIOSFODNN7AB12345"}]),
        one_class(env=[{"name": "PLAIN", "value": "AKIA"}]),
    ),
    Sample(
        "secret-in-env",
        f"{CLASS}.env[0]",
        one_class(env=[{"name": "DATABASE_URL", "value": "postgres://app:hunter2@db.example.com/app"}]),
        one_class(env=[{"name": "DATABASE_URL", "value": "postgres://db.example.com/app"}]),
    ),
    Sample(
        "exchange-without-capability",
        f"{CLASS}.identity.kind",
        one_class(identity={"kind": "exchange"}),
        one_class(identity={"kind": "exchange"}, capabilities=["dns", "identity"]),
    ),
    Sample(
        "exchange-without-dns",
        f"{CLASS}.capabilities",
        one_class(identity={"kind": "exchange"}, capabilities=["identity"]),
        one_class(identity={"kind": "exchange"}, capabilities=["dns", "identity"]),
    ),
    Sample("fargate-tier", f"{CLASS}.tier", on_fargate(tier="standard"), on_fargate(tier="untrusted")),
    Sample("fargate-runtime-class", f"{CLASS}.runtimeClass", on_fargate(runtimeClass="gvisor"), on_fargate()),
    Sample(
        "fargate-network-policy",
        f"{CLASS}.enforcedBy",
        on_fargate(enforcedBy="network-policy"),
        on_fargate(enforcedBy="security-group"),
    ),
    Sample(
        "fargate-dynamic-storage",
        f"{CLASS}.storage.kind",
        on_fargate(storage={"kind": "slot"}),
        on_fargate(storage={"size": "1Gi"}),
    ),
    Sample("fargate-gpu", f"{CLASS}.gpu", on_fargate(gpu=1), on_fargate(gpu=0)),
    Sample("fargate-spot", f"{CLASS}.capacity", on_fargate(capacity="spot"), on_fargate(capacity="on-demand")),
    Sample(
        "fargate-arm64", f"{CLASS}.architecture", on_fargate(architecture="arm64"), on_fargate(architecture="amd64")
    ),
    Sample(
        "fargate-size",
        f"{CLASS}.resources",
        on_fargate(resources={"cpu": "16", "memory": "120Gi"}),
        on_fargate(resources={"cpu": "16", "memory": "119Gi"}),
    ),
    Sample(
        "fargate-size",
        f"{CLASS}.resources.ephemeral",
        on_fargate(resources={"ephemeral": "176Gi"}),
        on_fargate(resources={"ephemeral": "175Gi"}),
    ),
    Sample(
        "fargate-grants",
        f"{CLASS}.capabilities",
        on_fargate(
            capabilities=[
                {"cidr": f"198.51.{third}.0/24", "ports": list(range(1, 12, 2))} for third in range(0, 128, 2)
            ]
        ),
        on_fargate(capabilities=[{"cidr": f"198.51.{third}.0/24", "ports": [1, 3, 5]} for third in range(0, 128, 2)]),
    ),
    Sample(
        "fargate-grants",
        "sandboxClasses[16].capabilities",
        {"sandboxClasses": [fargate(f"c{number}", capabilities=["dns"]) for number in range(17)]},
        {"sandboxClasses": [fargate(f"c{number}", capabilities=["dns"]) for number in range(16)]},
    ),
    Sample(
        "fargate-seat",
        "workspaces[0].class",
        {**on_fargate(), "workspaces": [{"name": "s", "class": "batch", "user": "u-1"}]},
        on_fargate(),
    ),
    Sample(
        "grant-not-made",
        f"{CLASS}.capabilities[1]",
        one_class(capabilities=["dns", {"cidr": "2600::/32"}]),
        one_class(capabilities=["dns", {"cidr": "198.51.100.0/24"}]),
    ),
    Sample(
        "grant-not-made",
        f"{CLASS}.capabilities[0]",
        {"service": {"enabled": False}, **one_class(capabilities=["identity"])},
        {"service": {"enabled": True}, **one_class(capabilities=["identity"])},
    ),
    Sample(
        "grant-not-made",
        f"{CLASS}.capabilities[0]",
        {**PROXY, **one_class(capabilities=[{"domain": "pypi.org", "protocol": "udp"}])},
        {**PROXY, **one_class(capabilities=[{"domain": "pypi.org"}])},
    ),
    Sample(
        "grants-not-written",
        f"{CLASS}.capabilities",
        one_class(capabilities=[{"cidr": "198.51.100.0/24", "ports": list(range(1, 51, 2))}]),
        one_class(capabilities=[{"cidr": "198.51.100.0/24", "ports": list(range(1, 49, 2))}]),
    ),
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].capabilities",
        under({"capabilities": ["dns", "web"]}, {"capabilities": ["dns", "git"]}),
        under({"capabilities": ["dns", "git"]}, {"capabilities": ["dns", "web"]}),
    ),
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].maxLifetime",
        under({"maxLifetime": "1d"}, {}),
        under({"maxLifetime": "1d"}, {"maxLifetime": "1d"}),
    ),
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].budget",
        under({"budget": 3}, {"budget": "3.01"}),
        under({"budget": 3}, {"budget": 3}),
    ),
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].storage",
        under({"storage": {"kind": "none"}}, {"storage": {"kind": "slot"}}),
        under({"storage": {"kind": "slot"}}, {"storage": {"kind": "none"}}),
    ),
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].identity",
        under({}, {"identity": {"kind": "irsa", "policies": [POLICY]}}),
        under({"identity": {"kind": "irsa", "policies": [POLICY]}}, {}),
    ),
    # The session of whoever exchanges reads its owner's secrets, even with no policy at all.
    Sample(
        "class-exceeds-parent",
        "sandboxClasses[1].identity",
        under({"capabilities": ["dns", "identity"]}, {"capabilities": ["dns", "identity"], "identity": EXCHANGE}),
        under(*[{"capabilities": ["dns", "identity"], "identity": EXCHANGE}] * 2),
    ),
    # Whether the API server will be the one address that only the child is granted.
    Sample(
        "class-perhaps-exceeds-parent",
        "sandboxClasses[1].capabilities",
        under({}, {"capabilities": [{"cidr": "54.1.2.3/32", "ports": [22]}]}),
        under(*[{"capabilities": [{"cidr": "54.1.2.3/32", "ports": [22]}]}] * 2),
    ),
    # Whether the proxy follows a name to where the parent may not go.
    Sample(
        "class-perhaps-exceeds-parent",
        "sandboxClasses[1].capabilities",
        {**PROXY, **under({"capabilities": ["web"]}, {"capabilities": [{"domain": "pypi.org", "ports": [443]}]})},
        {**PROXY, **under(*[{"capabilities": [{"domain": "pypi.org", "ports": [443]}]}] * 2)},
    ),
    Sample(
        "fargate-burst",
        f"{CLASS}.resources.burst.memory",
        on_fargate(resources={"memory": "1Gi", "burst": {"memory": "2Gi"}}),
        on_fargate(resources={"memory": "1Gi", "burst": {"memory": "1024Mi"}}),
    ),
    Sample(
        "fargate-pod-identity",
        f"{CLASS}.identity.kind",
        on_fargate(identity={"kind": "pod-identity"}),
        on_fargate(identity={"kind": "irsa"}),
    ),
    Sample(
        "fargate-exchange",
        f"{CLASS}.identity.kind",
        on_fargate(identity={"kind": "exchange"}),
        on_fargate(identity={"kind": "irsa"}),
    ),
    Sample(
        "policies-of-nobody",
        f"{CLASS}.identity.policies",
        one_class(identity={"policies": [POLICY]}),
        one_class(identity={"kind": "irsa", "policies": [POLICY]}),
    ),
    Sample(
        "policy-twice",
        f"{CLASS}.identity.policies[1]",
        one_class(identity={"kind": "irsa", "policies": [POLICY, POLICY]}),
        one_class(identity={"kind": "irsa", "policies": [POLICY, "arn:aws:iam::444455556666:policy/read"]}),
    ),
    Sample(
        "public-endpoint-open-to-sandboxes",
        "cluster.publicAccessCidrs[0]",
        {**one_class(capabilities=["web"]), "cluster": {"publicAccessCidrs": ["0.0.0.0/0"]}},
        {**one_class(capabilities=["dns"]), "cluster": {"publicAccessCidrs": ["0.0.0.0/0"]}},
    ),
    Sample(
        "public-endpoint-open-to-sandboxes",
        "cluster.publicAccessCidrs[0]",
        {**one_class(capabilities=["git"]), "cluster": {"publicAccessCidrs": ["128.0.0.0/1"]}},
        {**one_class(capabilities=["web", "api-server"]), "cluster": {"publicAccessCidrs": ["128.0.0.0/1"]}},
    ),
    Sample(
        "pool-with-claim-env", f"{CLASS}.claimEnv", one_class(claimEnv=True), one_class(claimEnv=True, pool={"size": 0})
    ),
    Sample(
        "pool-of-two-sizes",
        f"{CLASS}.pool.size",
        one_class(pool={"size": 3, "peakClaimsPerHour": 60}),
        one_class(pool={"peakClaimsPerHour": 60}),
    ),
    Sample(
        "pool-over-quota",
        f"{CLASS}.maxSandboxes",
        one_class(pool={"size": 5}, maxSandboxes=9, releases=[{"image": OTHER_IMAGE}]),
        one_class(pool={"size": 5}, maxSandboxes=10, releases=[{"image": OTHER_IMAGE}]),
    ),
    # A hundred cores of the kind of processor that homes that last use; gVisor takes 20m beside each sandbox.
    Sample(
        "pool-over-limits",
        f"{CLASS}.resources.cpu",
        {"capacity": {"limits": {"cpu": "100"}}, **one_class(pool={"size": 100}, resources={"cpu": "990m"})},
        {"capacity": {"limits": {"cpu": "100"}}, **one_class(pool={"size": 100}, resources={"cpu": "980m"})},
        found=["100 of 990m with capacity.limits.cpu 100"],
    ),
    Sample(
        "pool-over-limits",
        f"{CLASS}.resources.memory",
        {"capacity": {"limits": {"memory": "8Gi"}}, **one_class(architecture="amd64", resources={"memory": "8Gi"})},
        {"capacity": {"limits": {"memory": "8Gi"}}, **one_class(resources={"memory": "8Gi"}, storage={"kind": "none"})},
    ),
    Sample(
        "schedule-ends-before-it-starts",
        f"{CLASS}.pool.schedules[0].end",
        one_class(pool={"schedules": [{**HOURS, "start": "22:00", "end": "00:00"}]}),
        one_class(pool={"schedules": [{**HOURS, "start": "22:00", "end": "24:00"}]}),
    ),
    Sample(
        "schedule-ends-before-it-starts",
        f"{CLASS}.pool.schedules[0].end",
        one_class(pool={"schedules": [{**HOURS, "start": "20:00"}]}),
        one_class(pool={"schedules": [{**HOURS, "start": "17:59"}]}),
    ),
    Sample(
        "schedules-overlap",
        f"{CLASS}.pool.schedules[1]",
        one_class(pool={"schedules": [HOURS, {**HOURS, "start": "12:00", "end": "20:00"}]}),
        one_class(pool={"schedules": [HOURS, {**HOURS, "start": "18:00", "end": "20:00"}, {**HOURS, "days": ["sat"]}]}),
    ),
    Sample(
        "class-twice",
        "sandboxClasses[1].name",
        {"sandboxClasses": [sandbox("a"), sandbox("a")]},
        {"sandboxClasses": [sandbox("a"), sandbox("b")]},
    ),
    # Names whose ids meet, found by trying: one in some tens of thousands does.
    Sample(
        "class-ids-collide",
        "sandboxClasses[1].name",
        {"sandboxClasses": [sandbox("c10828"), sandbox("c18180")]},
        {"sandboxClasses": [sandbox("c10828"), sandbox("c18181")]},
    ),
    Sample("seats-collide", "workspaces[1].name", seats("c8007", "c12749"), seats("c8007", "c12750")),
    Sample(
        "public-endpoint-open",
        "cluster.publicAccessCidrs[0]",
        {"cluster": {"publicAccessCidrs": ["128.0.0.0/1"]}},
        {"cluster": {"publicAccessCidrs": ["128.0.0.0/8"]}},
        environment="prod",
    ),
    Sample(
        "class-name-too-long",
        f"{CLASS}.name",
        one_class(name="a" * (LONGEST_CLASS + 1)),
        one_class(name="a" * LONGEST_CLASS),
    ),
    Sample(
        "parent-unknown",
        "sandboxClasses[1].parent",
        {"sandboxClasses": [sandbox("a"), sandbox("b", parent="c")]},
        {"sandboxClasses": [sandbox("a"), sandbox("b", parent="a")]},
    ),
    Sample("parent-cycle", f"{CLASS}.parent", one_class(parent="standard"), one_class()),
    Sample(
        "tier-below-parent",
        "sandboxClasses[1].tier",
        {"sandboxClasses": [sandbox("a", tier="untrusted"), sandbox("b", parent="a")]},
        {"sandboxClasses": [sandbox("a"), sandbox("b", parent="a", tier="untrusted")]},
    ),
    Sample(
        "grant-of-unknown-class",
        f"{CLASS}.capabilities[0].class",
        one_class(capabilities=[{"class": "other"}]),
        {"sandboxClasses": [sandbox("a", capabilities=[{"class": "b", "ports": [80]}]), sandbox("b")]},
    ),
    Sample(
        "channel-twice",
        f"{CLASS}.releases[0].channel",
        one_class(releases=[{"channel": "stable", "image": OTHER_IMAGE}]),
        one_class(releases=[{"channel": "next", "image": OTHER_IMAGE}]),
    ),
    Sample(
        "variable-twice",
        f"{CLASS}.env[1].name",
        one_class(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
        one_class(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]),
    ),
    Sample("seat-of-unknown-class", "workspaces[0].class", seats("a", **{"class": "standart"}), seats("a")),
    Sample(
        "seat-mode-not-of-class",
        "workspaces[0].mode",
        {**seats("a", mode="user"), "sandboxClasses": [sandbox(modes=["agent"])]},
        {**seats("a", mode="agent"), "sandboxClasses": [sandbox(modes=["agent"])]},
    ),
    Sample("seats-collide", "workspaces[1].name", seats("a", "a"), seats("a", "b")),
    Sample("seat-name-too-long", "workspaces[0].name", seats("a" * 59), seats("a" * 58)),
    Sample(
        "principal-twice",
        "cluster.readers[0]",
        {"cluster": {"admins": [ROLE], "readers": [ROLE]}},
        {"cluster": {"admins": [ROLE], "readers": [f"{ROLE}-2"]}},
    ),
    Sample(
        "tag-taken",
        "cost.tags[0].key",
        {"cost": {"tags": [{"key": "owner", "value": "x"}]}},
        {"cost": {"tags": [{"key": "department", "value": "x"}]}},
    ),
    Sample("tag-taken", "cost.tags[0].key", {"cost": {"tags": [{"key": "aws:owner", "value": "x"}]}}, {}),
    Sample(
        "alert-without-recipient",
        "cost.monthlyBudget",
        {"cost": {"monthlyBudget": 100}},
        {"cost": {"monthlyBudget": 100, "alertTo": "platform@example.com"}},
    ),
    Sample(
        "cap-over-budget",
        "cost.perUserCap",
        {"cost": {"monthlyBudget": 100, "perUserCap": "100.01", "alertTo": "platform@example.com"}},
        {"cost": {"monthlyBudget": 100, "perUserCap": 100, "alertTo": "platform@example.com"}},
    ),
    Sample(
        "monitor-for-nobody",
        "cost.anomalyMonitor",
        {"cost": {"anomalyMonitor": MONITOR}},
        {"cost": {"anomalyMonitor": MONITOR, "anomalyAlerts": True, "alertTo": "platform@example.com"}},
    ),
    Sample(
        "alertmanager-without-prometheus",
        "cost.alertmanager",
        {"cost": {"alertmanager": {"namespace": "monitoring"}, "dashboards": False}},
        {"cost": {"alertmanager": {"namespace": "monitoring"}}},
    ),
    Sample(
        "labels-without-tags",
        "cost.costLabels",
        {"cost": {"costLabels": True, "costTags": "active", "usageExport": True}},
        {"cost": {"costLabels": True, "costTags": "activate", "usageExport": True}},
    ),
    Sample(
        "labels-without-tags",
        "cost.costLabels",
        {"cost": {"costLabels": True, "costTags": "activate"}},
        {"cost": {"costLabels": True, "costTags": "activate", "usageExport": True}},
    ),
    Sample("service-in-clear", "service.domain", {"service": {**REACHED, "certificate": None}}, {"service": REACHED}),
    Sample(
        "certificate-of-another-region",
        "service.certificate",
        {"service": {**REACHED, "certificate": CERTIFICATE.replace("us-east-1", "eu-west-1")}},
        {"service": REACHED},
    ),
    Sample(
        "service-open-to-all",
        "service.reach",
        {"service": {**OPEN, **OWN_DOMAIN, "callers": []}},
        {"service": {**OPEN, **OWN_DOMAIN}},
    ),
    Sample(
        "callers-without-issuer",
        "service.reach",
        {"service": {**OPEN, **OWN_DOMAIN, "issuer": None}},
        {"service": {**REACHED, "callers": ["203.0.113.0/24"]}},
    ),
    Sample(
        "workspaces-of-same-site",
        "service.workspaceDomain",
        {"service": {**REACHED, "workspaceDomain": "workspaces.example.com"}},
        {"service": {**REACHED, "workspaceDomain": "workspaces.example.net"}},
    ),
    Sample(
        "workspaces-of-same-site",
        "service.workspaceDomain",
        {"service": {**REACHED, "domain": "a.example.co.uk", "workspaceDomain": "b.a.example.co.uk"}},
        {"service": {**REACHED, "domain": "a.example.co.uk", "workspaceDomain": "example-sandboxes.co.uk"}},
    ),
    Sample(
        "workspaces-of-same-site",
        "service.workspaceDomain",
        {"service": OWN_DOMAIN},
        {"service": {**REACHED, **OWN_DOMAIN}},
    ),
    Sample(
        "open-without-workspace-domain",
        "service.reach",
        {"service": OPEN},
        {"service": {**OPEN, **OWN_DOMAIN}},
    ),
    Sample(
        "open-without-workspace-domain",
        f"{CLASS}.sharing",
        {"service": REACHED, **one_class(sharing=["private", "link"])},
        {"service": REACHED, **one_class(sharing=["private", "team"])},
    ),
    Sample(
        "open-without-workspace-domain",
        f"{CLASS}.sharing",
        {"service": REACHED, **one_class(sharing=["public"])},
        {"service": {**REACHED, **OWN_DOMAIN}, **one_class(sharing=["public"])},
    ),
    Sample(
        "sign-in-without-issuer",
        "service.signIn",
        {"service": {**REACHED, "signIn": SIGN_IN}},
        {"service": {**REACHED, "signIn": SIGN_IN, "issuer": ISSUER}},
    ),
    Sample(
        "sign-in-without-issuer",
        "service.signIn",
        {"service": {"signIn": SIGN_IN, "issuer": ISSUER}},
        {"service": {"issuer": ISSUER}},
    ),
    Sample(
        "dns-zone-of-each-domain",
        "service.dns",
        {"service": {"dns": {"zone": ZONE}}},
        {"service": {**REACHED, "dns": {"zone": ZONE}}},
    ),
    Sample(
        "dns-zone-of-each-domain",
        "service.dns",
        {"service": {**REACHED, **OWN_DOMAIN, "dns": {"zone": ZONE}}},
        {"service": {**REACHED, **OWN_DOMAIN, "dns": {"zone": ZONE, "workspaceZone": OTHER_ZONE}}},
    ),
    Sample(
        "dns-zone-of-each-domain",
        "service.dns",
        {"service": {**REACHED, "dns": {"zone": ZONE, "workspaceZone": OTHER_ZONE}}},
        {"service": {**REACHED, "dns": {"zone": ZONE}}},
    ),
    Sample(
        "domain-without-service",
        "service.image",
        {"service": {**REACHED, "image": None}},
        {"service": {**REACHED, "image": None, "enabled": False}},
    ),
    Sample(
        "service-image-too-old",
        "service.image",
        {"service": {"image": IMAGE.replace("@", ":0.0.9@")}},
        {"service": {"image": IMAGE.replace("@", ":0.1.0@")}},
    ),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.constraint)
def test_each_sample_violates_its_constraint_only(sample: Sample) -> None:
    reported = mistakes_of(config(sample.refused, sample.region), sample.environment)
    rows = {
        constraint.id
        for mistake in reported
        for constraint in CONSTRAINTS
        if mistake.hint.startswith(f"{constraint.reason}; ")
    }
    assert rows == {sample.constraint}, reported
    path = sample.path if sample.path == "aws:region" else f"agent-environment:{sample.path}"
    assert [mistake.path for mistake in reported] == [path]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.constraint)
def test_each_valid_neighbour_passes(sample: Sample) -> None:
    assert mistakes(sample.sound, sample.environment) == []


def test_every_constraint_has_a_sample() -> None:
    assert {sample.constraint for sample in SAMPLES} == {constraint.id for constraint in CONSTRAINTS}


def test_constraints_have_unique_names() -> None:
    assert (
        len({constraint.id for constraint in CONSTRAINTS})
        == len({constraint.reason for constraint in CONSTRAINTS})
        == len(CONSTRAINTS)
    )
    assert all(constraint.reason and constraint.allowed and constraint.fix for constraint in CONSTRAINTS)


def test_an_open_endpoint_is_refused_in_production_only() -> None:
    assert mistakes({"cluster": {"publicAccessCidrs": ["0.0.0.0/0"]}}, "dev") == []


@pytest.mark.parametrize(
    ("cidr", "service", "fix"),
    [("172.20.0.0/16", "172.20.0.0/16", "10.100.0.0/16"), ("10.40.0.0/16", "10.40.0.0/20", "172.20.0.0/16")],
)
def test_the_fix_of_an_overlap_overlaps_nothing(cidr: str, service: str, fix: str) -> None:
    (mistake,) = mistakes({"network": {"cidr": cidr}, "cluster": {"serviceCidr": service}})
    assert mistake.hint.endswith(fix)
    assert mistakes({"network": {"cidr": cidr}, "cluster": {"serviceCidr": fix}}) == []


def test_every_class_of_a_cycle_is_reported() -> None:
    line = [sandbox("a", parent="b"), sandbox("b", parent="c"), sandbox("c", parent="a"), sandbox("d", parent="a")]
    found = mistakes({"sandboxClasses": line})
    assert [mistake.found for mistake in found] == [
        "a under b under c under a",
        "b under c under a under b",
        "c under a under b under c",
    ]


def test_a_class_that_exceeds_its_parent_is_reported_with_a_fix() -> None:
    (mistake,) = mistakes(under({"capabilities": ["web"]}, {"capabilities": ["git"]}))
    assert mistake.found == (
        "child under parent: may reach 1.0.0.0 on TCP port 22 (of 1.0.0.0 to 9.255.255.255), which its parent may not"
    )
    (mistake,) = mistakes(under({}, {"capabilities": [{"cidr": "54.1.2.3/32", "ports": [22]}]}))
    assert mistake.found == (
        "child under parent: whether it may reach more than its parent depends on the addresses of the API server"
    )


def test_a_class_is_compared_with_all_ancestors() -> None:
    line = [
        sandbox("a", capabilities=["web"]),
        sandbox("b", parent="a", capabilities=["web", "packages"]),
        sandbox("c", parent="b", capabilities=["web", "dns"]),
        sandbox("d", parent="c", capabilities=["dns"]),
    ]
    (mistake,) = mistakes({"sandboxClasses": line})
    assert (mistake.path, mistake.found.partition(":")[0]) == (
        "agent-environment:sandboxClasses[2].capabilities",
        "c under b",
    )


def test_invalid_values_are_not_compared() -> None:
    found = mistakes(under({"capabilities": ["wep"]}, {"capabilities": ["web"]}))
    assert [mistake.path for mistake in found] == ["agent-environment:sandboxClasses[0].capabilities[0]"]


def test_an_unknown_class_name_has_the_nearest_as_hint() -> None:
    (mistake,) = mistakes({"sandboxClasses": [sandbox("reviewer"), sandbox("b", parent="reviwer")]})
    assert "did you mean 'reviewer'?" in mistake.hint


def test_a_secret_in_env_is_not_repeated() -> None:
    (mistake,) = mistakes(one_class(env=[{"name": "PLAIN", "value": "ghp_" + "x" * 36}]))
    assert "ghp_" not in str(mistake)

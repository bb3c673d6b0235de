"""A platform made by hand, as a branch would break it: each case is right unless the configuration names it.

Everything hangs on a cluster and file systems that do not exist yet, so that no id is known. The twelfth case is not in
here: it is a waiver that has expired, in `waivers.yaml` beside.
"""

from collections.abc import Callable
from typing import Any

import pulumi
from parts import IMAGE, OPEN, TAGS, WEB, namespace, pod, policy, sandbox, template
from pulumi_aws import efs, eks, kms
from pulumi_kubernetes import Provider
from pulumi_kubernetes.apiextensions import CustomResource

BROKEN = set(pulumi.Config("broken").require_object("cases"))

key = kms.Key("key", description="homes", tags=TAGS)
cluster = eks.Cluster(
    "cluster",
    role_arn="arn:aws:iam::123456789012:role/cluster",
    enabled_cluster_log_types=["api", "audit", "authenticator", "controllerManager", "scheduler"],
    vpc_config={
        "subnet_ids": ["subnet-1", "subnet-2"],
        "endpoint_private_access": True,
        "endpoint_public_access": "public-endpoint" in BROKEN,
    },
    tags=TAGS,
)
api = pulumi.ResourceOptions(provider=Provider("api", kubeconfig=cluster.endpoint))
system = efs.FileSystem(
    "file-system", encrypted=True, kms_key_id=key.arn, tags=None if "untagged-file-system" in BROKEN else TAGS
)


def privileged_sandbox(broken: bool) -> None:
    """A container with all of the node."""
    namespace("privileged", api)
    policy("privileged", api)
    sandbox("privileged-sandbox", "privileged", api, pod(privileged=broken))


def metadata_reachable(broken: bool) -> None:
    """A policy that leaves the metadata address out of what it leaves out."""
    namespace("metadata", api)
    ranges = {"cidr": "0.0.0.0/0", "except": [*(WEB["except"] if not broken else WEB["except"][1:])]}
    policy("metadata", api, [{"to": [{"ipBlock": ranges}], "ports": [{"port": 443, "protocol": "TCP"}]}])
    sandbox("metadata-sandbox", "metadata", api, pod())


def point(name: str, uid: int, path: str) -> None:
    """The access point of a user's home."""
    efs.AccessPoint(
        name,
        file_system_id=system.id,
        posix_user={"uid": uid, "gid": uid},
        root_directory={"path": path, "creation_info": {"owner_uid": uid, "owner_gid": uid, "permissions": "0700"}},
        tags={**TAGS, "sandbox-user": name, "sandbox-class": name},
    )


def root_access_point(broken: bool) -> None:
    """A home that is the whole file system."""
    point("root-access-point", 20_001, "/" if broken else "/homes/root")


def shared_uid(broken: bool) -> None:
    """Two users of whom each is the other one to the file system."""
    point("shared-uid-ann", 20_002, "/homes/ann")
    point("shared-uid-bob", 20_002 if broken else 20_003, "/homes/bob")


def shared_kernel(broken: bool) -> None:
    """An untrusted class on the node's own kernel."""
    namespace("kernel", api, tier="untrusted")
    policy("kernel", api)
    runtime = {} if broken else {"runtimeClassName": "kata"}
    template("kernel-template", "kernel", api, {**pod(), **runtime}, tier="untrusted")


def policy_for_nobody(broken: bool) -> None:
    """A policy whose selector is off by a letter."""
    namespace("nobody", api)
    label = {"sandbox.users.io/class": "nobdy" if broken else "nobody"}
    policy("nobody", api, selector={"matchLabels": label})
    template("nobody-template", "nobody", api, pod())


def fargate_by_policy(broken: bool) -> None:
    """A class on Fargate, where nothing enforces a NetworkPolicy."""
    namespace("fargate", api)
    policy("fargate", api)
    eks.FargateProfile(
        "fargate-profile",
        cluster_name=cluster.name,
        pod_execution_role_arn="arn:aws:iam::123456789012:role/pods",
        subnet_ids=["subnet-1"],
        selectors=[{"namespace": "sandbox-fargate"}],
        tags=TAGS,
    )
    template("fargate-template", "fargate", api, pod())
    if not broken:
        CustomResource(
            "fargate-groups",
            api_version="vpcresources.k8s.aws/v1beta1",
            kind="SecurityGroupPolicy",
            metadata={"name": "groups", "namespace": "sandbox-fargate"},
            spec={"podSelector": {}, "securityGroups": {"groupIds": [cluster.vpc_config.cluster_security_group_id]}},
            opts=api,
        )


def untagged_file_system(broken: bool) -> None:
    """The file system above: nobody's."""


def pool_over_its_cap(broken: bool) -> None:
    """More warm sandboxes than anybody agreed to."""
    namespace("pool", api)
    policy("pool", api)
    template("pool-template", "pool", api, pod())
    CustomResource(
        "pool-of-warm-ones",
        api_version="extensions.agents.x-k8s.io/v1beta1",
        kind="SandboxWarmPool",
        metadata={"name": "pool", "namespace": "sandbox-pool"},
        spec={"replicas": 5000 if broken else 5, "sandboxTemplateRef": {"name": "pool-template"}},
        opts=api,
    )


def child_over_its_parent(broken: bool) -> None:
    """A class that reaches what its parent may not."""
    for name, egress in (("parent", []), ("child", OPEN if broken else [])):
        namespace(name, api)
        policy(name, api, egress)
        template(f"{name}-template", name, api, pod(), parent="parent" if name == "child" else None)


def public_endpoint(broken: bool) -> None:
    """The cluster above: open to the world."""


CASES: tuple[Callable[[bool], None], ...] = (
    privileged_sandbox,
    metadata_reachable,
    root_access_point,
    shared_uid,
    shared_kernel,
    policy_for_nobody,
    fargate_by_policy,
    untagged_file_system,
    pool_over_its_cap,
    child_over_its_parent,
    public_endpoint,
)
names: dict[str, Any] = {case.__name__.replace("_", "-"): case for case in CASES}
if unknown := BROKEN - set(names):
    raise pulumi.RunError(f"no such case: {sorted(unknown)}; there are {sorted(names)}")
for name, case in names.items():
    case(name in BROKEN)
pulumi.export("image", IMAGE)

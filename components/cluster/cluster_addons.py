"""Add-ons that run on nodes: the storage driver's controller and what measures the cluster.

They come up after `Capacity`, which makes a place for them, and go before it: whoever makes this says so by
`depends_on`. Daemons that come with each node, and CoreDNS, are the cluster's own.
"""

from typing import Any, NotRequired, TypedDict

import pulumi

from agentenv.components._lib import iam_policies
from agentenv.components._lib.arguments import ArgumentReader
from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.namespace_network_policy import (
    API,
    DNS,
    Ports,
    create_network_policy,
    network_policy_spec,
)
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocument, Reference, placeholder_file_system_arn
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.addons import EFS_CONTROLLER, EFS_NODE, Builds, Installer
from agentenv.components.cluster.irsa import Roles
from agentenv.core.classes.storage_classes import DRIVER_MARK

MEASURES = "kube-state-metrics"


class ClusterAddonsArgs(TypedDict):
    """What the add-ons are made from."""

    ownership: Ownership
    """Whose they are."""

    cluster_name: str
    """The cluster they are installed in."""

    version: str
    """Its Kubernetes version."""

    addon_versions: NotRequired[dict[str, str]]
    """Builds by name, where they are to differ from those that are pinned."""

    file_system_arns: pulumi.Input[list[pulumi.Input[str]]]
    """The file systems in which the storage driver makes access points."""

    efs_node_role_arn: pulumi.Input[str]
    """The role that mounts them, which the file systems know."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of every role that is made."""


class ClusterAddons(pulumi.ComponentResource):
    """The storage driver, the metrics server and kube-state-metrics, with what their namespaces let through."""

    efs_controller_role_arn: pulumi.Output[str]
    """The role that makes access points; it cannot mount."""

    def __init__(self, name: str, args: ClusterAddonsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Install them; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("addons", args, ClusterAddonsArgs)
        labels = Labels.of(reader, "cluster", name)
        cluster = reader.text("cluster_name")
        builds = Builds.of(reader, reader.text("version"))
        boundary = reader.text("permissions_boundary") if reader.has("permissions_boundary") else None

        super().__init__("agent-environment:index:ClusterAddons", name, {}, opts)
        aws, child = aws_context(self), child_options(self, opts)
        roles = Roles(labels, child, boundary)
        addons = Installer(cluster, builds, labels, child)

        # Before what they are for: a pod that starts without its policy is cut off, and never becomes ready.
        system = create_network_policy(
            f"{name}-system",
            "kube-system",
            # The metrics API, asked by the control plane; kubelets, asked by it; AWS, the API and names.
            network_policy_spec((Ports(10250, 10251),), (*API, *DNS, Ports(10250)), identities=True),
            child,
        )
        space = create_restricted_namespace(f"{name}-measures", MEASURES, child)
        measures = create_network_policy(
            f"{name}-measures", space.metadata.name, network_policy_spec((Ports(8080, 8081),), (*API, *DNS)), child
        )

        driver = roles.pod_identity_role("efs-controller", "Makes access points", aws, cluster, EFS_CONTROLLER)
        may_make = roles.add_policy(
            driver,
            "make-access-points",
            PlannedDocument(
                aws,
                _driver,
                (Reference(args["file_system_arns"], lambda context: [placeholder_file_system_arn(context)]),),
            ),
        )
        addons.install(
            "aws-efs-csi-driver",
            after=[system, may_make],
            agent_roles={EFS_CONTROLLER: driver.arn, EFS_NODE: args["efs_node_role_arn"]},
        )
        addons.install("metrics-server", after=[system])
        addons.install(MEASURES, after=[measures])

        self.efs_controller_role_arn = driver.arn
        outputs = {output: getattr(self, output) for output in ClusterAddons.__annotations__}
        self.register_outputs({**outputs, OUTPUT: roles.planned_documents.entries})


def _driver(aws: AwsContext, file_systems: list[str]) -> Document:
    """What the storage driver's controller does: it makes access points in these file systems, and deletes its own."""
    points = aws.arn("elasticfilesystem", "access-point/*")
    known: Any = sorted(file_systems)
    return iam_policies.document(
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": [
                "elasticfilesystem:DescribeAccessPoints",
                "elasticfilesystem:DescribeFileSystems",
                "elasticfilesystem:DescribeMountTargets",
            ],
            "Resource": [*known, points],
        },
        {"Sid": "Zones", "Effect": "Allow", "Action": "ec2:DescribeAvailabilityZones", "Resource": "*"},
        {
            "Sid": "Make",
            "Effect": "Allow",
            "Action": "elasticfilesystem:CreateAccessPoint",
            "Resource": known,
            "Condition": {"StringEquals": {f"aws:RequestTag/{DRIVER_MARK}": "true"}},
        },
        {
            "Sid": "MarkWhatItMakes",
            "Effect": "Allow",
            "Action": "elasticfilesystem:TagResource",
            "Resource": points,
            "Condition": {
                "StringEquals": {
                    "elasticfilesystem:CreateAction": "CreateAccessPoint",
                    f"aws:RequestTag/{DRIVER_MARK}": "true",
                }
            },
        },
        {
            "Sid": "DeleteItsOwn",
            "Effect": "Allow",
            "Action": "elasticfilesystem:DeleteAccessPoint",
            "Resource": points,
            "Condition": {"StringEquals": {f"aws:ResourceTag/{DRIVER_MARK}": "true"}},
        },
    )

"""CoreDNS, and the add-ons that run on nodes: the EFS CSI driver, the metrics server and kube-state-metrics.

They need the nodes of `Capacity`: pass it as `depends_on`. `Cluster` installs the DaemonSets of nodes.

CoreDNS runs on Fargate, and comes after Karpenter all the same: a pod that is created in the first moments of a Fargate
profile can miss the webhook that sends it there, and then stays Pending.
"""

from collections.abc import Sequence
from typing import Any

import pulumi

from agentenv.components._lib.aws_context import AwsContext, aws_context
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.namespace_network_policy import (
    API,
    DNS,
    Ports,
    Rule,
    create_network_policy,
    network_policy_spec,
)
from agentenv.components._lib.namespaces import create_restricted_namespace
from agentenv.components._lib.options import child_options, component_outputs
from agentenv.components._lib.planned_documents import OUTPUT, PlannedDocument, Reference, placeholder_file_system_arn
from agentenv.components._lib.tags import Labels
from agentenv.components.cluster.addons import EFS_CONTROLLER, EFS_NODE, Installer
from agentenv.components.cluster.irsa import Roles
from agentenv.core.classes.storage_classes import DRIVER_MARK
from agentenv.core.iam.documents import policy_document
from agentenv.core.plan import ClusterPlan

KUBE_STATE_METRICS = "kube-state-metrics"


class ClusterAddons(pulumi.ComponentResource):
    """CoreDNS and the add-ons on nodes, with the network policies of their namespaces."""

    efs_controller_role_arn: pulumi.Output[str]
    """The role that creates access points; it cannot mount."""

    def __init__(
        self,
        name: str,
        plan: ClusterPlan,
        file_system_arns: pulumi.Input[Sequence[pulumi.Input[str]]],
        efs_node_role_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Install them; the role mounts the file systems, as their policies allow."""
        labels = Labels.of(plan.environment, "cluster", name)

        super().__init__("agent-environment:index:ClusterAddons", name, {}, opts)
        aws, child, cluster = aws_context(self), child_options(self, opts), plan.environment.cluster_name
        roles = Roles(labels, child, plan.environment.permissions_boundary)
        addons = Installer(cluster, plan.addon_builds, labels, child)

        # Created before the add-ons: without its network policy a pod has no traffic, and never becomes ready.
        system_policy = create_network_policy(
            f"{name}-system",
            "kube-system",
            _system_policy(adopted=plan.settings.existing is not None),
            child,
        )
        namespace = create_restricted_namespace(f"{name}-measures", KUBE_STATE_METRICS, child)
        measures_policy = create_network_policy(
            f"{name}-measures", namespace.metadata.name, network_policy_spec((Ports(8080, 8081),), (*API, *DNS)), child
        )

        driver = roles.pod_identity_role("efs-controller", "Makes access points", aws, cluster, EFS_CONTROLLER)
        policy = roles.add_policy(
            driver,
            "make-access-points",
            PlannedDocument(
                aws,
                _driver,
                (Reference(file_system_arns, lambda context: [placeholder_file_system_arn(context)]),),
            ),
        )
        dns = [] if plan.settings.existing else [addons.install("coredns")]
        addons.install(
            "aws-efs-csi-driver",
            after=[system_policy, policy, *dns],
            agent_roles={EFS_CONTROLLER: driver.arn, EFS_NODE: efs_node_role_arn},
        )
        addons.install("metrics-server", after=[system_policy, *dns])
        addons.install(KUBE_STATE_METRICS, after=[measures_policy, *dns])

        self.efs_controller_role_arn = driver.arn
        self.register_outputs({**component_outputs(self), OUTPUT: roles.planned_documents.entries})


def _system_policy(*, adopted: bool) -> Rule:
    """Return the network policy of kube-system.

    In: the metrics API from the control plane, and DNS for CoreDNS on nodes. Out: kubelets, AWS, the Kubernetes API and
    DNS. In an adopted cluster it selects the add-ons of the environment only: CoreDNS and the other pods there belong
    to the owner, and would be cut off from what they serve.
    """
    applications = ("aws-efs-csi-driver", "metrics-server") if adopted else ()
    return network_policy_spec(
        (Ports(10250, 10251), *DNS), (*API, *DNS, Ports(10250)), identities=True, applications=applications
    )


def _driver(aws: AwsContext, file_systems: list[str]) -> Document:
    """Return the policy of the EFS CSI controller: create access points in these file systems, and delete its own."""
    access_points = aws.arn("elasticfilesystem", "access-point/*")
    arns: Any = sorted(file_systems)
    return policy_document(
        {
            "Sid": "Look",
            "Effect": "Allow",
            "Action": [
                "elasticfilesystem:DescribeAccessPoints",
                "elasticfilesystem:DescribeFileSystems",
                "elasticfilesystem:DescribeMountTargets",
            ],
            "Resource": [*arns, access_points],
        },
        {"Sid": "Zones", "Effect": "Allow", "Action": "ec2:DescribeAvailabilityZones", "Resource": "*"},
        {
            "Sid": "Make",
            "Effect": "Allow",
            "Action": "elasticfilesystem:CreateAccessPoint",
            "Resource": arns,
            "Condition": {"StringEquals": {f"aws:RequestTag/{DRIVER_MARK}": "true"}},
        },
        {
            "Sid": "MarkWhatItMakes",
            "Effect": "Allow",
            "Action": "elasticfilesystem:TagResource",
            "Resource": access_points,
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
            "Resource": access_points,
            "Condition": {"StringEquals": {f"aws:ResourceTag/{DRIVER_MARK}": "true"}},
        },
    )

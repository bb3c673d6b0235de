"""The daily job that looks how large homes are, with the one place where all homes of a class are mounted.

In the order it comes to life: what it is to AWS, its namespace with the policy of what it may reach, its account and
rights, for each folder an access point with a volume and a claim to read only, and the jobs. The workspace service has
no part in it, and nothing of it leads to the service.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import efs
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.arguments import ArgumentError, Plain
from agentenv.components._lib.aws_context import Whereabouts, whereabouts
from agentenv.components._lib.iam_policies import Document
from agentenv.components._lib.kubernetes_objects import written
from agentenv.components._lib.namespace_network_policy import API, DNS, let_through, work
from agentenv.components._lib.namespaces import restricted
from agentenv.components._lib.options import children_of, inner_of, outputs_of
from agentenv.components._lib.planned_documents import OUTPUT, Name, Planned, file_system_id
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.components.cluster.irsa import Bearer, Issuer, Roles
from agentenv.components.settings_argument import settings_of
from agentenv.config import Settings
from agentenv.core.service import home_metering as plan
from agentenv.core.service.home_metering import NAME, Looked, Pass
from agentenv.core.service.rbac import role as rights_of

BEARER = Bearer(NAME, NAME)


class StorageMeteringArgs(TypedDict):
    """What the job is made from."""

    ownership: Ownership
    """Whose the environment is."""

    settings: dict[str, Any]
    """The settings of its environment, as a stack file has them under `config`."""

    issuer_url: pulumi.Input[str]
    """Who signs the tokens of the cluster's service accounts."""

    issuer_arn: pulumi.Input[str]
    """The same, as an identity provider of IAM."""

    file_system_ids: pulumi.Input[list[str]]
    """The file systems that homes are on, by shard."""

    permissions_boundary: NotRequired[str]
    """The permissions boundary of its role."""


class StorageMetering(pulumi.ComponentResource):
    """A CronJob a file system, with its namespace, rights, role and what it has mounted."""

    namespace: pulumi.Output[str]
    """The namespace it runs in, once it is there."""

    role_arn: pulumi.Output[str]
    """What it is to AWS."""

    access_point_ids: pulumi.Output[list[str]]
    """The access points by which it looks: each leads to all homes of a class, or to a seat's."""

    jobs: pulumi.Output[list[str]]
    """The CronJobs, by name."""

    def __init__(self, name: str, args: StorageMeteringArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        given = Plain.of("storage_metering", args, StorageMeteringArgs)
        self._labels = Labels.of(given, NAME, name)
        settings = settings_of(given)
        passes = plan.passes(settings)
        if not passes:
            wanted = "settings with homes, a service with an image, and cost.storageMetering.enabled"
            raise ArgumentError("storage_metering.settings", "nothing to look at", wanted)
        boundary = given.text("permissions_boundary") if given.has("permissions_boundary") else None

        super().__init__("agent-environment:index:StorageMetering", name, {}, opts)
        self._name, self._systems = name, pulumi.Output.from_input(args["file_system_ids"])
        outer, self._child = children_of(self, opts), inner_of(self)
        place = whereabouts(self)
        roles = Roles(self._labels, outer, boundary)
        issuer = Issuer(pulumi.Output.from_input(args["issuer_arn"]), pulumi.Output.from_input(args["issuer_url"]))
        role = roles.for_tokens("role", "Looks how large homes are", issuer, BEARER)
        may = roles.may(role, "look", Planned(place, _rights, (Name(self._systems, lambda at: [file_system_id(at)]),)))

        space = restricted(f"{name}-namespace", NAME, outer)
        inside = pulumi.ResourceOptions(depends_on=[space])
        passage = let_through(name, space.metadata.name, work((), (*API, *DNS)), lambda: self._child(inside))
        allowed = self._allowed({"eks.amazonaws.com/role-arn": role.arn}, inside)
        points: list[efs.AccessPoint] = []
        for one in passes:
            mounted: list[pulumi.Resource] = []
            for looked in one.looked:
                points.append(point := self._point(looked))
                mounted.append(self._mounted(looked, point, inside))
            self._job(one, settings, place, [passage, may, *allowed, *mounted])

        self.namespace = space.metadata.name
        self.role_arn = role.arn
        self.access_point_ids = pulumi.Output.all(*(point.id for point in points))
        self.jobs = pulumi.Output.from_input([one.name for one in passes])
        self.register_outputs({**outputs_of(self), OUTPUT: roles.promises.made})

    def _allowed(self, annotations: dict[str, Any], inside: pulumi.ResourceOptions) -> list[pulumi.Resource]:
        """Its account, and what it may do in the cluster."""
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": False}
        about = {"name": NAME, "namespace": NAME, "annotations": annotations}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAME}],
        }
        made: list[pulumi.Resource] = [
            written(f"{self._name}-account", {**account, "metadata": about}, self._child, inside),
            written(f"{self._name}-look", rights_of("ClusterRole", NAME, plan.rights()), self._child, inside),
        ]
        bound = pulumi.ResourceOptions(depends_on=made)
        return [*made, written(f"{self._name}-look", binding, self._child, bound)]

    def _point(self, looked: Looked) -> efs.AccessPoint:
        """The access point of a folder. It holds no data, and goes with the stack; the folder stays."""
        return efs.AccessPoint(
            f"{self._name}-{looked.shard}-{looked.name}",
            file_system_id=self._systems.apply(lambda ids: ids[looked.shard]),
            posix_user={"uid": looked.uid, "gid": looked.uid},
            root_directory={
                "path": looked.path,
                "creation_info": {"owner_uid": looked.uid, "owner_gid": looked.uid, "permissions": "0700"},
            },
            tags=self._labels.tags(f"{looked.shard}-{looked.name}", **looked.tags),
            opts=self._child(),
        )

    def _mounted(
        self, looked: Looked, point: efs.AccessPoint, inside: pulumi.ResourceOptions
    ) -> core.PersistentVolumeClaim:
        """The volume of an access point and the claim of it; neither can be led elsewhere, and both are made anew."""
        anew = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec"])
        elsewhere = pulumi.ResourceOptions(delete_before_replace=True, replace_on_changes=["spec.csi"])
        document = plan.volume(looked, pulumi.Output.format("{0}::{1}", point.file_system_id, point.id))
        volume = core.PersistentVolume(
            f"{self._name}-{looked.shard}-{looked.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(elsewhere),
        )
        document = plan.claim(looked)
        # By reference, so that the engine takes the claim away before it takes away its volume.
        document["spec"]["volumeName"] = volume.metadata.name
        return core.PersistentVolumeClaim(
            f"{self._name}-{looked.shard}-{looked.name}",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(pulumi.ResourceOptions.merge(inside, anew)),
        )

    def _job(
        self, one: Pass, settings: Settings, place: pulumi.Output[Whereabouts], after: Sequence[pulumi.Resource]
    ) -> None:
        system = self._systems.apply(lambda ids: ids[one.shard])
        document = plan.job(one, settings, system, place.apply(lambda at: at.region))
        written(f"{self._name}-{one.name}", document, self._child, pulumi.ResourceOptions(depends_on=list(after)))


def _rights(place: Whereabouts, systems: Sequence[str]) -> Document:
    """The policy of its role."""
    arns = [place.arn("elasticfilesystem", f"file-system/{one}") for one in systems]
    return plan.aws_rights(arns, place.arn("elasticfilesystem", "access-point/*"))

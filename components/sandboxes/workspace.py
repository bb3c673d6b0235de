"""A declared workspace, also called a seat: it always exists, and its files outlive it.

Creates, in this order: an access point that enforces the seat's uid, gid and folder; a volume of it, reserved for one
claim; the claim, bound before there is a pod, as Fargate requires; and a sandbox of its class with the seat's ids. It
is in no warm pool. A new release of its class applies to its next pod and restarts none.

When a seat is removed from the stack, its access point is retained, with tags that name the owner of its data. The same
seat of the same user gets its files back. The same seat of another user raises before anything is registered.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_aws import efs, resourcegroupstaggingapi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components._lib.tags import Labels
from agentenv.core.environment import EnvironmentFacts
from agentenv.core.workspaces import seats
from agentenv.core.workspaces.seats import SeatPlan

COMPONENT = "workspace"


class Workspace(pulumi.ComponentResource):
    """An access point, a volume, its claim and a sandbox."""

    access_point_id: pulumi.Output[str]
    """The access point."""

    uid: pulumi.Output[int]
    """The uid and gid that it runs as."""

    path: pulumi.Output[str]
    """Its folder on the file system."""

    def __init__(
        self,
        name: str,
        seat: SeatPlan,
        environment: EnvironmentFacts,
        *,
        file_system_id: pulumi.Input[str],
        template: dict[str, Any],
        namespace: pulumi.Input[str] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Create it on a file system, which must not change, from the template of its class's seats.

        The namespace of its class is an output that depends on the class's constraints; by default it is assumed to
        exist.
        """
        labels = Labels.of(environment, COMPONENT, name)

        super().__init__("agent-environment:index:Workspace", name, {}, opts)
        self._name = name
        self._child, self._child_without_dependencies = (
            child_options(self, opts),
            child_options_without_dependencies(self),
        )
        point = self._point(seat, labels, file_system_id, protected=environment.keep_data)
        self._namespace = namespace or seat.namespace
        volume = self._volume(seat, pulumi.Output.format("{0}::{1}", file_system_id, point.id))
        self._sandbox(seat, template, volume, self._claim(seat, volume))

        self.access_point_id = point.id
        self.uid = pulumi.Output.from_input(seat.uid)
        self.path = pulumi.Output.from_input(seat.path)
        self.register_outputs(component_outputs(self))

    def _point(self, seat: SeatPlan, labels: Labels, system: pulumi.Input[str], *, protected: bool) -> efs.AccessPoint:
        return efs.AccessPoint(
            self._name,
            file_system_id=system,
            posix_user={"uid": seat.uid, "gid": seat.uid},
            root_directory={
                "path": seat.path,
                "creation_info": {"owner_uid": seat.uid, "owner_gid": seat.uid, "permissions": "0700"},
            },
            tags=labels.tags("", **seat.tags),
            opts=self._child(pulumi.ResourceOptions(protect=protected or None, retain_on_delete=not seat.destroy_data)),
        )

    def _volume(self, seat: SeatPlan, handle: pulumi.Input[str]) -> core.PersistentVolume:
        document = seats.volume(seat, handle)
        document["spec"]["claimRef"]["namespace"] = self._namespace
        return core.PersistentVolume(
            f"{self._name}-volume",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(
                pulumi.ResourceOptions(
                    delete_before_replace=True,
                    # The volume controller records the bound claim in `claimRef`, and an update keeps that record.
                    # So for a claim in another namespace the volume must be replaced.
                    replace_on_changes=["spec.csi", "spec.claimRef"],
                    # A bound volume without a StorageClass cannot be resized.
                    ignore_changes=["spec.capacity"],
                )
            ),
        )

    def _claim(self, seat: SeatPlan, volume: core.PersistentVolume) -> core.PersistentVolumeClaim:
        document = seats.claim(seat)
        # An output of the volume, so that the claim is deleted before it.
        document["spec"]["volumeName"] = volume.metadata.name
        metadata: Any = {**document["metadata"], "namespace": self._namespace}
        return core.PersistentVolumeClaim(
            f"{self._name}-claim",
            metadata=metadata,
            spec=document["spec"],
            opts=self._child_without_dependencies(
                pulumi.ResourceOptions(
                    delete_before_replace=True, replace_on_changes=["spec"], ignore_changes=["spec.resources"]
                )
            ),
        )

    def _sandbox(
        self,
        seat: SeatPlan,
        template: dict[str, Any],
        volume: core.PersistentVolume,
        claim: core.PersistentVolumeClaim,
    ) -> CustomResource:
        document = seats.sandbox(seat, template)
        annotations = {
            **document["metadata"].get("annotations", {}),
            # Its pod uses the claim: foreground deletion awaits the pod.
            "pulumi.com/deletionPropagationPolicy": "foreground",
        }
        return CustomResource(
            f"{self._name}-sandbox",
            api_version=document["apiVersion"],
            kind=document["kind"],
            metadata={**document["metadata"], "namespace": self._namespace, "annotations": annotations},
            spec=document["spec"],
            opts=self._child_without_dependencies(
                pulumi.ResourceOptions(
                    depends_on=[claim],
                    delete_before_replace=True,
                    # A pod keeps the volume that it was started with, so a new volume needs a new pod.
                    replace_with=[volume],
                )
            ),
        )


class SeatConflictError(pulumi.RunError):
    """Seats that cannot be created as declared: all of them at once, each with a fix."""

    def __init__(self, conflicts: Sequence[str]) -> None:
        lines = "\n".join(f"  {conflict}" for conflict in conflicts)
        super().__init__(f"declared workspaces cannot be created:\n{lines}")


def check_seat_conflicts(planned: Sequence[SeatPlan], environment: str, invoke_options: pulumi.InvokeOptions) -> None:
    """Raise if a seat conflicts with another seat, or with retained data of another user. Call this first."""
    if not planned:
        return
    if conflicts := seats.duplicate_seats(planned):
        raise SeatConflictError(conflicts)
    if conflicts := seats.conflicting_seats(planned, seats.retained_seats(_tagged(environment, invoke_options))):
        raise SeatConflictError(conflicts)


def _tagged(environment: str, invoke_options: pulumi.InvokeOptions) -> dict[str, Any]:
    """Return the access points of all current and former seats of the environment, with their tags."""
    filters: list[Any] = [
        {"key": "environment", "values": [environment]},
        {"key": "component", "values": [COMPONENT]},
        # Any value: the API accepts too few values to list every seat.
        {"key": seats.SEAT_TAG},
    ]
    try:
        response = resourcegroupstaggingapi.get_resources(
            resource_type_filters=["elasticfilesystem:access-point"], tag_filters=filters, opts=invoke_options
        )
    except Exception as error:  # noqa: BLE001 - the engine raises nothing more exact
        message = str(error).rpartition("returned an error: ")[2].rstrip(".")
        conflict = f"the owners of retained data cannot be read: {message}; allow the caller tag:GetResources"
        raise SeatConflictError([conflict]) from None
    return {mapping.resource_arn: mapping.tags for mapping in response.resource_tag_mapping_lists}

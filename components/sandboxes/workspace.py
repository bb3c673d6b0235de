"""A declared workspace: a seat that is always there, with files of its own that outlive it.

In the order it comes to life: an access point that enforces the seat's user, group and folder; a volume that leads to
it and is kept for one claim; the claim, bound before there is a pod, as Fargate wants it; and a sandbox of its class
with the seat's ids. It is in no pool: a new release of its class changes what its next pod is made from and ends none.

Taken out of the stack, a seat leaves its access point behind, with tags that say whose data it leads to: the same seat
of the same user finds its files again, and anybody else is refused under that name, before anything is registered.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_aws import efs, resourcegroupstaggingapi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core import v1 as core

from agentenv.components._lib.arguments import ArgumentError, ArgumentReader
from agentenv.components._lib.options import child_options, child_options_without_dependencies, component_outputs
from agentenv.components._lib.tags import Labels, Ownership
from agentenv.config.settings import is_production
from agentenv.core.workspaces import seats
from agentenv.core.workspaces.seats import SeatPlan

COMPONENT = "workspace"


class SeatLayout(TypedDict):
    """What a seat is."""

    name: str
    """Its name; uid and gid follow from it."""

    sandbox_class: str
    """Its class."""

    user: str
    """Whose it is: an opaque id."""

    size: str
    """The size of its volume; it stays as it was made, and EFS does not enforce it."""

    mount_path: str
    """Where its files are mounted."""

    mode: NotRequired[str]
    """What it is for: `user` unless told."""

    budget: NotRequired[str]
    """Dollars a month; none unless told."""

    destroy_data: NotRequired[bool]
    """Whether its access point goes with it; false unless told."""


class WorkspaceArgs(TypedDict):
    """What a declared workspace is made from."""

    ownership: Ownership
    """Whose the environment is."""

    seat: SeatLayout
    """What it is."""

    file_system_id: pulumi.Input[str]
    """Where its files are: the first file system, whatever is added to it later."""

    template: dict[str, Any]
    """The specification of its class's SandboxTemplate."""

    namespace: NotRequired[pulumi.Input[str]]
    """The namespace of its class, once a sandbox may be made in it; taken to be there unless told."""

    keep_data: NotRequired[bool]
    """Whether its access point is protected; true in `prod` unless told."""


class Workspace(pulumi.ComponentResource):
    """An access point, a volume, its claim and a sandbox."""

    access_point_id: pulumi.Output[str]
    """The access point."""

    uid: pulumi.Output[int]
    """The user and group that it runs as."""

    path: pulumi.Output[str]
    """Its folder on the file system."""

    def __init__(self, name: str, args: WorkspaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make it; a wrong plain argument raises before anything is made."""
        reader = ArgumentReader.of("workspace", args, WorkspaceArgs)
        layout = reader.part("seat", SeatLayout)
        seat = read_seat(layout)
        labels = Labels.of(reader, COMPONENT, name)
        kept = reader.flag("keep_data", default=is_production(labels.environment))
        destroyed = layout.flag("destroy_data", default=False)

        super().__init__("agent-environment:index:Workspace", name, {}, opts)
        self._name = name
        self._child, self._inner = child_options(self, opts), child_options_without_dependencies(self)
        point = self._point(seat, labels, args["file_system_id"], kept=kept, destroyed=destroyed)
        self._space = args.get("namespace") or seat.namespace
        volume = self._volume(seat, pulumi.Output.format("{0}::{1}", args["file_system_id"], point.id))
        self._sandbox(seat, args["template"], volume, self._claim(seat, volume))

        self.access_point_id = point.id
        self.uid = pulumi.Output.from_input(seat.uid)
        self.path = pulumi.Output.from_input(seat.path)
        self.register_outputs(component_outputs(self))

    def _point(
        self, seat: SeatPlan, labels: Labels, system: pulumi.Input[str], *, kept: bool, destroyed: bool
    ) -> efs.AccessPoint:
        return efs.AccessPoint(
            self._name,
            file_system_id=system,
            posix_user={"uid": seat.uid, "gid": seat.uid},
            root_directory={
                "path": seat.path,
                "creation_info": {"owner_uid": seat.uid, "owner_gid": seat.uid, "permissions": "0700"},
            },
            tags=labels.tags("", **seat.tags),
            opts=self._child(pulumi.ResourceOptions(protect=kept or None, retain_on_delete=not destroyed)),
        )

    def _volume(self, seat: SeatPlan, handle: pulumi.Input[str]) -> core.PersistentVolume:
        document = seats.volume(seat, handle)
        document["spec"]["claimRef"]["namespace"] = self._space
        return core.PersistentVolume(
            f"{self._name}-volume",
            metadata=document["metadata"],
            spec=document["spec"],
            opts=self._child(
                pulumi.ResourceOptions(
                    delete_before_replace=True,
                    # The binder wrote down which claim it is bound to, and a change of ours leaves that there: for a
                    # claim in another namespace the volume would be another one's for ever.
                    replace_on_changes=["spec.csi", "spec.claimRef"],
                    # Once bound a volume of no StorageClass keeps its size.
                    ignore_changes=["spec.capacity"],
                )
            ),
        )

    def _claim(self, seat: SeatPlan, volume: core.PersistentVolume) -> core.PersistentVolumeClaim:
        document = seats.claim(seat)
        # By reference, so that the engine takes the claim away before it takes away its volume.
        document["spec"]["volumeName"] = volume.metadata.name
        about: Any = {**document["metadata"], "namespace": self._space}
        return core.PersistentVolumeClaim(
            f"{self._name}-claim",
            metadata=about,
            spec=document["spec"],
            opts=self._inner(
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
            # Its pod holds on to the claim: the sandbox has gone only when the pod has.
            "pulumi.com/deletionPropagationPolicy": "foreground",
        }
        return CustomResource(
            f"{self._name}-sandbox",
            api_version=document["apiVersion"],
            kind=document["kind"],
            metadata={**document["metadata"], "namespace": self._space, "annotations": annotations},
            spec=document["spec"],
            opts=self._inner(
                pulumi.ResourceOptions(
                    depends_on=[claim],
                    delete_before_replace=True,
                    # A pod keeps the volume that it was started with, and another one never comes to it.
                    replace_with=[volume],
                )
            ),
        )


class SeatConflictError(pulumi.RunError):
    """Seats that cannot be made as they were declared: all of them at once, each with its way out."""

    def __init__(self, wrong: Sequence[str]) -> None:
        lines = "\n".join(f"  {one}" for one in wrong)
        super().__init__(f"declared workspaces cannot be made:\n{lines}")


def read_seat(layout: ArgumentReader) -> SeatPlan:
    """The seat as it was described, with every word checked."""
    return SeatPlan(
        name=layout.text("name"),
        sandbox_class=layout.text("sandbox_class"),
        user=layout.text("user"),
        size=layout.text("size"),
        mount_path=layout.text("mount_path"),
        mode=layout.choice("mode", ("agent", "session", "user"), default="user"),
        budget=layout.text("budget") if layout.has("budget") else None,
    )


def check_seat_conflicts(planned: Sequence[SeatPlan], environment: str, asked: pulumi.InvokeOptions) -> None:
    """End the program where a seat collides with another, or meets kept data of another user; to be called first."""
    if not planned:
        return
    if wrong := seats.collisions(planned):
        raise SeatConflictError(wrong)
    if wrong := seats.met_by_strangers(planned, seats.kept_seats(_tagged(environment, asked))):
        raise SeatConflictError(wrong)


def _tagged(environment: str, asked: pulumi.InvokeOptions) -> dict[str, Any]:
    """The access points of all seats that the environment has or had, with their tags."""
    filters: list[Any] = [
        {"key": "environment", "values": [environment]},
        {"key": "component", "values": [COMPONENT]},
        # Whatever its value is: one call takes too few values to name every seat.
        {"key": seats.SEAT_TAG},
    ]
    try:
        found = resourcegroupstaggingapi.get_resources(
            resource_type_filters=["elasticfilesystem:access-point"], tag_filters=filters, opts=asked
        )
    except Exception as silence:  # noqa: BLE001 - the engine raises nothing more exact
        told = str(silence).rpartition("returned an error: ")[2].rstrip(".")
        wrong = f"whose data is kept under their names cannot be asked: {told}; let the caller do tag:GetResources"
        raise SeatConflictError([wrong]) from None
    return {one.resource_arn: one.tags for one in found.resource_tag_mapping_lists}


def read_seats(reader: ArgumentReader, key: str) -> list[SeatLayout]:
    """The seats as they were told, with their shapes checked."""
    found: list[SeatLayout] = reader.values.get(key) or []
    if not isinstance(found, list):  # pyright: ignore[reportUnnecessaryIsInstance] - another language may say anything
        raise ArgumentError(f"{reader.path}.{key}", f"{found!r}", "a list of seats")
    for number, one in enumerate(found):
        read_seat(ArgumentReader.of(f"{reader.path}.{key}[{number}]", one, SeatLayout))
    return found

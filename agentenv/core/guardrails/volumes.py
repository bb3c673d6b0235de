"""Volumes: what separates homes on a shared file system is who makes volumes and which access point each one names.

Nodes mount with one identity for all sandboxes, so whoever chooses a handle chooses whose files are seen. That an
access point is the right one cannot be seen from here; it is audited against AWS.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentenv.core.classes.storage_classes import DRIVER
from agentenv.core.guardrails.class_parameters import list_parameter
from agentenv.core.guardrails.guardrail import (
    Policy,
    Rule,
    Watch,
    all_of,
    key_below,
    quoted,
    quoted_list,
    unchanged_marks,
    unless,
)
from agentenv.core.guardrails.owners import OWNER_UNCHANGED
from agentenv.core.guardrails.principals import METER, Principals, requested_by
from agentenv.core.service.home_metering import MEASURES
from agentenv.core.service.home_metering import NAME as METERING
from agentenv.core.workspaces.workspace import DOMAIN, OWN_LABEL

HANDLE = "^fs-[0-9a-f]{8,40}::fsap-[0-9a-f]{8,40}$"
# Whatever the storage classes of classes are called, it begins so.
OF_CLASSES = "efs-"
# Attributes by which the driver mounts another folder, or by another address.
_ELSEWHERE = ("path", "mounttargetip", "crossaccount")
# By this the service knows the home of a workspace from that of a declared seat.
MADE_BY = "pv.kubernetes.io/provisioned-by"
# By these upstream knows whose a claim of a volume is, and whether it may be taken.
OF_CONTROLLER = (DOMAIN, "agents.x-k8s.io/", "extensions.agents.x-k8s.io/")
_NEW = "oldObject == null"


def policies(principals: Principals, file_systems: Sequence[str]) -> tuple[Policy, ...]:
    """Volumes and storage classes on our file systems, and claims of volumes in the namespaces of classes."""
    return (
        _volumes(principals, file_systems),
        _records(principals),
        _storage_classes(file_systems),
        _claims(),
        _choice(principals),
    )


def _volumes(principals: Principals, file_systems: Sequence[str]) -> Policy:
    handle = "object.spec.?csi.?volumeHandle.orValue('')"
    owned = f"{quoted_list(list(file_systems))}.exists(id, {handle}.startsWith(id) ||"
    owned += " object.spec.?nfs.?server.orValue('').contains(id))"
    attributes = "object.spec.?csi.?volumeAttributes.orValue({})"
    metering = quoted(METERING)
    return Policy(
        name="volumes",
        about="PersistentVolumes on the environment's file systems, those for the namespace of a class, and those that"
        " anybody may claim by a storage class of ours.",
        watches=(Watch("", ("persistentvolumes",)),),
        in_classes=False,
        when={
            # One that waits for whoever asks for its class would be taken for the home of the next sandbox.
            "ours": f"{owned} || object.spec.?claimRef.?namespace.orValue('').startsWith('sandbox-') ||"
            f" (object.spec.?storageClassName.orValue('').startsWith({quoted(OF_CLASSES)})"
            " && !has(object.spec.claimRef))"
        },
        rules=(
            Rule(
                "volume-handle",
                "A volume without an access point is the whole file system; one without a claim is anybody's who asks"
                " first; one that chooses its way of mounting goes past both.",
                unless(
                    f"!({_NEW}) && object.spec.?csi == oldObject.spec.?csi && object.spec.?mountOptions =="
                    " oldObject.spec.?mountOptions && object.spec.?storageClassName =="
                    " oldObject.spec.?storageClassName",
                    all_of(
                        f"object.spec.?csi.?driver.orValue('') == {quoted(DRIVER)}",
                        f"{handle}.matches({quoted(HANDLE)})",
                        f"{handle}.split('::')[0] in {quoted_list(list(file_systems))}",
                        "object.spec.?claimRef.?name.orValue('') != ''",
                        "object.spec.?claimRef.?namespace.orValue('') != ''",
                        # The driver takes names of attributes in whatever case.
                        f"{attributes}.all(key, !(key.lowerAscii() in {quoted_list(_ELSEWHERE)}))",
                        f"{attributes}.all(key, key.lowerAscii() != 'encryptintransit' || {attributes}[key] == 'true')",
                        "object.spec.?mountOptions.orValue([]).all(option, option in ['tls', 'iam'])",
                    ),
                ),
                "a volume is of the EFS driver, names the claim it is for, and its handle is fs-…::fsap-… on a file"
                " system of the environment, mounted encrypted",
            ),
            Rule(
                "volume-by",
                "Whoever makes volumes chooses whose files are in them.",
                unless(f"!({_NEW})", requested_by(principals.provisioner)),
                "volumes are made by the driver's provisioner and deployers",
            ),
            Rule(
                "volume-kept",
                "A volume that is given to another claim is somebody's home in another's hands; one that is no longer"
                " kept is gone with its sandbox.",
                unless(
                    all_of(
                        f"!({_NEW})",
                        "oldObject.spec.?claimRef.?namespace == object.spec.?claimRef.?namespace",
                        "oldObject.spec.?claimRef.?name == object.spec.?claimRef.?name",
                        # Without the id that it was bound to it is the next one's who claims by that name.
                        "oldObject.spec.?claimRef.?uid == object.spec.?claimRef.?uid",
                        "oldObject.spec.?persistentVolumeReclaimPolicy == object.spec.?persistentVolumeReclaimPolicy",
                    ),
                    unless(_NEW, requested_by(principals.service, *principals.binders)),
                ),
                "whom a volume is for, and whether it is kept, is changed by the workspace service and deployers",
            ),
            Rule(
                "volume-looked-at",
                "Such a volume holds all homes of a class. Whoever could write to it could write to all of them, and"
                " given to a claim of a sandbox it would show them all to one owner.",
                unless(
                    f"object.spec.?claimRef.?namespace.orValue('') != {metering} &&"
                    f" ({_NEW} || oldObject.spec.?claimRef.?namespace.orValue('') != {metering})",
                    all_of(
                        "object.spec.?csi.?readOnly.orValue(false)",
                        unless(
                            all_of(
                                f"!({_NEW})",
                                "oldObject.spec.?claimRef.?namespace == object.spec.?claimRef.?namespace",
                                "oldObject.spec.?claimRef.?name == object.spec.?claimRef.?name",
                            ),
                            requested_by(),
                        ),
                    ),
                ),
                f"a volume for the namespace {METERING} is read only, and is made and given away by deployers alone",
            ),
        ),
    )


def _records(principals: Principals) -> Policy:
    # Every driver says of what it makes that it did.
    made_by = f"(key == {quoted(MADE_BY)} && !({_NEW}))"
    owned = f"(({key_below(DOMAIN, OWN_LABEL)} && !{OWNER_UNCHANGED}) || {made_by})"
    return Policy(
        name="volume-records",
        about="What a PersistentVolume says of the workspace whose home it is, also where a status is written.",
        watches=(
            Watch("", ("persistentvolumes",)),
            Watch("", ("persistentvolumes/status",), ("UPDATE",)),
        ),
        in_classes=False,
        rules=(
            Rule(
                "volume-record",
                "Of a deleted workspace nothing else is left: by it the service knows who may come back to which files,"
                " and when they are destroyed.",
                unless(
                    unchanged_marks(owned),
                    unless(
                        f"request.userInfo.username == {quoted(METER)} &&"
                        f" {unchanged_marks(f'({owned} && !{key_below(*MEASURES)})')}",
                        requested_by(principals.service),
                    ),
                ),
                "labels and annotations of a volume below sandbox.users.io/, and which driver made it, are written by"
                " the workspace service and deployers, and its size by what measures it",
            ),
        ),
    )


def _storage_classes(file_systems: Sequence[str]) -> Policy:
    return Policy(
        name="storage-classes",
        about=f"Storage classes on the environment's file systems, and those whose names begin with {OF_CLASSES}.",
        watches=(Watch("storage.k8s.io", ("storageclasses",)),),
        in_classes=False,
        when={
            # One that lacks its file system would take the place of a class's own.
            "ours": f"object.?parameters[?'fileSystemId'].orValue('') in {quoted_list(list(file_systems))} ||"
            f" object.metadata.name.startsWith({quoted(OF_CLASSES)})",
        },
        rules=(
            Rule(
                "storage-class-by",
                "It decides the folder and the owner of every home that is made by it.",
                unless(
                    f"!({_NEW}) && object.?parameters == oldObject.?parameters &&"
                    " object.?mountOptions == oldObject.?mountOptions",
                    requested_by(),
                ),
                f"storage classes on the environment's file systems, and those called {OF_CLASSES}…, are declared by"
                " deployers",
            ),
        ),
    )


def _claims() -> Policy:
    return Policy(
        name="volume-claims",
        about="Claims of volumes in the namespace of a class, when they are made.",
        watches=(Watch("", ("persistentvolumeclaims",), ("CREATE",)),),
        by_class=True,
        rules=(
            Rule(
                "volume-claim-class",
                "Another storage class is other storage: the cluster's default would be a disk of the node's zone.",
                all_of(
                    f"object.spec.?storageClassName.orValue('-') in ({list_parameter('storageClasses')} +"
                    " (object.spec.?volumeName.orValue('') == '' ? [] : ['']))",
                    "!has(object.spec.dataSource) && !has(object.spec.dataSourceRef) && !has(object.spec.selector)",
                ),
                "claims of volumes are of the class's own storage classes, or name the volume that was declared for"
                " them; they have no source",
            ),
        ),
    )


def _choice(principals: Principals) -> Policy:
    return Policy(
        name="volume-claim-writers",
        about="Who makes claims of volumes in the namespace of a class, and who chooses the volume.",
        watches=(
            Watch("", ("persistentvolumeclaims",)),
            Watch("", ("persistentvolumeclaims/status",), ("UPDATE",)),
        ),
        rules=(
            Rule(
                "volume-claim-by",
                "A claim of a volume that is not a sandbox's is storage that nobody is charged for.",
                unless(f"!({_NEW})", requested_by(principals.sandbox_controller, principals.service)),
                "claims of volumes are made by the sandbox controller, the workspace service and deployers",
            ),
            Rule(
                "volume-claim-choice",
                "Whoever chooses the volume chooses whose files are seen.",
                unless(
                    "object.spec.?volumeName.orValue('') == (oldObject == null ? '' :"
                    " oldObject.spec.?volumeName.orValue(''))",
                    requested_by(principals.service, *principals.binders),
                ),
                "the volume of a claim is chosen by Kubernetes's own binder, the workspace service and deployers",
            ),
            Rule(
                "volume-claim-kept",
                "One that belongs to no Sandbox, or says that it may be taken, becomes the home of the next sandbox of"
                " that name, whoever claims it.",
                unless(
                    f"{_NEW} || (object.metadata.?ownerReferences == oldObject.metadata.?ownerReferences &&"
                    f" {unchanged_marks(key_below(*OF_CONTROLLER))})",
                    requested_by(principals.sandbox_controller, principals.service, *principals.collectors),
                ),
                "the Sandbox that a claim of a volume belongs to, and its labels and annotations below"
                " sandbox.users.io/ and agents.x-k8s.io/, are changed by the sandbox controller, the workspace service"
                " and deployers",
            ),
        ),
    )

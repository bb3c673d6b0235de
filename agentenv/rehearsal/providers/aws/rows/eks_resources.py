"""EKS around a cluster: what runs on Fargate, add-ons, who may enter, and identities of pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from agentenv.rehearsal.providers.aws.row import Call, Do, Look, Name, Row
from agentenv.rehearsal.providers.aws.rows.eks_clusters import ACTIVE, CLUSTER_NAME, GONE, eks_tags, joined, pair_id
from agentenv.rehearsal.providers.aws.value_kinds import JSON, among

if TYPE_CHECKING:
    from agentenv.rehearsal.providers.aws.operation import Situation

# -- on Fargate -------------------------------------------------------------------------------------------------------

PROFILE: Final = {"clusterName": "$in.clusterName", "fargateProfileName": "$in.fargateProfileName"}
FARGATE_PROFILE = Row(
    type="aws:eks/fargateProfile:FargateProfile",
    service="eks",
    create=Call("CreateFargateProfile", None, names={"subnetIds": "subnets"}),
    id=joined(":", "clusterName", "fargateProfileName"),
    find=Look("DescribeFargateProfile", PROFILE, "fargateProfile", gone=GONE),
    delete=(Call("DeleteFargateProfile", given=PROFILE, forgives=GONE),),
    shows={"arn": "fargateProfileArn", "subnetIds": "subnets"},
    name=Name(input="fargateProfileName", longest=100, prefix_input=""),
    tags=eks_tags("arn"),
    ready=ACTIVE,
    ends=True,
    busy=("ResourceInUseException",),
    kinds={"clusterName": CLUSTER_NAME},
    parse=pair_id(":", "clusterName", "fargateProfileName"),
)

# -- add-ons ----------------------------------------------------------------------------------------------------------

ADDON_ID: Final = {"clusterName": "$in.clusterName", "addonName": "$in.addonName"}
CONFLICTS: Final = ("NONE", "OVERWRITE", "PRESERVE")
ADDON = Row(
    type="aws:eks/addon:Addon",
    service="eks",
    create=Call("CreateAddon", None, names={"resolveConflictsOnCreate": "resolveConflicts"}),
    id=joined(":", "clusterName", "addonName"),
    find=Look("DescribeAddon", ADDON_ID, "addon", gone=GONE),
    sets=(
        Call(
            "UpdateAddon",
            (
                *("addonVersion", "configurationValues", "podIdentityAssociations", "resolveConflictsOnUpdate"),
                "serviceAccountRoleArn",
            ),
            names={"resolveConflictsOnUpdate": "resolveConflicts"},
            given=ADDON_ID,
            when=lambda s: not s.creating,
        ),
        Do(lambda _: None, ("resolveConflictsOnCreate",)),  # it mattered at the create
    ),
    delete=(Call("DeleteAddon", ("preserve",), given=ADDON_ID, forgives=GONE),),
    shows={"arn": "addonArn"},
    tags=eks_tags("arn"),
    ready=ACTIVE,
    ends=True,
    busy=("ResourceInUseException",),
    unread=frozenset({"podIdentityAssociations", "preserve", "resolveConflictsOnCreate", "resolveConflictsOnUpdate"}),
    kinds={
        "clusterName": CLUSTER_NAME,
        "configurationValues": JSON,
        "resolveConflictsOnCreate": among(*CONFLICTS[:2]),
        "resolveConflictsOnUpdate": among(*CONFLICTS),
    },
    parse=pair_id(":", "clusterName", "addonName"),
)

# -- who may enter ----------------------------------------------------------------------------------------------------

ENTRY_ID: Final = {"clusterName": "$in.clusterName", "principalArn": "$in.principalArn"}
ACCESS_ENTRY = Row(
    type="aws:eks/accessEntry:AccessEntry",
    service="eks",
    create=Call("CreateAccessEntry", None),
    id=joined(":", "clusterName", "principalArn"),
    find=Look("DescribeAccessEntry", ENTRY_ID, "accessEntry", gone=GONE),
    sets=(Call("UpdateAccessEntry", ("kubernetesGroups", "userName"), given=ENTRY_ID, when=lambda s: not s.creating),),
    delete=(Call("DeleteAccessEntry", given=ENTRY_ID, forgives=GONE),),
    tags=eks_tags("accessEntryArn"),
    kinds={"clusterName": CLUSTER_NAME},
    defaults={"type": "STANDARD"},
    parse=pair_id(":", "clusterName", "principalArn"),
    moves=frozenset({"modifiedAt"}),
)


def _find_policy(s: Situation) -> Mapping[str, Any] | None:
    entry = {"clusterName": s.value("clusterName"), "principalArn": s.value("principalArn")}
    token: dict[str, str] = {}
    while True:
        answer = s.call("ListAssociatedAccessPolicies", forgives=GONE, **entry, **token)
        for one in answer.get("associatedAccessPolicies", []):
            if one["policyArn"] == s.value("policyArn"):
                return {**one, **entry}
        if not answer.get("nextToken"):
            return None
        token = {"nextToken": answer["nextToken"]}


ACCESS_POLICY_ASSOCIATION = Row(
    type="aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    service="eks",
    create=Call("AssociateAccessPolicy", None),
    id=joined("#", "clusterName", "principalArn", "policyArn"),
    find=_find_policy,
    delete=(Call("DisassociateAccessPolicy", given={**ENTRY_ID, "policyArn": "$in.policyArn"}, forgives=GONE),),
    kinds={"clusterName": CLUSTER_NAME, "accessScope.type": among("cluster", "namespace")},
    early=GONE,  # the entry may be a moment old
    parse=pair_id("#", "clusterName", "principalArn", "policyArn"),
)

ASSOCIATION: Final = {"clusterName": "$in.clusterName", "associationId": "$id"}


def _parse_association(text: str) -> tuple[str, dict[str, Any]]:
    cluster, _, association = text.partition(",")
    if not association:
        raise ValueError("write CLUSTERNAME,ASSOCIATIONID")
    return association, {"clusterName": cluster}


POD_IDENTITY_ASSOCIATION = Row(
    type="aws:eks/podIdentityAssociation:PodIdentityAssociation",
    service="eks",
    create=Call("CreatePodIdentityAssociation", None),
    id="association.associationId",
    find=Look("DescribePodIdentityAssociation", ASSOCIATION, "association", gone=GONE),
    sets=(
        Call(
            "UpdatePodIdentityAssociation",
            ("disableSessionTags", "roleArn", "targetRoleArn"),
            given=ASSOCIATION,
            when=lambda s: not s.creating,
        ),
    ),
    delete=(Call("DeletePodIdentityAssociation", given=ASSOCIATION, forgives=GONE),),
    tags=eks_tags("associationArn"),
    kinds={"clusterName": CLUSTER_NAME},
    replaces=frozenset({"clusterName", "namespace", "serviceAccount"}),
    parse=_parse_association,
)

ROWS: Final = (FARGATE_PROFILE, ADDON, ACCESS_ENTRY, ACCESS_POLICY_ASSOCIATION, POD_IDENTITY_ASSOCIATION)

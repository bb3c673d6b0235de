"""EKS identities: roles for pods (Pod Identity), and an identity provider for people (OIDC)."""

from __future__ import annotations

import secrets
import string
import uuid
from typing import TYPE_CHECKING, Any

from agentenv.rehearsal.cloud.pagination import page
from agentenv.rehearsal.cloud.request_context import Row
from agentenv.rehearsal.cloud.responses import Refused
from agentenv.rehearsal.cloud.rows.eks_common import arn, belonging_to, cluster_of, now, refuse_role, update_of

if TYPE_CHECKING:
    from agentenv.rehearsal.cloud.request_context import Desk
    from agentenv.rehearsal.cloud.store import Record

ASSOCIATIONS, PROVIDERS = "eks.pod_identity_associations", "eks.identity_provider_configs"


def identifier(prefix: str) -> str:
    """A name as EKS makes them: letters and digits, never used before."""
    return prefix + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(17))


def _association(desk: Desk) -> Record:
    cluster, wanted = cluster_of(desk), desk.asked["associationId"]
    found = desk.shelf(ASSOCIATIONS).get(f"{cluster.name}/{wanted}")
    if found is None:
        text = f"Failed to find resource with id '{wanted}' in cluster '{cluster.name}'"
        raise Refused("ResourceNotFoundException", text, clusterName=cluster.name)
    return found


def associate(desk: Desk, cluster: str, namespace: str, account: str, role: str, **said: Any) -> Record:
    """Give a service account a role; it has one at most."""
    refuse_role(desk, role, "The role of a pod identity association is not valid")
    for other in belonging_to(desk, ASSOCIATIONS, cluster).values():
        if (other["namespace"], other["serviceAccount"]) == (namespace, account):
            text = f"Association already exists: {other['associationId']}"
            raise Refused("ResourceInUseException", text, clusterName=cluster)
    own = identifier("a-")
    association = {
        "clusterName": cluster,
        "namespace": namespace,
        "serviceAccount": account,
        "roleArn": role,
        "associationArn": arn(desk, f"podidentityassociation/{cluster}/{own}"),
        "associationId": own,
        "tags": said.get("tags", {}),
        "createdAt": now(),
        "modifiedAt": now(),
        "ownerArn": said.get("owner"),
        "disableSessionTags": said.get("disableSessionTags", False),
        "targetRoleArn": said.get("targetRoleArn"),
        "externalId": f"{desk.region}/{desk.account}/{cluster}/{namespace}/{account}"
        if said.get("targetRoleArn")
        else None,
        "policy": said.get("policy"),
    }
    desk.shelf(ASSOCIATIONS)[f"{cluster}/{own}"] = association
    return association


def disown(desk: Desk, owner: str) -> None:
    """Remove the associations that an add-on made."""
    shelf = desk.shelf(ASSOCIATIONS)
    for name in [name for name, one in shelf.items() if one.get("ownerArn") == owner]:
        del shelf[name]


def create(desk: Desk) -> dict[str, Any]:
    """An association for a service account, which need not exist yet."""
    asked, cluster = desk.asked, cluster_of(desk)
    said = {name: asked[name] for name in ("tags", "disableSessionTags", "targetRoleArn", "policy") if name in asked}
    made = associate(desk, cluster.name, asked["namespace"], asked["serviceAccount"], asked["roleArn"], **said)
    return {"association": made}


def update(desk: Desk) -> dict[str, Any]:
    """Another role; namespace and service account stay."""
    association, asked = _association(desk), desk.asked
    if role := asked.get("roleArn"):
        refuse_role(desk, role, "The role of a pod identity association is not valid")
    for name in ("roleArn", "disableSessionTags", "targetRoleArn", "policy"):
        if name in asked:
            association[name] = asked[name]
    association["modifiedAt"] = now()
    return {"association": association}


def delete(desk: Desk) -> dict[str, Any]:
    """Gone; EKS answers what it was."""
    association = _association(desk)
    del desk.shelf(ASSOCIATIONS)[f"{association['clusterName']}/{association['associationId']}"]
    return {"association": association}


def listed(desk: Desk) -> dict[str, Any]:
    """The associations of a cluster, a namespace or a service account."""
    asked = desk.asked
    found = [
        one
        for one in belonging_to(desk, ASSOCIATIONS, cluster_of(desk).name).values()
        if asked.get("namespace", one["namespace"]) == one["namespace"]
        and asked.get("serviceAccount", one["serviceAccount"]) == one["serviceAccount"]
    ]
    shown, token = page(found, asked.get("maxResults"), asked.get("nextToken"))
    return {"associations": shown, "nextToken": token}


def associate_provider(desk: Desk) -> dict[str, Any]:
    """The one OIDC provider that a cluster may have."""
    cluster, oidc = cluster_of(desk), desk.asked["oidc"]
    if belonging_to(desk, PROVIDERS, cluster.name):
        text = "The cluster already has an identity provider configuration; there is one at most."
        raise Refused("ResourceInUseException", text, clusterName=cluster.name)
    if not oidc["issuerUrl"].startswith("https://"):
        raise Refused("InvalidParameterException", f"issuerUrl must start with https://: {oidc['issuerUrl']}")
    name, tags = oidc["identityProviderConfigName"], desk.asked.get("tags", {})
    made = {
        **oidc,
        "identityProviderConfigArn": arn(desk, f"identityproviderconfig/{cluster.name}/oidc/{name}/{uuid.uuid4()}"),
        "clusterName": cluster.name,
        "tags": tags,
        "status": "ACTIVE",
    }
    desk.shelf(PROVIDERS)[f"{cluster.name}/{name}"] = made
    said = {"IdentityProviderConfig": [{"type": "oidc", "name": name}]}
    return {"update": update_of(desk, cluster.name, "AssociateIdentityProviderConfig", said), "tags": tags}


def _provider(desk: Desk) -> Record:
    cluster, wanted = cluster_of(desk), desk.asked["identityProviderConfig"]["name"]
    found = desk.shelf(PROVIDERS).get(f"{cluster.name}/{wanted}")
    if found is None:
        text = f"The identity provider config {wanted} is not associated with cluster {cluster.name}."
        raise Refused("ResourceNotFoundException", text, clusterName=cluster.name)
    return found


def disassociate_provider(desk: Desk) -> dict[str, Any]:
    """The provider goes."""
    provider = _provider(desk)
    name, cluster = provider["identityProviderConfigName"], provider["clusterName"]
    del desk.shelf(PROVIDERS)[f"{cluster}/{name}"]
    said = {"IdentityProviderConfig": [{"type": "oidc", "name": name}]}
    return {"update": update_of(desk, cluster, "DisassociateIdentityProviderConfig", said)}


def providers(desk: Desk) -> dict[str, Any]:
    """The provider of a cluster, if it has one."""
    found = belonging_to(desk, PROVIDERS, cluster_of(desk).name).values()
    return {"identityProviderConfigs": [{"type": "oidc", "name": one["identityProviderConfigName"]} for one in found]}


ROWS = (
    Row("eks", "CreatePodIdentityAssociation", create, kept=True),
    Row("eks", "DescribePodIdentityAssociation", lambda desk: {"association": _association(desk)}),
    Row("eks", "ListPodIdentityAssociations", listed),
    Row("eks", "UpdatePodIdentityAssociation", update, kept=True),
    Row("eks", "DeletePodIdentityAssociation", delete),
    Row("eks", "AssociateIdentityProviderConfig", associate_provider, kept=True),
    Row(
        "eks",
        "DescribeIdentityProviderConfig",
        lambda desk: {"identityProviderConfig": {"oidc": _provider(desk)}},
    ),
    Row("eks", "DisassociateIdentityProviderConfig", disassociate_provider),
    Row("eks", "ListIdentityProviderConfigs", providers),
)

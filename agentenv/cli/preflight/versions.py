"""Versions: whether EKS still offers the cluster's, the builds of its add-ons, and the image of its nodes."""

from __future__ import annotations

from collections.abc import Callable

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account, Unanswered
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.adoption.cluster import OUR_ADDONS
from agentenv.core.nodes.addon_builds import addon_builds
from agentenv.core.nodes.from_settings import node_layout
from agentenv.core.nodes.node_pools import NodePool

PROCESSORS = {"arm64": "arm64", "amd64": "x86_64"}


def questions(settings: Settings) -> list[Question]:
    """The cluster's version, a question an add-on, and one an image."""
    version = settings.cluster.version
    builds = addon_builds(settings.cluster)
    if settings.cluster.existing is not None:
        builds = {name: builds[name] for name in OUR_ADDONS}
    pools = needs.pools_of(settings)
    alias = node_layout(settings.capacity).image
    images = sorted({path for pool in pools if (path := image_parameter(pool, version, alias))})
    made = [
        Question("the cluster's version", version, lambda account: _version(account, version)),
        *(Question(f"add-on {name}", build, _addon_asker(name, build, version)) for name, build in builds.items()),
        *(
            Question(f"node image for {path.split('/')[7]}, {path.split('/')[8]}", alias, _image_asker(path))
            for path in images
        ),
    ]
    if any(pool.node_class.wall is not None and pool.node_class.wall.word == "nitro" for pool in pools):
        made.append(Question("node image with the Nitro runtime", "one of our own, so tagged", _nitro))
    return made


def image_parameter(pool: NodePool, version: str, alias: str) -> str:
    """The public parameter of a pool's image, where Karpenter looks for the alias; empty for one of our own."""
    if pool.node_class.wall is not None and pool.node_class.wall.word == "nitro":
        return ""
    _, _, release = alias.partition("@")
    processor, variant = PROCESSORS[pool.architecture], "nvidia" if pool.node_class.gpu else "standard"
    name = f"amazon-eks-node-al2023-{processor}-{variant}-{version}-{release}"
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{processor}/{variant}/{name}/image_id"


def _version(account: Account, version: str) -> Answer:
    found = account.all("eks", "describe_cluster_versions", "clusterVersions", includeAll=True)
    states = {one["clusterVersion"]: one.get("versionStatus") or one.get("status", "") for one in found}
    state = str(states.get(version, "")).lower().replace("_", " ")
    if not state:
        return Answer(", ".join(sorted(states)), ok=False, why="EKS does not offer it; choose another")
    if "unsupported" in state:
        return Answer(state, ok=False, why="EKS makes no such cluster any more; choose a newer version")
    return Answer(state, ok=True, why="six times as dear as a newer one" if "extended" in state else "")


def _addon_asker(name: str, build: str, version: str) -> Callable[[Account], Answer]:
    def ask(account: Account) -> Answer:
        found = account.all("eks", "describe_addon_versions", "addons", addonName=name, kubernetesVersion=version)
        offered = [one for addon in found if addon["addonName"] == name for one in addon["addonVersions"]]
        builds = [one["addonVersion"] for one in offered]
        usual = next(
            (
                one["addonVersion"]
                for one in offered
                if any(fits.get("defaultVersion") for fits in one.get("compatibilities", []))
            ),
            builds[0] if builds else None,
        )
        if build in builds:
            return Answer(usual, ok=True, why="")
        why = f"EKS does not offer this build for {version}; cluster.addonVersions takes another, such as {usual}"
        return Answer(usual, ok=False, why=why if usual else f"EKS does not offer this add-on for {version}")

    return ask


def _image_asker(path: str) -> Callable[[Account], Answer]:
    def ask(account: Account) -> Answer:
        try:
            image = account.ask("ssm", "get_parameter", Name=path)["Parameter"]["Value"]
        except Unanswered as silence:
            if silence.code != "ParameterNotFound":
                raise
            return Answer(None, ok=False, why="AWS has no such release; capacity.ami takes another, for this version")
        try:
            found = account.all("ec2", "describe_images", "Images", ImageIds=[image])
        except Unanswered as silence:
            if not silence.code.startswith("InvalidAMIID"):
                raise
            found = []
        if not found:
            return Answer(image, ok=False, why="the image that it names is gone; set a newer release in capacity.ami")
        return Answer(image, ok=True, why="")

    return ask


def _nitro(account: Account) -> Answer:
    marked = [{"Name": "tag:sandbox.users.io/wall", "Values": ["nitro"]}]
    found = account.all("ec2", "describe_images", "Images", Owners=["self"], Filters=marked)
    if not found:
        return Answer(0, ok=False, why="AWS has no public one: build an image and tag it sandbox.users.io/wall=nitro")
    return Answer(len(found), ok=True, why="")

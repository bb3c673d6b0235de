"""Check that EKS offers the cluster's version, the builds of its add-ons, and the image of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agentenv.cli.preflight import needs
from agentenv.cli.preflight.aws_calls import Account, AwsCallError
from agentenv.cli.preflight.check import Answer, Question
from agentenv.config import Settings
from agentenv.core.adoption.cluster import OUR_ADDONS
from agentenv.core.nodes.addon_builds import addon_builds
from agentenv.core.nodes.node_pools import EC2_ARCHITECTURES, NodePool, node_image


def questions(settings: Settings) -> list[Question]:
    """Return the questions about the cluster's version, each add-on, and each node image."""
    version = settings.cluster.version
    builds = addon_builds(settings.cluster)
    if settings.cluster.existing is not None:
        builds = {name: builds[name] for name in OUR_ADDONS}
    pools = needs.pools_of(settings)
    alias = node_image(settings.capacity)
    images = sorted({path for pool in pools if (path := image_parameter(pool, version, alias))})
    found = [
        Question("the cluster's version", version, lambda account: _check_version(account, settings)),
        *(Question(f"add-on {name}", build, _check_addon(name, build, version)) for name, build in builds.items()),
        *(
            Question(f"node image for {path.split('/')[7]}, {path.split('/')[8]}", alias, _check_image(path))
            for path in images
        ),
    ]
    nitro = [pool for pool in pools if pool.node_class.wall is not None and pool.node_class.wall.word == "nitro"]
    if nitro:
        nitro_images = settings.capacity.nitro_images
        architectures = {EC2_ARCHITECTURES[pool.architecture] for pool in nitro}
        families = sorted({family for pool in nitro for family in pool.families})
        found += [
            Question(
                "node images with the Nitro runtime",
                ", ".join(nitro_images),
                lambda account: _check_nitro_images(account, nitro_images, architectures),
            ),
            Question(
                "families with Nitro Enclaves",
                ", ".join(families),
                lambda account: _check_enclaves(account, families),
            ),
        ]
    return found


def image_parameter(pool: NodePool, version: str, alias: str) -> str:
    """Return the public SSM parameter that Karpenter reads for a pool's image alias. It is empty for a custom image."""
    if pool.node_class.wall is not None and pool.node_class.wall.word == "nitro":
        return ""
    _, _, release = alias.partition("@")
    processor, variant = EC2_ARCHITECTURES[pool.architecture], "nvidia" if pool.node_class.gpu else "standard"
    name = f"amazon-eks-node-al2023-{processor}-{variant}-{version}-{release}"
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{processor}/{variant}/{name}/image_id"


def _check_version(account: Account, settings: Settings) -> Answer:
    version = settings.cluster.version
    versions = account.list_all("eks", "describe_cluster_versions", "clusterVersions", includeAll=True)
    by_version = {row["clusterVersion"]: row for row in versions}
    row = by_version.get(version, {})
    state = str(row.get("versionStatus") or row.get("status", "")).lower().replace("_", " ")
    if not state:
        return Answer(", ".join(sorted(by_version)), ok=False, why="EKS does not offer it; choose another")
    if "unsupported" in state:
        return Answer(state, ok=False, why="EKS no longer creates clusters of this version; choose a newer one")
    if "extended" in state:
        return Answer(state, ok=True, why="extended support costs six times as much")
    end = row.get("endOfStandardSupportDate")
    if end is None or settings.cluster.existing is not None:
        return Answer(state, ok=True, why="")
    then = (
        "EKS upgrades the cluster by itself" if settings.cluster.support_policy == "standard" else "it costs six times"
    )
    return Answer(state, ok=True, why=f"until {end:%Y-%m-%d}; after it {then}")


def _check_addon(name: str, build: str, version: str) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        addons = account.list_all("eks", "describe_addon_versions", "addons", addonName=name, kubernetesVersion=version)
        offered = [row for addon in addons if addon["addonName"] == name for row in addon["addonVersions"]]
        builds = [row["addonVersion"] for row in offered]
        default = next(
            (
                row["addonVersion"]
                for row in offered
                if any(version.get("defaultVersion") for version in row.get("compatibilities", []))
            ),
            builds[0] if builds else None,
        )
        if build in builds:
            return Answer(default, ok=True, why="")
        why = f"EKS does not offer this build for {version}; set another in cluster.addonVersions, such as {default}"
        return Answer(default, ok=False, why=why if default else f"EKS does not offer this add-on for {version}")

    return answer


def _check_image(path: str) -> Callable[[Account], Answer]:
    def answer(account: Account) -> Answer:
        try:
            image = account.call("ssm", "get_parameter", Name=path)["Parameter"]["Value"]
        except AwsCallError as error:
            if error.code != "ParameterNotFound":
                raise
            return Answer(None, ok=False, why="AWS has no such release; set another for this version in capacity.ami")
        try:
            images = account.list_all("ec2", "describe_images", "Images", ImageIds=[image])
        except AwsCallError as error:
            if not error.code.startswith("InvalidAMIID"):
                raise
            images = []
        if not images:
            return Answer(image, ok=False, why="its image no longer exists; set a newer release in capacity.ami")
        return Answer(image, ok=True, why="")

    return answer


def _check_nitro_images(account: Account, images: Sequence[str], architectures: Collection[str]) -> Answer:
    """Check that the images exist, with one for each architecture of the pools."""
    found = account.list_all("ec2", "describe_images", "Images", Filters=[{"Name": "image-id", "Values": list(images)}])
    if missing := sorted(set(images) - {image["ImageId"] for image in found}):
        return Answer(len(found), ok=False, why=f"not visible to this account: {', '.join(missing)}")
    if lacking := sorted(set(architectures) - {image["Architecture"] for image in found}):
        why = f"no image for {', '.join(lacking)}: add one to capacity.nitroImages, or leave out those families"
        return Answer(len(found), ok=False, why=why)
    return Answer(len(found), ok=True, why="")


def _check_enclaves(account: Account, families: Sequence[str]) -> Answer:
    """Check that EC2 enables Nitro Enclaves, in which these sandboxes run, for types of the families."""
    patterns = [{"Name": "instance-type", "Values": [f"{family}.*" for family in families]}]
    types = account.list_all("ec2", "describe_instance_types", "InstanceTypes", Filters=patterns)
    able = {row["InstanceType"].partition(".")[0] for row in types if row.get("NitroEnclavesSupport") == "supported"}
    unable = [family for family in families if family not in able]
    if not able:
        return Answer("none", ok=False, why="EC2 enables Nitro Enclaves for none of capacity.families; add one")
    why = f"Karpenter passes over {', '.join(unable)}" if unable else ""
    return Answer(", ".join(sorted(able)), ok=True, why=why)

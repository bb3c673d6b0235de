"""How components speak to a cluster's API server, whether the cluster is created or adopted."""

import pulumi
import pulumi_kubernetes


def api_provider(
    name: str,
    kubeconfig: pulumi.Input[str],
    cluster_arn: pulumi.Input[str],
    opts: pulumi.ResourceOptions,
    *,
    adopted: bool = False,
) -> pulumi_kubernetes.Provider:
    """Create the provider; `name` is the first part of its resource's name."""
    return pulumi_kubernetes.Provider(
        f"{name}-api",
        kubeconfig=kubeconfig,
        # Other credentials or another address are still the same cluster, and what is in it stays.
        cluster_identifier=cluster_arn,
        enable_server_side_apply=True,
        # What a stack declares is put back, whoever changed it by hand.
        enable_patch_force=True,
        # A class's parameters are changed where they are: while they were away, nothing could be made in it.
        enable_config_map_mutable=True,
        # A class that goes back to an earlier release finds its template and pool there still, for claims of it. In an
        # adopted cluster an object of that name may be somebody else's, which nobody may take over and then delete.
        upsert_existing_objects=None if adopted else True,
        opts=opts,
    )

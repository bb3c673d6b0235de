"""The Kubernetes provider of a cluster, whether the cluster is created or adopted."""

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
        # With other credentials or another address it is still the same cluster: its objects are not replaced.
        cluster_identifier=cluster_arn,
        enable_server_side_apply=True,
        # An update restores what the stack declares, even where another field manager changed it.
        enable_patch_force=True,
        # The parameters of a class are updated in place: during a replacement nothing could be created in the class.
        enable_config_map_mutable=True,
        # A class that returns to an earlier release adopts its template and pool, which were retained for their claims.
        # In an adopted cluster an object of that name may belong to another owner, and must not be adopted and deleted.
        upsert_existing_objects=None if adopted else True,
        opts=opts,
    )

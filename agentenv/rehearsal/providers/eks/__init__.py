"""Stand-in for the component provider of package `eks`: where the official one is missing, it registers the same.

What belongs here: the children of each component as the official one registers them (types, names, inputs, parents,
dependencies), what it asks and waits for on the way, the kubeconfig it hands out, and the `aws eks get-token` that
this kubeconfig runs. What a child becomes is the `aws` provider's affair; what a node group is, is not rehearsed.
"""

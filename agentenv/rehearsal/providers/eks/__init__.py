"""A stand-in for the component provider of package `eks`, used only where the official one is not installed.

It registers the children of each component as the official provider does: types, names, inputs, parents and
dependencies. It also has the functions the component invokes, its waits, its kubeconfig, and the command `aws eks
get-token` that the kubeconfig runs. The `aws` provider creates the children. Node groups are not rehearsed.
"""

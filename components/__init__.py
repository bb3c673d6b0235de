"""Reusable Pulumi components, one per module, served to every Pulumi language through `PulumiPlugin.yaml`.

A component takes plain arguments, creates its resources in dependency order, and registers its outputs. It never reads
stack configuration, environment variables or the network: everything it needs is in its arguments.
"""

if __name__ != "agentenv.components":  # a second copy of every module would follow, with classes of its own
    raise ImportError("import agentenv.components; the folder components/ is a part of that package")

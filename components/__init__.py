"""Reusable Pulumi components, one per module, served to every Pulumi language through `PulumiPlugin.yaml`.

A component takes its part of a plan and the ids that other components create. It creates its resources in dependency
order, and registers its outputs. It never reads settings, stack configuration or environment variables.
"""

if __name__ != "agentenv.components":  # a second copy of every module would follow, with classes of its own
    raise ImportError("import agentenv.components; the folder components/ is a part of that package")

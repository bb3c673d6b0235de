"""Reusable Pulumi components, a module each; served to every Pulumi language from `PulumiPlugin.yaml`.

A component takes plain arguments, makes its resources in the order they come to life, and registers its outputs. It
never reads configuration, environment or network: what it needs is in its arguments.
"""

if __name__ != "agentenv.components":  # a second copy of every module would follow, with classes of its own
    raise ImportError("import agentenv.components; the folder components/ is a part of that package")

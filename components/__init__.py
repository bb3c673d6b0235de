"""Reusable Pulumi components, a module each; served to every Pulumi language from `PulumiPlugin.yaml`.

A component takes plain arguments, makes its resources in the order they come to life, and registers its outputs. It
never reads configuration, environment or network: what it needs is in its arguments.
"""

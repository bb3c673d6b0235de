"""Serves the components to every Pulumi language; the engine starts this module through `PulumiPlugin.yaml`."""

from importlib.metadata import version

from pulumi.provider.experimental import component_provider_host

from agentenv.components.package import EXPORTED_COMPONENTS

component_provider_host(EXPORTED_COMPONENTS, name="agent-environment", version=version("agent-environment"))

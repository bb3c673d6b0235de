"""Serves the components to every Pulumi language; the engine starts it as `PulumiPlugin.yaml` says."""

from importlib.metadata import version

from pulumi.provider.experimental import component_provider_host

from agentenv.components.package import COMPONENTS

component_provider_host(COMPONENTS, name="agent-environment", version=version("agent-environment"))

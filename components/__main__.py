"""Serves the components to every Pulumi language; the engine starts it as `PulumiPlugin.yaml` says."""

from importlib.metadata import version

from pulumi.provider.experimental import component_provider_host

from components.environment import Environment
from components.network import Network
from components.storage import Storage

component_provider_host([Environment, Network, Storage], name="agent-environment", version=version("agent-environment"))

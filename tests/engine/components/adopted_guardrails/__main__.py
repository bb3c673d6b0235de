"""The guardrails of an environment in an adopted cluster."""

import pulumi

from agentenv.components._lib.kubernetes_provider import api_provider
from agentenv.components.sandboxes.guardrails import Guardrails
from agentenv.core.plan import GuardrailsPlan

environment = pulumi.get_stack()
kubeconfig = pulumi.Config("adopted").require("kubeconfig")
provider = api_provider(environment, kubeconfig, "adopted", pulumi.ResourceOptions(), adopted=True)
Guardrails(
    f"{environment}-guardrails",
    GuardrailsPlan(cluster_retained=True),
    ["fs-0123456789abcdef0"],
    pulumi.ResourceOptions(providers=[provider]),
)

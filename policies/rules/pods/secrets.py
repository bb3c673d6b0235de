"""POD rules about secrets in environment variables and ConfigMaps."""

from __future__ import annotations

from collections.abc import Iterator

from agentenv.core.values.secrets_in_text import SECRET_NAME, is_secret, secret_in
from agentenv.policies.rules.registry import POD, Outcome, fail, forbid, objects, rule, unknown
from agentenv.policies.view.cluster.pods import Container, PodSpec
from agentenv.policies.view.fields import Field
from agentenv.policies.view.resource import KubernetesObject


@rule(
    id="POD-10",
    title="Environment variables contain no secrets",
    severity="Medium",
    why="Every process of the container inherits its environment, and crash reports and debug pages print it. Anybody"
    " who can read the pod can read the values in it.",
    fix="Mount the secret as a file. Better, give the pod an IAM role, so that it needs no secret.",
    equivalents={
        "Checkov": ("CKV_K8S_35",),
        "CIS": ("4.4.1",),
        "Kyverno": ("secrets-not-from-env-vars",),
    },
    applies_to=POD,
)
def secrets_in_environment(pod: PodSpec) -> Iterator[Outcome]:
    """Check variables from Secrets, and literal values of variables that are named like a secret, or that have one."""
    for container in pod.containers:
        for source in container.at("envFrom").elements():
            reference = source.at("secretRef")
            if reference.unknown:
                yield unknown(reference)
            elif not reference.missing:
                yield fail(reference, f"{container.title} has all values of a Secret in its environment")
        for variable in container.at("env").elements():
            yield from _variable(container, variable)


def _variable(container: Container, variable: Field) -> Iterator[Outcome]:
    reference, name, value = variable.at("valueFrom", "secretKeyRef"), variable.at("name"), variable.at("value")
    if reference.unknown:
        yield unknown(reference)
    elif not reference.missing:
        yield fail(reference, f"{container.title} has a value of a Secret in its environment")
    elif name.unknown:
        yield unknown(name)
    elif isinstance(name.raw, str) and SECRET_NAME.search(name.raw):
        # The value is not shown
        yield from forbid(value, bool, f"{container.title} has a literal value for {name.raw}")
    elif isinstance(value.raw, str) and (description := secret_in(value.raw, lines=False)) is not None:
        yield fail(value, f"{container.title} has {description} in {name.raw}")


@rule(
    id="POD-21",
    title="ConfigMaps contain no secrets",
    severity="Medium",
    why="Everybody with read access to a namespace can read its ConfigMaps. People print, copy and commit them without"
    " expecting secrets.",
    fix="Keep the value in a Secret. Better, give the pod an IAM role, so that it needs no secret.",
    applies_to=objects("", "ConfigMap"),
)
def secrets_in_configuration(config: KubernetesObject) -> Iterator[Outcome]:
    """Check the keys and the content. Messages never show a value."""
    data = config.at("data")
    for key, value in data.entries():
        if value.unknown:
            if SECRET_NAME.search(key) or data.unknown:
                yield unknown(value)
        elif not isinstance(value.raw, str):
            continue
        elif SECRET_NAME.search(key) and is_secret(key, value.raw.strip()):
            yield fail(value, f"{key} contains a secret")
        elif (description := secret_in(value.raw)) is not None:
            yield fail(value, f"{key} contains {description}")

"""The real engine with the stand-in: a program is deployed, settles, drifts, is repaired and destroyed."""

from __future__ import annotations

import json
from typing import Any

from agentenv.rehearsal.providers.kubernetes.cluster import Cluster
from tests.live.kubernetes.engine import Engine
from tests.live.kubernetes.provider_driver import ProviderDriver

PROGRAM = '''
import os
import pulumi

made = pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": os.environ["PLANE"], "clusterIdentifier": "one"})
word = os.environ.get("WORD", "first")


def resource(token, name, inputs, **options):
    chosen = pulumi.ResourceOptions(provider=made, **options)
    version, kind = token.removeprefix("core/").split(":")
    class Made(pulumi.CustomResource):
        metadata: pulumi.Output[dict]
    return Made(f"kubernetes:{token}", name, {"apiVersion": version, "kind": kind, "metadata": None, **inputs}, chosen)


place = resource("core/v1:Namespace", "place", {})
inside = {"namespace": place.metadata["name"]}
resource("core/v1:ConfigMap", "settings", {"metadata": inside, "data": {"word": word}})
resource("core/v1:ServiceAccount", "robot", {"metadata": {**inside, "labels": {"word": word}}})
resource("core/v1:Secret", "login", {"metadata": inside, "stringData": {"password": "hunter2-in-plain-sight"}})
schema = {"openAPIV3Schema": {"type": "object", "x_kubernetes_preserve_unknown_fields": True}}
definition = resource("apiextensions.k8s.io/v1:CustomResourceDefinition", "gadgets", {
    "metadata": {"name": "gadgets.engine.example.com"},
    "spec": {
        "group": "engine.example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    },
})
annotations = {"pulumi.com/deletionPropagationPolicy": "background"}
resource(
    "engine.example.com/v1:Gadget", "gadget",
    {"metadata": {**inside, "annotations": annotations}, "spec": {"size": 3}}, depends_on=[definition],
)
resource("apps/v1:Deployment", "web", {
    "metadata": {**inside, "annotations": {"pulumi.com/skipAwait": "true"}},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [
                {"name": "web", "image": "example.com/web:1", "resources": {"requests": {"cpu": "1000m"}}}
            ]},
        },
    },
})


class Group(pulumi.ComponentResource):
    resources: pulumi.Output[list]

    def __init__(self, name, text, opts):
        super().__init__("kubernetes:yaml/v2:ConfigGroup", name, {"yaml": text, "resources": None}, opts, remote=True)


group = Group("group", """
apiVersion: v1
kind: ConfigMap
metadata: {name: grouped, namespace: engine-group}
data: {a: "1"}
---
apiVersion: v1
kind: Namespace
metadata: {name: engine-group}
""", pulumi.ResourceOptions(providers=[made]))
pulumi.export("place", place.metadata["name"])
pulumi.export("grouped", group.resources.apply(len))
'''


LATE = """
import os
import pulumi

made = pulumi.ProviderResource("kubernetes", "cluster", {"kubeconfig": os.environ["PLANE"], "namespace": "PLACE"})
pod = {"nodeSelector": {"no": "such-node"}, "containers": [{"name": "web", "image": "example.com/web:1"}]}
pulumi.CustomResource("kubernetes:apps/v1:Deployment", "late", {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "spec": {
        "replicas": int(os.environ.get("REPLICAS", "1")),
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    },
}, pulumi.ResourceOptions(provider=made, custom_timeouts=pulumi.CustomTimeouts(create="6s", update="20s")))
"""


def secrets_in(value: Any) -> list[str]:
    return [line for line in json.dumps(value).split('"') if "hunter2" in line]


def test_program_is_deployed_settles_drifts_and_is_destroyed(
    engine: Engine, driver: ProviderDriver, cluster: Cluster
) -> None:
    engine.set_program(PROGRAM)
    previewed = engine.run("preview")
    assert "12 to create" in previewed
    assert "hunter2" not in previewed

    assert engine.changes("up") == {"create": 12}
    assert engine.run("stack", "output", "grouped").strip() == "2"
    assert secrets_in(json.loads(engine.run("stack", "export"))) == []
    assert engine.changes("refresh") == {}
    # The gadget, the secret and the group have no change; the account is updated, and the ConfigMap is replaced.
    assert engine.changes("up", WORD="second") == {"update": 1, "replace": 1}

    place = engine.run("stack", "output", "place").strip()
    accounts = cluster.discovery.find("v1", "ServiceAccount")
    (robot,) = [a for a in cluster.list(accounts, place) if a["metadata"]["name"].startswith("robot-")]
    robot["metadata"]["labels"]["word"] = "hand"
    cluster.client.request("PUT", accounts.path(place, robot["metadata"]["name"]), {"fieldManager": "somebody"}, robot)
    maps = cluster.discovery.find("v1", "ConfigMap")
    cluster.delete(maps, "engine-group", "grouped", "Background")
    assert engine.changes("refresh", WORD="second") == {"update": 1, "delete": 1}

    assert set(engine.changes("destroy", WORD="second")) == {"delete"}
    namespaces = [n["metadata"]["name"] for n in cluster.list(cluster.discovery.find("v1", "Namespace"))]
    assert place not in namespaces
    assert "engine-group" not in namespaces
    assert json.loads(engine.run("stack", "export"))["deployment"].get("resources", []) == []


def test_object_that_was_not_ready_is_recorded_and_repaired(engine: Engine, driver: ProviderDriver) -> None:
    late = LATE.replace("PLACE", driver.namespace)
    engine.set_program(late)
    failed = engine.fails("up", "--yes", "--skip-preview")
    assert "was created, but Deployment" in failed
    assert "was not ready after 6 s" in failed
    assert "Available=False MinimumReplicasUnavailable" in failed
    assert "Traceback" not in failed
    deployed = [r["type"] for r in json.loads(engine.run("stack", "export"))["deployment"]["resources"]]
    assert "kubernetes:apps/v1:Deployment" in deployed
    assert "is not ready" in engine.run("refresh", "--yes", "--skip-preview")
    assert engine.changes("up", REPLICAS="0") == {"update": 1}
    assert engine.changes("up", REPLICAS="0") == {}
    assert engine.changes("destroy") == {"delete": 3}

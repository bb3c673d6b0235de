"""The view of resources: no unknown value is lost, and none hides a failure."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentenv.core.capabilities.unknown_values import UNKNOWN
from agentenv.policies.offline import findings_of, findings_of_manifests
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Verdict
from agentenv.policies.view.cluster.pods import TEMPLATE_PATHS, pods_of
from agentenv.policies.view.fields import MISSING, Field, UnknownReached
from agentenv.policies.view.resource import Resource

Plain = Any
leaves = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "ALL"])
keys = st.sampled_from(["a", "b", "name", "x.y/z"])
values = st.recursive(leaves, lambda below: st.lists(below, max_size=3) | st.dictionaries(keys, below, max_size=3))
steps = st.lists(keys | st.integers(0, 2), max_size=4)


def field(raw: Plain) -> Field:
    return Field("urn", "", MISSING if raw is None else raw)


@given(values, steps)
def test_everything_below_an_unknown_value_is_unknown(raw: Plain, path: list[str | int]) -> None:
    below = Field("urn", "here", UNKNOWN).at(*path)
    assert below.unknown
    assert [element.unknown for element in below.elements()] == [True]
    assert [value.unknown for _, value in below.entries()] == [True]
    # Everything below a missing value is missing
    assert Field("urn", "here", MISSING).at(*path).missing
    assert field(raw).at(*path).known is not None


@given(values)
def test_walking_a_field_finds_every_scalar(raw: Plain) -> None:
    def walked(current: Field) -> Iterator[object]:
        if isinstance(current.raw, list):
            for below in current.elements():
                yield from walked(below)
        elif isinstance(current.raw, dict):
            for _, below in current.entries():
                yield from walked(below)
        elif current.known:
            yield current.raw

    def leaves_of(value: Plain) -> Iterator[object]:
        if isinstance(value, dict | list):
            for below in value.values() if isinstance(value, dict) else value:
                yield from leaves_of(below)
        elif value is not None:
            yield value

    assert list(walked(field(raw))) == list(leaves_of(raw))


def test_paths_have_the_format_of_the_engine() -> None:
    root = field({"spec": {"containers": [{"name": "a"}]}, "metadata": {"labels": {"a.b/c": "d"}}})
    assert root.at("spec", "containers", 0, "name").path == "spec.containers[0].name"
    assert root.at("metadata", "labels", "a.b/c").path == 'metadata.labels["a.b/c"]'
    assert root.at("spec", "containers", 1).missing
    assert root.at("spec", "containers", "name").unknown, "a string instead of an index is unknown"


def test_reading_an_unknown_scalar_raises_an_error_with_its_path() -> None:
    with pytest.raises(UnknownReached) as reached:
        _ = Field("urn", "a.b", UNKNOWN).value
    assert reached.value.field.path == "a.b"
    with pytest.raises(UnknownReached):
        _ = field({"a": []}).at("a").number
    assert field({"a": "12"}).at("a").number == 12
    assert field({"a": '{"b": 1}'}).at("a").parsed().at("b").number == 1
    assert field({"a": "{"}).at("a").parsed().unknown


PLACED = [(kind, place) for kind, place in TEMPLATE_PATHS.items() if place]


@pytest.mark.parametrize(("kind", "place"), PLACED)
def test_pods_are_found_in_every_kind_and_in_lists(kind: str, place: tuple[str, ...]) -> None:
    manifest: Plain = {"spec": {"containers": [{"name": "a"}]}}
    for key in reversed(place):
        manifest = {key: manifest}
    versions = {"Sandbox": "agents.x-k8s.io/v1beta1", "SandboxTemplate": "extensions.agents.x-k8s.io/v1beta1"}
    version = versions.get(kind, "apps/v1")
    single = Resource("u", f"kubernetes:{version}:{kind}", "a", manifest)
    patched = Resource("u", f"kubernetes:{version}:{kind}Patch", "a", {"kind": kind, **manifest})
    typed = Resource("u", f"kubernetes:{version}:{kind}List", "a", {"items": [manifest]})
    mixed = Resource(
        "u", "kubernetes:core/v1:List", "a", {"items": [{"apiVersion": version, "kind": kind, **manifest}]}
    )
    path = ".".join([*place, "spec", "containers[0]"])
    for resource, before in ((single, ""), (patched, ""), (typed, "items[0]."), (mixed, "items[0].")):
        [pod] = pods_of(resource)
        assert [container.root.path for container in pod.containers] == [before + path]
        assert pod.patch == (resource is patched)


def test_pods_are_found_in_unknown_kinds() -> None:
    rollout = {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}
    assert len(pods_of(Resource("u", "kubernetes:argoproj.io/v1alpha1:Rollout", "a", rollout))) == 1
    job = {"spec": {"replicatedJobs": [{"template": {"spec": rollout["spec"]}}]}}
    [pod] = pods_of(Resource("u", "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", "a", job))
    assert pod.containers[0].root.path == "spec.replicatedJobs[0].template.spec.template.spec.containers[0]"
    tasks = {"spec": {"tasks": [rollout["spec"]]}}
    assert len(pods_of(Resource("u", "kubernetes:batch.volcano.sh/v1alpha1:Job", "a", tasks))) == 1
    container = {"name": "a", "image": "x", "securityContext": {"privileged": True}}
    for spec in (
        {"podSpec": {"containers": [container], "volumes": []}},
        {"templates": [{"name": "t", "container": container}, {"name": "u", "steps": []}]},
        {"templates": [{"script": container, "sidecars": []}]},
    ):
        [pod] = pods_of(Resource("u", "kubernetes:argoproj.io/v1alpha1:Workflow", "a", {"spec": spec}))
        assert [found.security("privileged").raw for found in pod.containers] == [True]
    # An image and a name alone may be something else, such as a version
    images = {"spec": {"containers": [{"name": "a", "image": "x"}], "container": {"image": "x", "tag": "1"}}}
    assert len(pods_of(Resource("u", "kubernetes:example.com/v1:Thing", "a", {"spec": {"images": images}}))) == 1
    assert pods_of(Resource("u", "kubernetes:example.com/v1:Thing", "a", {"spec": {"x": images["spec"]}})) == ()
    crd = {"spec": {"versions": [{"schema": {"properties": {"spec": {"containers": {"type": "array"}}}}}]}}
    assert pods_of(Resource("u", "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition", "a", crd)) == ()
    assert pods_of(Resource("u", "kubernetes:core/v1:ConfigMap", "a", {"data": {}})) == ()
    assert pods_of(Resource("u", "kubernetes:helm.sh/v3:Release", "a", rollout)) == ()


WEAK: Plain = {
    "hostNetwork": True,
    "volumes": [{"name": "a", "hostPath": {"path": "/"}}, {"name": "b", "emptyDir": {}}],
    "containers": [
        {
            "name": "one",
            "securityContext": {"privileged": True, "runAsUser": 0, "capabilities": {"add": ["SYS_ADMIN"]}},
            "ports": [{"hostPort": 1}],
            "env": [{"name": "TOKEN", "value": "trial"}],
        },
        {"name": "two", "securityContext": {"seccompProfile": {"type": "Unconfined"}, "procMount": "Unmasked"}},
    ],
    "initContainers": [{"name": "three", "securityContext": {"privileged": True}}],
}
RULES = [rule for rule in all_rules() if rule.family == "POD"]


def places(value: Plain, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of each part of a value."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, part in below for place in [(*before, key), *places(part, (*before, key))]]


def failed(spec: Plain) -> set[tuple[str, str]]:
    pod = Resource("u", "kubernetes:core/v1:Pod", "a", {"metadata": {"namespace": "sandbox-a"}, "spec": spec})
    return {
        (finding.rule, finding.path) for finding in findings_of([pod], rules=RULES) if finding.verdict is Verdict.FAIL
    }


def parts(place: tuple[str | int, ...]) -> str:
    """Return the container, volume or field that contains a path."""
    return "spec" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place[:2])


@given(st.sets(st.sampled_from(places(WEAK)), min_size=1, max_size=5))
def test_an_unknown_part_hides_no_failure_in_another(hidden: set[tuple[str | int, ...]]) -> None:
    spec = copy.deepcopy(WEAK)
    for place in sorted(hidden, key=len):
        inner = spec
        for key in place[:-1]:
            inner = inner[key] if inner is not UNKNOWN else UNKNOWN
        if inner is not UNKNOWN:
            inner[place[-1]] = UNKNOWN
    is_covered = tuple(parts(place) for place in hidden)
    # A field that the pod's security context lacks is reported once for all containers that lack it too
    expected = {failure for failure in failed(WEAK) if not failure[1].startswith((*is_covered, "spec.securityContext"))}
    assert expected <= failed(spec)


def test_a_range_of_nearly_all_addresses_is_named_so() -> None:
    open_egress = """
        {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: sandbox-a},
         spec: {podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 0.0.0.0/0}}]}]}}
    """
    (finding,) = (each for each in findings_of_manifests(open_egress) if each.rule == "NET-04")
    assert finding.message == "allows sandboxes to send DNS queries to any address"

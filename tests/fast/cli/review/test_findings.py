"""The findings of two graphs, and their locations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from agentenv.cli.review import fingerprints
from agentenv.cli.review.findings import ReviewFinding, RuleEvaluator, policy_resource
from agentenv.cli.review.graph import Graph, Resource
from agentenv.cli.review.locations import Location, class_of, locations
from agentenv.cli.stack_yaml import parse
from agentenv.policies.packs.enforcement import Enforcement
from agentenv.policies.rules.registry import Outcome, Rule, fail, resources, unknown
from agentenv.policies.verdicts import Severity
from agentenv.policies.view.environment import PolicyContext
from agentenv.policies.view.resource import Resource as Judgeable
from agentenv.policies.waivers import Waiver, Waivers
from tests.fast.cli.review.resources import FILE_SYSTEM, LATER, TODAY, at, of, resource, urn, waiver

STACK_FILE = """config:
  agent-environment:storage:
    fileSystems: 2
  agent-environment:sandboxClasses:
    - name: standard
      image: a
    - name: untrusted
      tier: untrusted
      image: b
  agent-environment:workspaces:
    - {name: release-desk, class: standard}
"""


def encrypted(view: Judgeable) -> Iterator[Outcome]:
    field = view.at("encrypted")
    if field.unknown:
        yield unknown(field)
    elif field.value is not True:
        yield fail(field, "password=hunter2 is not encrypted")


def rule(name: str = "EFS-01", severity: Severity = "Critical") -> Rule:
    files = resources(FILE_SYSTEM)
    return Rule(name, "Files are encrypted", severity, "Because.", "Encrypt it.", {}, "0.1", files, encrypted, False)


def bench(environment: str = "prod", *waivers: Waiver, rules: tuple[Rule, ...] = (), **more: Any) -> RuleEvaluator:
    return RuleEvaluator(
        PolicyContext(environment=environment),
        Enforcement(environment),
        Waivers(tuple(waivers)),
        TODAY,
        "stacks/Pulumi.prod.yaml",
        parse(STACK_FILE),
        rules=rules or (rule(),),
        **more,
    )


def fs(name: str, value: object) -> Resource:
    return resource(FILE_SYSTEM, name, {"encrypted": value})


def states(found: list[ReviewFinding]) -> dict[str, str]:
    return {finding.name: finding.state for finding in found}


def judged(before: Graph | None, after: Graph, **more: Any) -> list[ReviewFinding]:
    return bench(**more).evaluate(before, after)


def test_new_existing_and_fixed_findings_are_distinguished() -> None:
    before = of(fs("old", False), fs("mended", False), fs("fine", True))
    after = of(fs("old", False), fs("mended", True), fs("fine", True), fs("added", False))
    assert states(judged(before, after)) == {"added": "new", "old": "existing", "mended": "fixed"}
    assert [finding.name for finding in judged(before, after) if finding.blocks] == ["added", "old"]


def test_without_a_graph_before_everything_is_new() -> None:
    assert states(judged(None, of(fs("a", False)))) == {"a": "new"}


def test_a_finding_of_a_deleted_resource_is_fixed() -> None:
    assert states(judged(of(fs("gone", False)), of())) == {"gone": "fixed"}


def test_a_failure_that_was_indeterminate_is_new() -> None:
    assert states(judged(of(fs("a", LATER)), of(fs("a", False)))) == {"a": "new"}
    assert states(judged(of(fs("a", False)), of(fs("a", LATER)))) == {"a": "existing"}


def holes(view: Judgeable) -> Iterator[Outcome]:
    """Yield several findings with the same path."""
    field = view.at("encrypted")
    for word in str(field.value).split():
        yield unknown(field) if word == "later" else fail(field, word)


def messages(before: str, after: str) -> list[tuple[str, str, bool]]:
    """Return the message, the state and the blocking of each finding of a change."""
    rules = (replace(rule(), check=holes),)
    graphs = (of(fs("a", before)) if before else of(), of(fs("a", after)))
    return [(finding.finding.message, finding.state, finding.blocks) for finding in judged(*graphs, rules=rules)]


def test_each_finding_with_the_same_path_is_listed() -> None:
    assert messages("", "tls root") == [("tls", "new", True), ("root", "new", True)]
    assert messages("tls", "tls root") == [("root", "new", True), ("tls", "existing", True)]
    assert messages("tls root", "root") == [("root", "existing", True), ("tls", "fixed", False)]
    # Another hole than the one that was there is not there before, and what was sure is not hidden by a doubt
    assert messages("tls", "anybody") == [("anybody", "new", True)]
    assert [row[:2] for row in messages("", "tls later")] == [
        ("tls", "new"),
        ("encrypted is not known yet", "new"),
    ]


def test_findings_with_the_same_path_have_different_fingerprints() -> None:
    rules = (replace(rule(), check=holes),)
    marks = [
        {finding.finding.message: finding.fingerprint for finding in judged(then, of(fs("a", now)), rules=rules)}
        for then, now in ((None, "tls"), (of(fs("a", "tls")), "root tls"))
    ]
    assert marks[0]["tls"] == marks[1]["tls"] != marks[1]["root"]


CONTAINERS = "kubernetes:core/v1:Pod"


def privileged(view: Judgeable) -> Iterator[Outcome]:
    for container in view.at("spec", "containers").elements():
        if container.at("privileged").value is True:
            yield fail(container.at("privileged"), "it is privileged")


def pod(**containers: bool) -> Graph:
    rows = [{"name": name, "privileged": value} for name, value in containers.items()]
    return of(resource(CONTAINERS, "pod", {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": rows}}))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (pod(old=True), pod(side=False, old=True), {"existing": 1}),
        (pod(ok=False, bad=True), pod(bad=True, ok=False), {"existing": 0}),
        (pod(one=True), pod(two=True), {"new": 0, "fixed": 0}),
    ],
)
def test_a_moved_list_element_keeps_its_finding(before: Graph, after: Graph, expected: dict[str, int]) -> None:
    rules = (replace(rule("POD-01"), applies_to=resources(CONTAINERS), check=privileged),)
    found = judged(before, after, rules=rules)
    assert {finding.state: int(finding.finding.path.split("[")[1][0]) for finding in found} == expected
    marks = {finding.fingerprint for finding in [*found, *judged(None, before, rules=rules)]}
    assert len(marks) == len(expected)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("spec.containers[1].env[0]", 'spec.containers["b"].env[0]'),
        ("spec.containers[7].env", "spec.containers[7].env"),
        ('policy.Statement[0]["a.b"]', 'policy.Statement["Mount"].a.b'),
        ("spec.containers", "spec.containers"),
        ("", ""),
    ],
)
def test_a_stable_path_has_names_instead_of_indexes(path: str, expected: str) -> None:
    policy = '{"Statement": [{"Sid": "Mount"}]}'
    inputs = {"spec": {"containers": [{"name": "a"}, {"name": "b", "env": [{}]}]}, "policy": policy}
    assert fingerprints.stable_path(path, inputs) == expected


def test_an_indeterminate_finding_blocks_in_prod_alone() -> None:
    for environment, blocks in (("prod", True), ("dev", False)):
        (finding,) = bench(environment).evaluate(None, of(fs("a", LATER)))
        assert finding.blocks is blocks
        assert finding.finding.verdict.value == "indeterminate"


def test_a_hidden_secret_is_indeterminate() -> None:
    (finding,) = judged(None, of(fs("a", "[secret]")))
    assert finding.finding.verdict.value == "indeterminate"


def test_a_waived_finding_is_shown_and_blocks_nothing() -> None:
    waiver_ = waiver(rule="EFS-01")
    (finding,) = bench("prod", waiver_).evaluate(None, of(fs("fs", False)))
    assert (finding.state, finding.blocks, finding.waiver) == ("waived", False, waiver_)


def test_an_expired_waiver_is_a_finding_with_its_line() -> None:
    waiver_ = waiver(rule="EFS-01", expires=date(2026, 2, 20))
    found = bench("prod", waiver_, waiver_lines={"for-now": 12, "for": 3}).evaluate(None, of(fs("fs", False)))
    by_rule = {finding.finding.rule: finding for finding in found}
    assert by_rule["EFS-01"].state == "new"
    assert by_rule["WVR-01"].blocks
    assert by_rule["WVR-01"].locations == [Location("policies/waivers.yaml", 12)]


def test_an_unused_waiver_is_advisory() -> None:
    (finding,) = bench("prod", waiver(rule="EFS-01")).evaluate(None, of(fs("fs", True)))
    assert (finding.finding.rule, finding.blocks) == ("WVR-03", False)


def test_a_disabled_rule_has_no_findings() -> None:
    quiet = replace(bench(), enforcement=Enforcement("prod", by_rule={"EFS-01": "disabled"}))
    assert quiet.evaluate(None, of(fs("fs", False))) == []


def test_each_unused_waiver_has_its_own_fingerprint_and_line() -> None:
    waiver_ = [waiver(id=name, rule="EFS-01") for name in ("first-one", "second-one")]
    found = bench("prod", *waiver_, waiver_lines={"first-one": 3, "second-one": 12}).evaluate(None, of(fs("fs", True)))
    assert [spot.line for finding in found for spot in finding.locations] == [3, 12]
    assert len({finding.fingerprint for finding in found}) == 2


def test_a_finding_about_a_waiver_is_new_if_the_change_causes_it() -> None:
    then, added = waiver(id="then", rule="EFS-01"), waiver(id="added", rule="EFS-01", expires=date(2026, 2, 20))
    graph = of(fs("fs", True))
    found = bench("prod", then, added, waivers_before=Waivers((then,))).evaluate(graph, graph)
    assert {finding.finding.path: finding.state for finding in found} == {
        "waivers.then": "existing",
        "waivers.added": "new",
    }
    found = bench("prod", then, waivers_before=Waivers((then, added))).evaluate(graph, graph)
    assert {finding.finding.path: finding.state for finding in found} == {
        "waivers.then": "existing",
        "waivers.added": "fixed",
    }
    # It was needed, and what needs it no longer does so by this change
    found = bench("prod", then, waivers_before=Waivers((then,))).evaluate(of(fs("fs", False)), graph)
    assert {finding.finding.rule: finding.state for finding in found} == {"WVR-03": "new", "EFS-01": "fixed"}
    # Without a base nobody can tell
    assert [finding.state for finding in bench("prod", then).evaluate(None, graph)] == ["existing"]


def test_findings_about_waivers_can_be_disabled() -> None:
    quiet = replace(
        bench("prod", waiver(rule="EFS-01")), enforcement=Enforcement("prod", by_rule={"WVR-03": "disabled"})
    )
    assert quiet.evaluate(None, of(fs("fs", True))) == []


def test_the_fingerprint_does_not_depend_on_the_message() -> None:
    (finding,) = judged(None, of(fs("a", False)))
    expected = replace(finding.finding, message="in other words")
    elsewhere = replace(finding.finding, urn=urn(FILE_SYSTEM, "b"))
    assert replace(finding, finding=expected).fingerprint == finding.fingerprint
    assert replace(finding, finding=elsewhere).fingerprint != finding.fingerprint


def test_a_finding_has_a_fix_and_no_secret() -> None:
    (finding,) = bench(links="../blob/main/").evaluate(None, of(fs("a", False)))
    assert finding.fix == "Encrypt it."
    assert finding.link == "../blob/main/docs/reference/policies.md#efs-01"
    assert "hunter2" not in str(finding.as_json())


def test_the_json_of_a_finding_has_the_documented_keys() -> None:
    (finding,) = judged(None, of(fs("a", False)))
    document = finding.as_json()
    assert {key: document[key] for key in ("id", "severity", "verdict", "urn")} == {
        "id": "EFS-01",
        "severity": "Critical",
        "verdict": "fail",
        "urn": urn(FILE_SYSTEM, "a"),
    }


def test_rules_see_the_property_dependencies() -> None:
    file_system = resource(
        FILE_SYSTEM, "a", {"kmsKeyId": LATER}, dependencies=("k",), property_dependencies={"kmsKeyId": ("k",)}
    )
    policy_view = policy_resource(file_system, PolicyContext())
    assert policy_view.at("kmsKeyId").unknown
    assert policy_view.property_dependencies == {"kmsKeyId": frozenset({"k"})}


def test_an_unknown_document_is_evaluated_as_its_component_planned_it() -> None:
    component = Resource(
        urn("agent-environment:index:Storage", "storage"), "agent-environment:index:Storage", custom=False
    )
    file_system = resource(FILE_SYSTEM, "fs", {"encrypted": LATER}, parent=component.urn)
    document = {"type": FILE_SYSTEM, "name": "fs", "property": "encrypted", "says": {"a": "b"}}
    planned = replace(component, outputs={"documents": [document]})
    assert [finding.finding.verdict.value for finding in judged(None, of(component, file_system))] == ["indeterminate"]
    assert [finding.finding.verdict.value for finding in judged(None, of(planned, file_system))] == ["fail"]


def place(thing: Resource, path: str = "") -> str:
    return str(locations(thing, path, "stack.yaml", parse(STACK_FILE))[0])


def in_class(name: str, path: str = "") -> str:
    kind = "kubernetes:extensions.agents.x-k8s.io/v1beta1:SandboxTemplate"
    return place(resource(kind, "t", {"kind": "SandboxTemplate", "metadata": {"namespace": f"sandbox-{name}"}}), path)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (lambda: place(resource(FILE_SYSTEM, "fs")), "stack.yaml:2"),
        (lambda: in_class("untrusted"), "stack.yaml:7"),
        (lambda: in_class("untrusted", "spec.podTemplate.spec.containers[0].image"), "stack.yaml:9"),
        (lambda: in_class("untrusted", "spec.podTemplate.spec.runtimeClassName"), "stack.yaml:8"),
        (lambda: in_class("standard", "spec.podTemplate.spec.runtimeClassName"), "stack.yaml:5"),
        (lambda: place(at(Resource("urn:pulumi:prod::p::x:y:Z::z", "x:y:Z"), "main.py", 3)), "main.py:3"),
        (lambda: place(Resource("urn:pulumi:prod::p::x:y:Z::z", "x:y:Z")), "stack.yaml:1"),
    ],
)
def test_a_finding_is_located_in_the_settings(found: Any, expected: str) -> None:
    assert found() == expected


def test_a_seat_is_found_by_its_name() -> None:
    inside = "agent-environment:index:Environment$agent-environment:index:Workspace"
    access_point = Resource(urn("aws:efs/accessPoint:AccessPoint", "x", inside), "aws:efs/accessPoint:AccessPoint")
    seat = replace(access_point, parent="urn:pulumi:prod::p::agent-environment:index:Workspace::agents-release-desk")
    assert place(seat) == "stack.yaml:11"


def test_the_line_of_the_program_is_the_second_location() -> None:
    found = locations(
        at(resource(FILE_SYSTEM, "fs"), "components/storage/storage.py", 122), "", "s.yaml", parse(STACK_FILE)
    )
    assert [str(location) for location in found] == ["s.yaml:2", "components/storage/storage.py:122"]


@pytest.mark.parametrize(
    "inputs",
    [
        {"tags": {"sandbox-class": "web"}},
        {"metadata": {"labels": {"sandbox.users.io/class": "web"}}},
        {"metadata": {"namespace": "sandbox-web"}},
        {"kind": "Namespace", "metadata": {"name": "sandbox-web"}},
    ],
)
def test_the_class_of_a_resource_is_found(inputs: dict[str, Any]) -> None:
    assert class_of(resource("x:y:Z", "z", inputs)) == "web"
    assert class_of(resource("x:y:Z", "z", {"metadata": {"name": "sandbox-web"}})) is None

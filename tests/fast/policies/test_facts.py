"""Facts in the rules, checked against their sources."""

import json
from pathlib import Path
from typing import get_args

from agentenv.config import read
from agentenv.config.sections.cluster import Version
from agentenv.core.classes.plan import plans
from agentenv.core.classes.releases import templates
from agentenv.policies.offline import findings_of, resources_of_objects
from agentenv.policies.rules.cluster.control_plane import OLDEST_MINOR
from agentenv.policies.rules.cost.owners import taggable_types
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Verdict
from agentenv.policies.view.environment import PolicyContext
from tests.fast.config.stack_samples import ACCESS


def test_every_version_in_the_settings_is_in_standard_support() -> None:
    [offered] = [get_args(argument) for argument in get_args(Version) if get_args(argument)]
    assert min(int(version.partition(".")[2]) for version in offered) == OLDEST_MINOR


def test_taggable_types_are_those_of_the_official_schema(facts: Path) -> None:
    schema = json.loads((facts / "aws-schema.json").read_text(encoding="utf-8"))
    official = {kind for kind, resource in schema["resources"].items() if "tags" in resource["inputs"]}
    assert len(official) > 40
    assert {kind for kind in schema["resources"] if kind in taggable_types()} == official


def test_types_with_other_tags_are_not_taggable() -> None:
    assert "aws:efs/fileSystem:FileSystem" in taggable_types()
    # A mount target has none, a scaling group lists them, a resource group of DevOps Guru means others
    for kind in ("efs/mountTarget:MountTarget", "autoscaling/group:Group"):
        assert f"aws:{kind}" not in taggable_types()


def test_the_templates_of_classes_have_the_gate_that_their_settings_need() -> None:
    image = f"registry.example.com/sandbox@sha256:{'0' * 64}"
    classes = [
        {"name": "standard", "image": image, "resources": {"cpu": "100m", "memory": "512Mi"}},
        {"name": "kernel", "image": image, "tier": "untrusted", "resources": {"cpu": "100m", "memory": "512Mi"}},
    ]
    settings = read({"aws:region": "us-east-1", **ACCESS, "agent-environment:sandboxClasses": classes}, "dev")
    context = PolicyContext(settings=settings)
    documents = [document for plan in plans(settings) for document in templates(plan)]
    chosen = [rule for rule in all_rules() if rule.id in {"NET-22", "IMG-02", "POD-17", "POD-22"}]
    findings = findings_of(resources_of_objects(documents, context), context, chosen)
    assert {finding.verdict for finding in findings} == {Verdict.PASS}
    del documents[0]["spec"]["podTemplate"]["spec"]["initContainers"]
    findings = findings_of(resources_of_objects(documents, context), context, chosen)
    assert [finding.rule for finding in findings if finding.verdict is Verdict.FAIL] == ["NET-22"]

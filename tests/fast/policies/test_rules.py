"""Every rule has good, bad and unknown samples, and exactly the findings that they expect."""

import re
from collections import Counter

import pytest

from agentenv.policies.offline import findings_of
from agentenv.policies.reference import FAMILIES
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.samples import RULES as FOLDER
from agentenv.policies.samples import Sample, samples_of
from agentenv.policies.verdicts import Finding, Verdict

RULES = {rule.id: rule for rule in all_rules()}
SAMPLES = [sample for rule in RULES for sample in samples_of(rule)]
MINIMUM = {"good": 2, "bad": 2, "unknown": 1}
REQUIRED_VERDICTS = {"good": None, "bad": Verdict.FAIL, "unknown": Verdict.INDETERMINATE}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_samples_and_a_header(rule: str) -> None:
    counts = Counter(sample.sort for sample in SAMPLES if sample.rule == rule)
    assert {sort: counts[sort] >= minimum for sort, minimum in MINIMUM.items()} == dict.fromkeys(MINIMUM, True)
    header = RULES[rule]
    assert re.fullmatch(r"[A-Z]{2,4}-\d\d", rule)
    assert header.family in FAMILIES, "the reference has no place for it"
    assert header.title[0].isupper()
    assert not header.title.endswith(".")
    assert header.why.endswith(".")
    assert header.fix.endswith(".")


def test_samples_of_deleted_rules_are_deleted() -> None:
    assert {folder.name for folder in FOLDER.glob("*/samples/*")} == set(RULES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.rule} {sample.name}")
def test_a_sample_leads_to_exactly_its_findings(sample: Sample) -> None:
    findings = findings_of(sample.resources, sample.context, [RULES[sample.rule]])
    assert (
        Counter(_as_expected(sample, finding) for finding in findings if finding.verdict is not Verdict.PASS)
        == sample.expected
    )
    assert all("failed to run" not in finding.message for finding in findings)
    # A good sample without any finding, not even a pass, would prove nothing
    assert findings
    required = REQUIRED_VERDICTS[sample.sort]
    verdicts = {verdict for _, verdict, _ in sample.expected}
    if required is None:
        assert not verdicts & {Verdict.FAIL, Verdict.INDETERMINATE}
    else:
        assert required in verdicts


def _as_expected(sample: Sample, finding: Finding) -> tuple[str, Verdict, str]:
    names = {resource.urn: resource.name for resource in sample.resources}
    return names.get(finding.urn, ""), finding.verdict, finding.path


# The first reports policies for all pods of a namespace, which isolate it; the second also pods without a user id.
NO_EQUIVALENTS = {"restrict-networkpolicy-empty-podselector", "CKV_K8S_40"}


def test_no_rule_claims_an_equivalent_that_checks_something_else() -> None:
    claimed = {name for rule in all_rules() for names in rule.equivalents.values() for name in names}
    assert len(claimed) > 100
    assert claimed & NO_EQUIVALENTS == set()

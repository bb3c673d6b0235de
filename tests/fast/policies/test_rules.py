"""Every rule against the samples beside it: the exact findings, and no rule without good, bad and unknown samples."""

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
LEAST = {"good": 2, "bad": 2, "unknown": 1}
WANTED = {"good": None, "bad": Verdict.FAIL, "unknown": Verdict.INDETERMINATE}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_samples_and_a_header(rule: str) -> None:
    counted = Counter(sample.sort for sample in SAMPLES if sample.rule == rule)
    assert {sort: counted[sort] >= least for sort, least in LEAST.items()} == dict.fromkeys(LEAST, True)
    header = RULES[rule]
    assert re.fullmatch(r"[A-Z]{2,4}-\d\d", rule)
    assert header.family in FAMILIES, "the reference has no place for it"
    assert header.title[0].isupper()
    assert not header.title.endswith(".")
    assert header.why.endswith(".")
    assert header.fix.endswith(".")


def test_no_samples_are_left_of_a_rule_that_went() -> None:
    assert {folder.name for folder in FOLDER.glob("*/samples/*")} == set(RULES)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.rule} {sample.name}")
def test_a_sample_leads_to_exactly_its_findings(sample: Sample) -> None:
    findings = findings_of(sample.resources, sample.context, [RULES[sample.rule]])
    assert Counter(_seen(sample, one) for one in findings if one.verdict is not Verdict.PASS) == sample.expected
    assert all("failed to run" not in one.message for one in findings)
    # A good sample that the rule never looks at would prove nothing
    assert findings
    wanted = WANTED[sample.sort]
    verdicts = {verdict for _, verdict, _ in sample.expected}
    if wanted is None:
        assert not verdicts & {Verdict.FAIL, Verdict.INDETERMINATE}
    else:
        assert wanted in verdicts


def _seen(sample: Sample, finding: Finding) -> tuple[str, Verdict, str]:
    names = {resource.urn: resource.name for resource in sample.resources}
    return names.get(finding.urn, ""), finding.verdict, finding.path

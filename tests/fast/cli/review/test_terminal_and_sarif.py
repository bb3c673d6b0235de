"""The review on a terminal and as SARIF."""

from __future__ import annotations

import io
import re
from typing import Any

from agentenv.cli.review.changes import Change
from agentenv.cli.review.formats import terminal
from agentenv.cli.review.formats.sarif import as_sarif
from agentenv.cli.review.losses import Loss
from agentenv.policies.rules.registry import all_rules
from agentenv.policies.verdicts import Verdict
from tests.fast.cli.review.resources import FILE_SYSTEM, created, judged, report, urn, waiver
from tests.fast.cli.review.sarif_form import wrong_in
from tests.fast.cli.review.test_markdown import whole

FS = urn(FILE_SYSTEM, "fs")


def lines(review: Any, width: int | None = None) -> list[str]:
    out = io.StringIO()
    terminal.write(review, out, width)
    return out.getvalue().splitlines()


def test_the_terminal_has_all_sections_in_order() -> None:
    text = "\n".join(lines(whole()))
    order = [
        "Blocked",
        "Data at risk",
        "Findings:",
        "Capabilities of sandboxes",
        "Quotas",
        "Cost:",
        "Changes:",
        "Limits",
    ]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    for expected in (
        FS,
        "POD-01 Critical, blocks: Nothing is bad",
        "fix: Do better.",
        "encrypted: false -> true",
        "Cost: no figure: this version cannot read the settings of the stack file",
    ):
        assert expected in text


def test_lines_are_wrapped_on_a_terminal_alone() -> None:
    loss = Loss(Change("delete", FS, FILE_SYSTEM), "every file " * 20)
    assert any(len(line) > 200 for line in lines(report(losses=[loss])))
    wrapped = [line for line in lines(report(losses=[loss]), 80) if FS not in line]
    assert max(map(len, wrapped)) <= 80


def test_control_characters_are_escaped() -> None:
    assert "\x1b" not in "\n".join(lines(report(failure="\x1b[2Jgone", notes=["[red]x[/red]\x1b]0;t\x07"])))


def test_only_the_first_of_many_changes_are_shown() -> None:
    displayed_value = lines(report(changes=created(100)))
    assert any("… and 60 more rows; --format json has them all" in line for line in displayed_value)
    assert len(displayed_value) < 60


def test_a_run_of_sarif_is_well_formed() -> None:
    assert wrong_in(as_sarif(whole(), "stacks/Pulumi.prod.yaml")) == []
    assert wrong_in(as_sarif(report(), "stacks/Pulumi.prod.yaml")) == []
    assert wrong_in(as_sarif(report(failure="it does not run"), "stacks/Pulumi.prod.yaml")) == []


def results(review: Any) -> dict[str, dict[str, Any]]:
    return {result["ruleId"]: result for result in as_sarif(review, "stacks/Pulumi.prod.yaml")["runs"][0]["results"]}


def test_every_finding_except_fixed_ones_is_a_result() -> None:
    found = results(whole())
    assert sorted(found) == ["EFS-01", "EFS-02", "LOSS-01", "POD-01"]
    assert {rule: result["baselineState"] for rule, result in found.items()} == {
        "POD-01": "new",
        "EFS-01": "unchanged",
        "EFS-02": "unchanged",
        "LOSS-01": "new",
    }


def test_a_result_is_located_in_the_stack_file_and_the_program() -> None:
    result = results(whole())["POD-01"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("stacks/Pulumi.prod.yaml", 7)
    assert result["locations"][0]["logicalLocations"] == [{"fullyQualifiedName": FS, "kind": "resource"}]
    related = result["relatedLocations"][0]["physicalLocation"]
    assert related["artifactLocation"]["uri"] == "components/storage/storage.py"


def test_a_waived_result_is_suppressed_with_its_owners() -> None:
    (suppression,) = results(report(findings=[judged(state="waived", blocks=False, waiver=waiver())]))["POD-01"][
        "suppressions"
    ]
    assert suppression["kind"] == "external"
    assert suppression["status"] == "accepted"
    assert "it goes in May (storage, security, OPS-1)" in suppression["justification"]


def test_an_indeterminate_result_is_a_warning() -> None:
    result = results(report(findings=[judged(verdict=Verdict.INDETERMINATE)]))["POD-01"]
    assert result["level"] == "warning"
    assert result["message"]["text"].startswith("Not known yet")


def test_fingerprints_do_not_depend_on_messages_and_lines() -> None:
    first = results(report(findings=[judged()]))["POD-01"]["partialFingerprints"]
    second = results(report(findings=[judged(message="said otherwise", locations=[])]))["POD-01"]["partialFingerprints"]
    elsewhere = results(report(findings=[judged(path="kmsKeyId")]))["POD-01"]["partialFingerprints"]
    assert first == second
    assert first != elsewhere


def test_every_rule_has_a_valid_descriptor() -> None:
    findings = [judged(rule.id, rule.severity, title=rule.title) for rule in all_rules()]
    log = as_sarif(report(findings=findings), "stacks/Pulumi.prod.yaml")
    assert wrong_in(log) == []
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in all_rules()]
    assert all(re.fullmatch(r"\d\.\d", rule["properties"]["security-severity"]) for rule in rules)

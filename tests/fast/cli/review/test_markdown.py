"""The review as a comment: the verdict first, escaped text, and the size limit."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from agentenv.cli.review.allowed_losses import Allowance
from agentenv.cli.review.changes import Change
from agentenv.cli.review.cost import costs
from agentenv.cli.review.formats.markdown import MAX_BYTES, as_markdown, code, marker, plain
from agentenv.cli.review.formats.report import Report
from agentenv.cli.review.losses import Loss
from agentenv.cli.review.quotas import QuotaNeed
from agentenv.cli.review.reach_changes import ClassChange
from agentenv.config import read
from agentenv.policies.verdicts import Verdict
from tests.fast.cli.review.resources import FILE_SYSTEM, TODAY, created, judged, report, urn, waiver
from tests.fast.config.stack_samples import config

FS = urn(FILE_SYSTEM, "fs")


def whole() -> Report:
    return report(
        changes=[Change("replace", FS, FILE_SYSTEM, ("encrypted",), "table"), *created(2)],
        values={FS: [("encrypted", "false", "true")]},
        losses=[Loss(Change("replace", FS, FILE_SYSTEM, ("encrypted",)), "every file")],
        findings=[
            judged(),
            judged("EFS-01", "Low", "existing", blocks=False),
            judged("EFS-02", "High", "waived", blocks=False, waiver=waiver()),
            judged("EFS-03", "High", "fixed", blocks=False),
        ],
        capabilities=[ClassChange("standard", ["web: for example 1.0.0.0"], ["git"])],
        needs=[QuotaNeed("quota: EFS file systems", 1, 3), QuotaNeed("quota: VPCs", 1, 1)],
        notes=["Offline."],
    )


def headings(text: str) -> list[str]:
    return re.findall(r"^#### (.+)$|<summary>(.+?)</summary>", text, re.MULTILINE)


def test_the_verdict_is_first_and_details_are_folded() -> None:
    text = as_markdown(whole())
    assert text.startswith("<!-- agentenv-review:prod -->\n")
    order = [heading or folded for heading, folded in headings(text)]
    assert order == [
        "Data at risk",
        "Findings",
        "Existing before this change: 1 Low",
        "Waived: 1 High",
        "Fixed by this change: 1 High",
        "Capabilities of sandboxes",
        "Quotas: 1 need changed",
        "Every change: 2 to create, 1 to replace",
        "Limits of this review",
    ]
    assert text.count("<details>") == text.count("</details>") == 6
    assert "this version cannot read the settings of the stack file" in text


def test_a_finding_has_its_location_its_fix_and_a_link_to_its_rule() -> None:
    text = as_markdown(report(findings=[judged()]))
    assert "[POD-01](docs/reference/policies.md#pod-01)** Critical, blocks: Nothing is bad" in text
    assert "**Fix:** Do better." in text
    assert "`stacks/Pulumi.prod.yaml:7`" in text


def test_an_indeterminate_finding_is_marked() -> None:
    text = as_markdown(report(findings=[judged(verdict=Verdict.INDETERMINATE, message="encrypted is not known yet")]))
    assert text.count("not known yet") == 1


def test_the_comment_names_the_reviewed_commit() -> None:
    assert "\nCompared with `main`, offline" in as_markdown(report())
    review = report()
    review.comparison = replace(review.comparison, commit="abc123")
    assert "\n`abc123` compared with `main`, offline" in as_markdown(review)


def test_the_verdict_is_the_first_line() -> None:
    assert "> [!CAUTION]\n> **Blocked**\n> - 1 finding that blocks: 1 Critical" in as_markdown(
        report(findings=[judged()])
    )
    assert "Nothing blocks this change" in as_markdown(report(findings=[judged(blocks=False)]))


def test_a_loss_has_its_urn_and_its_allowance() -> None:
    loss = whole().losses[0]
    assert f"`{FS}`" in as_markdown(report(losses=[loss]))
    allowed = replace(loss, allowed=Allowance(FS, "it moves", "storage", TODAY))
    text = as_markdown(report(losses=[allowed]))
    assert "Allowed until 2026-03-01 by storage: it moves." in text
    assert "Nothing blocks" in text


@pytest.mark.parametrize(
    "text", ["@everyone", "<img src=x>", "[a](javascript:b)", "`code`", "a|b", "# title", "**b**", "![x](y)"]
)
def test_markup_in_texts_is_escaped(text: str) -> None:
    escaped = plain(text)
    assert "<" not in escaped
    assert not re.search(r"(?<!\\)[`*\[\]|#!]", escaped.replace("&#8203;", ""))
    assert "`" not in code(text)[1:-1]
    assert "|" not in code(text)


def finished(text: str) -> str:
    """Return a text as rendered, where mentions and issues are found."""
    page = MarkdownIt("commonmark", {"html": True}).render(plain(text))
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize(
    "text", ["@org/security", "mail@example.com", "see #12", "org/repo#1", "GH-12 and gh-3", "\\@bob", "owner/r@12ab"]
)
def test_texts_mention_no_people_and_no_issues(text: str) -> None:
    assert not re.search(r"@\w|#\d|gh-\d", finished(text), re.IGNORECASE), finished(text)
    assert finished(text).strip().replace("\u200b", "") == text


def test_a_failure_is_shown_in_a_code_block() -> None:
    text = as_markdown(report(failure="line one\n```\n<b>line</b> three"))
    assert "```text\nline one\n'''\n<b>line</b> three\n```" in text
    assert "the program cannot be previewed" in text


@pytest.mark.parametrize("count", [0, 400, 5000])
def test_a_comment_always_fits_and_lists_what_it_cut(count: int) -> None:
    review = whole()
    review.changes += created(count)
    review.findings += [judged(urn=urn(FILE_SYSTEM, f"é{number}")) for number in range(count)]
    text = as_markdown(review)
    assert len(text.encode()) <= MAX_BYTES
    assert text.count("<details>") == text.count("</details>")
    assert ("Cut to fit a comment: " in text) is (count > 1000)
    if count > 1000:
        assert re.search(r"_… and \d+ more, cut to fit: `agentenv review --format json` has them all\._", text)
        assert "Data at risk" in text
        assert "Every change" in text


@pytest.mark.parametrize("letter", ["x", "é", "😀", "@", "<"])
def test_a_long_line_is_shortened(letter: str) -> None:
    review = whole()
    review.findings = [judged(message=letter * 90_000, urn=urn(FILE_SYSTEM, f"fs-{number}")) for number in range(3)]
    review.refused = [letter * 90_000]
    text = as_markdown(review)
    assert len(text.encode()) <= MAX_BYTES
    for escaped in ("Data at risk", "Every change", *(f"`fs-{number}`" for number in range(3))):
        assert escaped in text
    assert "…" in text


@pytest.mark.parametrize("length", [10, 300, 3000])
@pytest.mark.parametrize("letter", ["y", "😀"])
def test_long_failure_is_truncated_to_its_end(length: int, letter: str) -> None:
    review = whole()
    lines = [f"{number} {letter * length}" for number in range(1000)]
    review.failure = "\n".join([*lines, "ValueError: no homes today"])
    text = as_markdown(review)
    assert len(text.encode()) <= MAX_BYTES
    assert "\nValueError: no homes today\n```\n" in text
    assert re.search(r"```\n\n_… \d+ before these, cut to fit", text) or length == 10
    assert "Data at risk" in text


def test_a_section_without_rows_to_cut_is_cut_by_lines() -> None:
    review = report(failure="\n".join(str(number) * 9 for number in range(12)))
    most = len(as_markdown(review).encode()) - 10
    text = as_markdown(review, most)
    assert len(text.encode()) <= most
    assert text.count("```") % 2 == 0
    assert "has the rest" in text


def test_similar_changes_share_a_row_in_a_stable_order() -> None:
    changes = [Change("create", urn("a:b:C", f"rule-{number}"), "a:b:C") for number in range(9)]
    text = as_markdown(report(changes=changes))
    assert "- create b C `rule-0`, … 7 more …, `rule-8`" in text
    assert as_markdown(report(changes=changes[::-1])) == text


def test_the_marker_depends_on_the_stack_alone() -> None:
    assert marker("dev") == "<!-- agentenv-review:dev -->"
    assert marker("a --> b") == "<!-- agentenv-review:a-----b -->"


def test_costs_list_the_parts_that_change() -> None:
    before, after = read(config(), "dev"), read(config({"network": {"nat": "per-zone"}}), "dev")
    text = as_markdown(report(costs=costs(before, after)))
    assert "| NAT gateways | 36.50 | 73.00 | +36.50 |" in text
    assert "| **total** | " in text
    assert "For 100 users with 40 active hours a month" in text
    same = as_markdown(report(costs=costs(after, after)))
    assert "| no change | | | |" in same

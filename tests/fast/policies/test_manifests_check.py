"""`agentenv policies check` reads manifests as kubectl does, and fails for what it cannot read or evaluate."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from agentenv.cli.main import dispatch

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
CONTAINER = POD + "spec:\n  containers:\n  - name: web\n    securityContext: {FIELD}\n"

# What each manifest breaks, read as kubectl reads it
BROKEN = {
    "hostPID: y": (f"{POD}spec: {{hostPID: y}}\n", "POD-02"),
    "hostPID: on": (f"{POD}spec: {{hostPID: on}}\n", "POD-02"),
    "privileged: Y": (CONTAINER.replace("FIELD", "privileged: Y"), "POD-01"),
    "privileged: YES": (CONTAINER.replace("FIELD", "privileged: YES"), "POD-01"),
    "runAsUser: 0o0": (CONTAINER.replace("FIELD", "runAsNonRoot: y, runAsUser: 0o0"), "POD-06"),
    "runAsUser: 0b0": (CONTAINER.replace("FIELD", "runAsNonRoot: y, runAsUser: 0b0"), "POD-06"),
    "runAsUser: 0e5": (CONTAINER.replace("FIELD", "runAsNonRoot: y, runAsUser: 0e5"), "POD-06"),
    "a tag of another tool": (f"{POD}spec: !x {{hostPID: true}}\n", "POD-02"),
    "a tag of another tool above all": (f"!x\n{POD}spec: {{hostPID: true}}\n", "POD-02"),
    "our own tag": (f"{POD}spec: !unknown {{hostPID: true}}\n", "POD-02"),
    "a merge key below": (f"{POD}spec: {{hostPID: false, <<: {{hostPID: true}}}}\n", "POD-02"),
    "a list": ("apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, spec: {hostPID: y}}]\n", "POD-02"),
    "a list of pods": ("apiVersion: v1\nkind: PodList\nitems: [{spec: {hostPID: y}}]\n", "POD-02"),
    "a list that is called a pod": ("apiVersion: v1\nkind: Pod\nitems: [{spec: {hostPID: y}}]\n", "POD-02"),
    "a version with a slash": (f"{POD.replace('v1', '/v1')}spec: {{hostPID: true}}\n", "POD-02"),
    "JSON": (json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": {"hostPID": True}}), "POD-02"),
    "two objects of JSON": ('{"kind": "Pod", "apiVersion": "v1", "spec": {"hostPID": true}}{}', "POD-02"),
    "UTF-16": (f"\ufeff{POD}spec: {{hostPID: y}}\n", "POD-02"),
}  # fmt: skip


def check(text: str | bytes, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, str]:
    file = folder / "pod.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-16-le" if text[:1] == "\ufeff" else "utf-8"))
    code = dispatch(["policies", "check", str(file), *more])
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out


@pytest.mark.parametrize("name", BROKEN)
def test_manifests_are_read_as_kubectl_reads_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, rule = BROKEN[name]
    code, printed = check(text, tmp_path, capsys, "--json", "--rules", rule)
    answered = json.loads(printed.splitlines()[0])
    assert (code, answered["failed"], answered["unreadable"]) == (1, 1, [])
    assert [(finding["id"], finding["verdict"], finding["blocks"]) for finding in answered["findings"]] == [
        (rule, "fail", True)
    ]


# Kubernetes refuses them; a check that cannot tell must not pass them
UNDECIDED = {
    "privileged: 'true'": "neither true nor false",
    "privileged: !Ref Privileged": "neither true nor false",
    "privileged: maybe": "neither true nor false",
    "privileged: 1": "neither true nor false",
    "privileged: {a: b}": "neither true nor false",
}


@pytest.mark.parametrize("field", UNDECIDED)
def test_an_indeterminate_critical_rule_fails_the_check(
    field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CONTAINER.replace("{FIELD}", f"{{{field}}}")
    code, printed = check(text, tmp_path, capsys, "--rules", "POD-01")
    assert code == 1
    line = printed.splitlines()[0]
    assert "pod.yaml:7: web: Critical POD-01 is indeterminate, and so fails: " in line
    assert UNDECIDED[field] in line
    assert "write the value that Kubernetes documents" in line


def test_an_indeterminate_low_rule_does_not_fail_the_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONTAINER.replace("FIELD", "readOnlyRootFilesystem: 'true'")
    code, printed = check(text, tmp_path, capsys, "--rules", "POD-15")
    assert (code, "Low POD-15 is indeterminate: " in printed) == (0, True)


MANY = ", ".join(["*a{0}"] * 30)


def aliases(count: int, form: str) -> str:
    return "a0: &a0 {k: v}\n" + "".join(f"a{at}: &a{at} {form.format(at - 1)}\n" for at in range(1, count))


HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "nested lists": (f"{POD}x: {'[' * 20_000}", "line 4: it has more than 200 levels"),
    "nested mappings": (f"{POD}x: {'{a: ' * 20_000}", "line 4: it has more than 200 levels"),
    "nested blocks": (POD + "".join(f"{' ' * at}a:\n" for at in range(1000)), "line 204: it has more than 200 levels"),
    "nested JSON": ('{"a":' * 20_000, "line 1: it has more than 200 levels"),
    "nested JSON that ends": ('{"a":' * 300 + "1" + "}" * 300, "line 1: it has more than 200 levels"),
    "nested aliases": (
        POD + aliases(300, "[*a{0}]"),
        "line 203: it has more than 200 levels",
    ),
    "aliases without end": (
        POD + aliases(30, f"[{MANY}]"),
        "line 8: its aliases make it too large to be read",
    ),
    "merge keys without end": (
        POD + aliases(30, f"{{{{<<: [{MANY}]}}}}"),
        "its aliases make it too large to be read",
    ),
    "an anchor that holds itself": (f"{POD}x: &x [*x]\n", "line 4: the anchor &x holds itself"),
    "an anchor from another document": (f"{POD}x: &x y\n---\n{POD}x: *x\n", "line 9: there is no anchor &x above"),
    "a huge file": (b"#" * (16 * 2**20 + 1), "the file has more than 16 MiB"),
    "comments without end": (f"{POD}x: &a {'# ' * 10_000}\n  y\n", ""),
    "a huge number": (f"{POD}x: {'9' * 100_000}\n", ""),
    "a huge number in JSON": (f'{{"apiVersion": "v1", "kind": "Pod", "x": {"9" * 100_000}}}', "is too large"),
    "a huge key": (f"{POD}{'k' * 100_000}: 1\n", "line 4: "),
    "half of a surrogate pair": ('{"apiVersion": "v1", "kind": "Pod", "x": "\\ud800"}', "half of a surrogate pair"),
    "bytes": (bytes(range(256)), "line 2: the byte 0x80 is not UTF-8"),
    "a control character": (f"{POD}x: \x00\n", "line 4: the character U+0000"),
    "half of UTF-16": (b"\xff\xfea", "is not UTF-16"),
    "a template": (f"{POD}spec: {{{{ .Values.spec }}}}\n", "line 4: a mapping or list as a key; quote it, or render"),
    "a tab": (f"{POD}spec:\n\thostPID: true\n", "line 5: found character that cannot start any token; indent"),
    "an open bracket": (f"{POD}spec: [\n", "line 4: did not find expected node content"),
    "text below the end": (f"{POD}...\nspec: {{hostPID: true}}\n", "line 5: "),
    "text beside the separator": (f"{POD}--- {{a: b}}\n", "line 4: there is something else on the line of the ---"),
    "a number that JSON lacks": (f"{POD}x: .inf\n", "line 4: a number that is infinite or none"),
    "a key twice": (f"{POD}spec: {{hostPID: true}}\nspec: {{hostPID: false}}\n", "line 5: the key 'spec' twice"),
    "two keys of one text": (f"{POD}x: {{1: a, '1': b}}\n", "line 4: two keys become the text '1'"),
    "a tag with a comma": (f"{POD}spec: {{!x,y 'hostPID': true}}\n", "line 4: a tag with a comma behind it"),
    "the bare tag with a comma": (f"{POD}spec: {{!,y 'hostPID': true}}\n", "line 4: a tag with a comma behind it"),
    "a wrong tag": (f"{POD}x: !!int y\n", "line 4: !!int with something else"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_an_unreadable_document_is_one_line_and_a_failure(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, reason = HOSTILE[name]
    code, printed = check(text, tmp_path, capsys, "--rules", "POD-01")
    assert code == (1 if reason else 0)
    lines = [line for line in printed.splitlines() if ": not read: " in line]
    assert len(lines) == bool(reason)
    assert all("pod.yaml: not read: " in line and reason in line and len(line) < 300 for line in lines)


def test_an_unreadable_document_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"{POD}spec: {{hostPID: y}}\n---\nx: [\n---\n{POD}spec: {{hostPID: y}}\n"
    code, printed = check(text, tmp_path, capsys, "--json", "--rules", "POD-02")
    answered = json.loads(printed.splitlines()[0])
    assert (code, answered["failed"], len(answered["unreadable"])) == (1, 2, 1)


def test_an_empty_list_has_no_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = check("apiVersion: v1\nkind: List\nitems: []\n", tmp_path, capsys)
    assert code == 1
    assert "nothing was checked" in printed
    code, printed = check("apiVersion: v1\nkind: List\nitems: {}\n", tmp_path, capsys)
    assert code == 1
    assert "its items are not a list" in printed


TWO = f"""# The first document
---
{POD}spec:
  hostPID: true
  containers:
  - name: web
    securityContext: {{privileged: true}}
---
kind: List
apiVersion: v1
items:
- {{apiVersion: v1, kind: Pod, metadata: {{name: x}}, spec: {{hostPID: false}}}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: y}}
  spec:
    hostPID: true
"""


def test_a_finding_names_its_line_remedy_and_reference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, printed = check(TWO, tmp_path, capsys, "--rules", "POD-01,POD-02", "--json")
    answered = json.loads(printed.splitlines()[-1])
    found = [(row["id"], row["line"], row["path"]) for row in answered["findings"]]
    assert (code, found) == (
        1,
        [
            ("POD-02", 7, "spec.hostPID"),
            ("POD-01", 10, "spec.containers[0].securityContext.privileged"),
            ("POD-02", 20, "spec.hostPID"),
        ],
    )
    assert {row["reference"] for row in answered["findings"]} == {
        f"docs/reference/policies.md#{rule}" for rule in ("pod-01", "pod-02")
    }
    _, printed = check(TWO, tmp_path, capsys, "--rules", "POD-01,POD-02")
    assert printed.count("POD-02: Remove hostNetwork") == 1


@pytest.mark.parametrize(
    ("spec", "line", "message"),
    [
        ("spec: oops\n", 4, "it is not a mapping"),
        ("spec:\n  containers: {name: a, image: b}\n", 5, "it is not a list"),
        ("spec:\n  containers:\n  - [a]\n", 6, "it is not a mapping"),
    ],
)
def test_a_malformed_value_is_one_line(
    spec: str, line: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = check(f"{POD}{spec}", tmp_path, capsys, "--rules", "POD-01,POD-02,POD-04,POD-08,POD-12")
    lines = [row for row in printed.splitlines() if "pod.yaml" in row]
    assert (code, len(lines)) == (1, 1), printed
    assert f"pod.yaml:{line}: web: Critical POD-01 is indeterminate" in lines[0]
    assert message in lines[0]


def test_the_severity_decides_what_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONTAINER.replace("FIELD", "readOnlyRootFilesystem: false")
    for severity, expected in (("low", 1), ("Medium", 0), ("Critical", 0)):
        code, printed = check(text, tmp_path, capsys, "--rules", "POD-15", "--severity", severity)
        assert (code, "Low POD-15: " in printed) == (expected, True)
    assert dispatch(["policies", "check", str(tmp_path), "--severity", "odd"]) == 1
    assert "'Odd' is not a severity" in capsys.readouterr().err


def test_the_configuration_of_the_packs_applies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "packs.txt"

    def checked(**configuration: object) -> int:
        config.write_text(json.dumps(configuration), encoding="utf-8")
        text = f"{POD}spec: {{containers: [{{name: a, image: quay.io/a/b:1}}]}}\n"
        return check(text, tmp_path, capsys, "--rules", "IMG-02", "--config", str(config))[0]

    assert checked(registries=["quay.io/a"]) == 0
    assert checked(registries=["quay.io/c"]) == 1
    assert checked(registries=["quay.io/c"], rules={"IMG-02": "advisory"}) == 0
    assert checked(registries=["quay.io/c"], rules={"IMG-02": "disabled"}) == 0
    assert checked(registries=["quay.io/c"], enforcement={"prod": {"fail": ["Critical"]}}) == 0
    assert checked(registry=["quay.io/c"]) == 1


def test_waived_findings_are_shown_and_fail_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, file = f"{POD}spec: {{hostPID: true}}\n", tmp_path / "pod.yaml"
    waivers = tmp_path / "waivers.txt"
    today = datetime.now(UTC).date()
    row = {"id": "debugging", "rule": "POD-02", "environment": "prod", "reason": "r", "ticket": "OPS-1"}
    row |= {"owners": ["ann", "bob"], "created": today, "expires": today + timedelta(days=1)}
    row["urn"] = f"urn:pulumi:{file}#0::manifests::kubernetes:core/v1:Pod::web"
    waivers.write_text(yaml.safe_dump({"waivers": [row]}), encoding="utf-8")
    options = ("--rules", "POD-02", "--waivers", str(waivers))
    code, printed = check(text, tmp_path, capsys, *options)
    assert (code, "waived by debugging until" in printed) == (0, True)
    assert "1 waived" in printed
    row |= {"created": today - timedelta(days=9), "expires": today - timedelta(days=1)}
    waivers.write_text(yaml.safe_dump({"waivers": [row]}), encoding="utf-8")
    assert check(text, tmp_path, capsys, *options)[0] == 1


def test_findings_are_written_as_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sarif = tmp_path / "check.sarif"
    check(TWO, tmp_path, capsys, "--rules", "POD-02", "--sarif", str(sarif))
    (run,) = json.loads(sarif.read_text(encoding="utf-8"))["runs"]
    places = [result["locations"][0]["physicalLocation"] for result in run["results"]]
    assert [place["region"]["startLine"] for place in places] == [7, 20]
    assert {place["artifactLocation"]["uri"] for place in places} == {str(tmp_path / "pod.yaml")}
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["POD-02"]


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pod = b"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {hostNetwork: true}}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pod)))
    assert dispatch(["policies", "check", "-"]) == 1
    text = capsys.readouterr().out
    assert text.startswith("stdin:1: ")
    assert text.splitlines()[-1].startswith("1 object, ")

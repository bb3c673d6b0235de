"""The workflows: their lint, their permissions and their steps."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.cli.review.formats.markdown import marker
from agentenv.cli.review.formats.sarif import as_sarif
from tests.fast.cli.review.resources import judged, report, waiver
from tests.fast.cli.review.sarif_form import wrong_in
from tests.fast.workflows.steps import ROOT, WORKFLOWS, Machine, read, script, steps

BIN = Path(sys.executable).parent
GITLAB = ROOT / "examples" / "gitlab-ci.yml"
REVIEW, SELECTED = script("review.yml", "offline", "Review"), script("review.yml", "selected", "Review")
COMMENT = script("review.yml", "comment", "Write the comment of each stack, or bring it up to date")
PREVIEW = script("deploy-stack.yml", "preview", "Ask the account, and preview")
UP = script("deploy-stack.yml", "up", "Look again, and bring it up with both packs")
MAIN = script("main.yml", "findings", "Review")
NAMES = [path.name for path in WORKFLOWS]


def linted(*command: str) -> str:
    ended = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr


def test_the_workflows_are_valid_and_pass_the_security_linter() -> None:
    files = [str(path) for path in WORKFLOWS]
    assert not linted("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    assert not linted("zizmor", "--offline", "--no-progress", "--quiet", "--strict-collection", ".github")


def test_the_security_linter_finds_an_unsafe_workflow(tmp_path: Path) -> None:
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    text = (ROOT / ".github" / "workflows" / "review.yml").read_text(encoding="utf-8")
    (folder / "review.yml").write_text(text.replace("pull_request:", "pull_request_target:"), encoding="utf-8")
    assert "dangerous-triggers" in linted("zizmor", "--offline", "--no-progress", "--quiet", str(tmp_path / ".github"))


def test_the_gitlab_example_is_valid() -> None:
    assert not linted("check-jsonschema", "--builtin-schema", "vendor.gitlab-ci", str(GITLAB))


@pytest.mark.parametrize("name", NAMES)
def test_every_action_is_pinned_by_commit_with_its_version_in_a_comment(name: str) -> None:
    lines = (ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8").splitlines()
    used = [line.strip(" -") for line in lines if line.strip(" -").startswith("uses:")]
    assert used
    for line in used:
        assert line.startswith("uses: ./") or re.fullmatch(r"uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_has_the_same_version_everywhere() -> None:
    versions: dict[str, set[str]] = {}
    for _, _, step in steps():
        if "uses" in step:
            action, _, pin = step["uses"].partition("@")
            versions.setdefault(action, set()).add(pin)
    assert {action: pins for action, pins in versions.items() if len(pins) > 1} == {}


def jobs() -> list[tuple[str, str, dict[str, Any]]]:
    return [(name, job, described) for name in NAMES for job, described in read(name)["jobs"].items()]


def test_permissions_are_set_for_each_job_and_minimal() -> None:
    assert all(read(name)["permissions"] == {} for name in NAMES)
    permissions = {f"{name}/{job}": described.get("permissions") for name, job, described in jobs()}
    deploying = {"contents": "read", "id-token": "write"}
    assert permissions == {
        "review.yml/offline": {"contents": "read"},
        "review.yml/comment": {"pull-requests": "write", "security-events": "write", "actions": "read"},
        "review.yml/selected": deploying,
        "main.yml/findings": {"contents": "read"},
        "main.yml/alerts": {"security-events": "write", "actions": "read"},
        "deploy.yml/dev": deploying,
        "deploy.yml/staging": deploying,
        "deploy.yml/prod": deploying,
        "deploy-stack.yml/preview": deploying,
        "deploy-stack.yml/up": deploying,
        "test.yml/test": {"contents": "read"},
        "release.yml/build": {"contents": "read"},
        "release.yml/image": {"contents": "read", "packages": "write"},
        "release.yml/sign": {"packages": "write", "id-token": "write"},
        "release.yml/publish": {"contents": "write", "id-token": "write"},
    }


def test_a_fork_gets_no_secret_no_identity_and_no_write_token() -> None:
    review = read("review.yml")
    assert list(review["on"]) == ["pull_request"]
    assert "secrets" not in str(review)
    for name, job in review["jobs"].items():
        if "write" in job["permissions"].values():
            assert "head.repo.full_name == github.repository" in job["if"], name


def test_a_job_with_a_write_token_runs_no_code_of_the_pull_request() -> None:
    comment = read("review.yml")["jobs"]["comment"]
    assert not any("checkout" in step.get("uses", "") for step in comment["steps"])
    assert "make" not in COMMENT
    assert "agentenv review" not in COMMENT.replace("agentenv-review", "")


def test_no_text_of_a_pull_request_is_interpolated_in_a_script() -> None:
    assert [step for _, _, step in steps() if "${{" in step.get("run", "")] == []


def test_every_job_has_a_timeout_and_no_checkout_persists_credentials() -> None:
    for name, job, described in jobs():
        assert "uses" in described or int(described["timeout-minutes"]) <= 120, f"{name}/{job}"
    for _, job, step in steps():
        if "actions/checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] == "false", job


def test_updates_of_a_stack_are_serialized_and_need_approval() -> None:
    deploy = read("deploy-stack.yml")
    assert deploy["concurrency"] == {"group": "deploy-${{ inputs.stack }}", "cancel-in-progress": "false"}
    assert deploy["jobs"]["up"]["environment"] == "${{ inputs.stack }}"
    assert deploy["jobs"]["up"]["needs"] == "preview"
    assert [read("deploy.yml")["jobs"][job].get("needs") for job in ("dev", "staging", "prod")] == [
        None,
        "dev",
        "staging",
    ]


def test_cache_keys_depend_on_the_content_and_are_readable_for_pull_requests() -> None:
    caches = [(name, step["with"]) for name, _, step in steps() if "actions/cache@" in step.get("uses", "")]
    keys = {(name, cache["path"]): cache["key"] for name, cache in caches}
    tools, graphs = "~/.cache/agentenv/tools", "~/.cache/agentenv/review"
    # What a pull request saves only itself may read: main saves under the same keys
    assert keys["main.yml", tools] == keys["review.yml", tools] == keys["test.yml", tools]
    assert "hashFiles('uv.lock', 'agentenv/rehearsal/tools/**')" in keys["main.yml", tools]
    assert keys["main.yml", graphs].replace("github.sha", "…") == (
        keys["review.yml", graphs].replace("github.event.pull_request.base.sha", "…")
    )
    assert read("main.yml")["on"] == {"push": {"branches": ["main"]}}
    assert not {"deploy-stack.yml", "release.yml"} & {name for name, _ in caches}


@pytest.mark.parametrize("text", [step["run"] for _, _, step in steps() if "run" in step])
def test_every_shell_step_is_a_script(text: str) -> None:
    assert subprocess.run(["bash", "-n", "-c", text], check=False).returncode == 0


AROUND = {"STACK": "prod", "BASE": "abc", "COMMIT": "def", "LINKS": "there"}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, {**AROUND, "PULL_REQUEST": "7", "GH_TOKEN": "t", "RUN": "the/run"})


WRITES = 'mkdir -p review/prod; echo "said" > review/prod/review.md; exit '


@pytest.mark.parametrize("code", [0, 1])
def test_the_review_is_in_the_summary_and_fails_if_it_blocks(machine: Machine, code: int) -> None:
    machine.does("agentenv", f"{WRITES}{code}")
    assert machine.run(REVIEW) == code
    assert machine.summary.read_text(encoding="utf-8") == "said\n"
    (command,) = machine.called("agentenv")
    for part in (
        "[review] [--stack] [prod] [--offline] [--base] [abc] [--commit] [def]",
        "[--format] [markdown,sarif,json]",
        "[review/prod]",
    ):
        assert part in command


def test_a_review_without_output_still_fails(machine: Machine) -> None:
    machine.does("agentenv", "exit 1")
    assert machine.run(REVIEW) == 1
    assert machine.summary.read_text(encoding="utf-8") == ""


def test_the_review_of_a_real_stack_logs_in_and_detects_drift(machine: Machine) -> None:
    machine.does("agentenv", f"{WRITES}1")
    assert machine.run(SELECTED, PULUMI_BACKEND_URL="s3://state") == 1
    assert machine.called() == [
        "pulumi [login]",
        (
            "agentenv [review] [--stack] [prod] [--base] [abc] [--drift] [--commit] [def] [--links] [there]"
            " [--format] [markdown] [--out] [review/prod]"
        ),
    ]


def write_reviews(machine: Machine, *stacks: str) -> None:
    for stack in stacks:
        folder = machine.work / "review" / stack
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "review.md").write_text(f"{marker(stack)}\n", encoding="utf-8")


def test_a_comment_is_created_once_and_then_updated(machine: Machine) -> None:
    write_reviews(machine, "dev", "staging", "prod")
    # The comment of prod stands; the marker decides, which only the filter of gh itself would look at
    machine.does("gh", 'case "$*" in *--paginate*) case "$MARKER" in *:prod*) echo 42; echo 43;; esac;; esac')
    assert machine.run(COMMENT) == 0
    changes = [line for line in machine.called("gh") if "--method" in line]
    assert changes == [
        (
            "gh [api] [--silent] [--method] [POST] [repos/team/platform/issues/7/comments]"
            " [--field] [body=@review/dev/review.md]"
        ),
        (
            "gh [api] [--silent] [--method] [POST] [repos/team/platform/issues/7/comments]"
            " [--field] [body=@review/staging/review.md]"
        ),
        (
            "gh [api] [--silent] [--method] [PATCH] [repos/team/platform/issues/comments/42]"
            " [--field] [body=@review/prod/review.md]"
        ),
    ]


def test_an_unfinished_review_replaces_the_comment_of_an_earlier_commit(machine: Machine) -> None:
    write_reviews(machine, "dev", "prod")
    machine.does("gh", 'case "$*" in *--paginate*) echo 42;; esac')
    assert machine.run(COMMENT) == 0
    changed = [line for line in machine.called("gh") if "[PATCH]" in line]
    assert [line.split("review/")[1] for line in changed] == [
        f"{name}/review.md]" for name in ("dev", "staging", "prod")
    ]
    text = (machine.work / "review" / "staging" / "review.md").read_text(encoding="utf-8")
    assert text.startswith(f"{marker('staging')}\n")
    assert "The review of `def` did not end:** [what happened](the/run)" in text
    assert (machine.work / "review" / "dev" / "review.md").read_text(encoding="utf-8") == f"{marker('dev')}\n"


def test_the_comment_is_found_by_the_marker_of_the_review() -> None:
    assert marker("$stack").replace("-stack", "$stack") in COMMENT
    assert "startswith($ENV.MARKER)" in COMMENT


def test_a_comment_that_cannot_be_written_fails_the_job(machine: Machine) -> None:
    write_reviews(machine, "dev")
    machine.does("gh", "exit 4")
    assert machine.run(COMMENT) != 0


def test_a_blocking_preview_prevents_the_approval_of_the_update(machine: Machine) -> None:
    machine.does("agentenv", 'if [ "$1" = review ]; then mkdir -p review; echo said > review/review.md; exit 1; fi')
    assert machine.run(PREVIEW) == 1
    assert [line.split()[1] for line in machine.called("agentenv")] == ["[preflight]", "[review]"]
    assert machine.summary.read_text(encoding="utf-8") == "said\n"


def test_a_failed_preflight_prevents_the_review(machine: Machine) -> None:
    machine.does("agentenv", "exit 1")
    assert machine.run(PREVIEW) == 1
    assert len(machine.called("agentenv")) == 1


def test_an_update_is_reviewed_again_and_runs_with_both_packs(machine: Machine) -> None:
    assert machine.run(UP) == 0
    login, review, update = machine.called()
    assert (login, review) == ("pulumi [login]", "agentenv [review] [--stack] [prod] [--drift]")
    assert "[up]" in update
    assert "[--policy-pack] [policies/isolation] [--policy-pack] [policies/cost]" in update
    assert "skip-preview" not in update


def test_a_review_that_blocks_later_prevents_an_approved_update(machine: Machine) -> None:
    machine.does("agentenv", "exit 1")
    assert machine.run(UP) == 1
    assert machine.called("pulumi") == ["pulumi [login]"]


def test_main_is_reviewed_with_itself_and_fails_only_if_the_review_does_not_finish(machine: Machine) -> None:
    machine.does("agentenv", 'mkdir -p "${13}"; echo "{}" > "${13}/review.sarif"; exit 1')
    assert machine.run(MAIN, GITHUB_SHA="abc") == 0
    commands = machine.called("agentenv")
    assert [line.split()[3] for line in commands] == ["[dev]", "[staging]", "[prod]"]
    assert all(
        "[--offline] [--base] [abc] [--commit] [abc] [--format] [sarif] [--without-waived] [--out] [review/" in line
        for line in commands
    )
    machine.does("agentenv", "exit 3")
    for stack in ("dev", "staging", "prod"):
        (machine.work / "review" / stack / "review.sarif").unlink()
    assert machine.run(MAIN, GITHUB_SHA="abc") == 3


@pytest.mark.parametrize("workflow", [REVIEW, MAIN])
def test_a_waived_finding_is_no_alert(machine: Machine, workflow: str) -> None:
    machine.does("agentenv", "exit 3")
    machine.run(workflow, GITHUB_SHA="abc")
    assert machine.called("agentenv")
    assert all("[--without-waived]" in line for line in machine.called("agentenv"))
    review = report(findings=[judged(), judged("EFS-02", state="waived", blocks=False, waiver=waiver())])
    left = as_sarif(review, "stacks/Pulumi.prod.yaml", waived=False)
    assert [result["ruleId"] for result in left["runs"][0]["results"]] == ["POD-01"]
    assert wrong_in(left) == []


def test_every_step_uses_programs_of_the_project() -> None:
    for _, _, step in steps():
        assert re.search(r"\bjq '|\bjq -", step.get("run", "")) is None


def test_alerts_are_uploaded_by_a_job_without_cache_and_code() -> None:
    found = read("main.yml")["jobs"]
    assert found["alerts"]["needs"] == "findings"
    used = {job: [step.get("uses", "").split("@")[0] for step in found[job]["steps"]] for job in found}
    assert used["alerts"] == ["actions/download-artifact", "github/codeql-action/upload-sarif"]
    assert used["findings"].count("actions/cache") == 2


def gitlab(job: str) -> str:
    described = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))[job]
    return "\n".join(described["script"])


def test_the_gitlab_review_has_the_same_options(machine: Machine) -> None:
    text = gitlab("offline").removeprefix("make setup\n")
    around = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "abc", "CI_PROJECT_URL": "there", "CI_COMMIT_SHA": "def"}
    assert machine.run(text, **around) == 0
    (command,) = machine.called("agentenv")
    assert (
        "[--offline] [--base] [abc] [--commit] [def] [--links] [there/-/blob/abc] [--format] [markdown,sarif,json]"
        in command
    )


GITLABS = {
    "CI_API_V4_URL": "api",
    "CI_PROJECT_ID": "3",
    "CI_MERGE_REQUEST_IID": "9",
    "CI_COMMIT_SHA": "def",
    "CI_PIPELINE_URL": "the/run",
}
# Who asks is 1; each page of notes is a file
ANSWERS = """case "$*" in
  *per_page*) cat "$FAKES/notes-${*##*page=}" 2>/dev/null || echo '[]';;
  */user*) echo '{"id": 1}';;
  *) ls .curlrc-review;;
esac"""


def note(number: int, body: str = "a commit was added", author: int = 1) -> dict[str, Any]:
    return {"id": number, "body": body, "author": {"id": author}}


def commented(machine: Machine, *pages: list[dict[str, Any]], trusted: bool = True) -> dict[str, str]:
    """Run the job on a merge request's notes, and return its writes by stack."""
    write_reviews(machine, "dev", "prod")
    machine.does("curl", ANSWERS)
    for number, notes in enumerate(pages, 1):
        (machine.fakes / f"notes-{number}").write_text(json.dumps(notes), encoding="utf-8")
    assert machine.run(gitlab("comment"), "sh", **GITLABS, REVIEW_TOKEN="very-secret" if trusted else "") == 0
    changes = [re.findall(r"\[([^]]*)\]", line) for line in machine.called("curl") if "[--request]" in line]
    assert "very-secret" not in machine.calls.read_text(encoding="utf-8")
    assert not (machine.work / ".curlrc-review").exists()
    return {
        change[-2].split("/")[1]: f"{change[-4]} {change[-1].removeprefix('api/projects/3/merge_requests/9/')}"
        for change in changes
    }


def test_the_gitlab_comment_is_created_once_and_then_updated(machine: Machine) -> None:
    writes = commented(machine, [note(5, "<!-- agentenv-review:prod -->\nsaid")])
    assert writes == {"dev": "POST notes", "staging": "POST notes", "prod": "PUT notes/5"}
    assert "did not end" in (machine.work / "review" / "staging" / "review.md").read_text(encoding="utf-8")


def test_the_gitlab_comment_is_found_on_any_page_of_notes(machine: Machine) -> None:
    pages = [[note(number) for number in range(100)], [note(200), note(201, "<!-- agentenv-review:prod -->")]]
    assert commented(machine, *pages)["prod"] == "PUT notes/201"


def test_notes_of_others_on_gitlab_are_not_changed(machine: Machine) -> None:
    theirs = note(5, "<!-- agentenv-review:prod --> ha", author=2)
    assert commented(machine, [theirs])["prod"] == "POST notes"
    assert commented(machine, [theirs, note(6, "<!-- agentenv-review:prod -->")])["prod"] == "PUT notes/6"


def test_the_gitlab_token_is_in_a_job_without_code_of_the_merge_request(machine: Machine) -> None:
    assert commented(machine, trusted=False) == {}
    jobs = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))
    assert [name for name, job in jobs.items() if isinstance(job, dict) and "environment" in job] == ["comment"]
    assert jobs["comment"]["environment"] == {"name": "review", "action": "access"}
    assert jobs["comment"]["variables"]["GIT_STRATEGY"] == "none"
    assert "REVIEW_TOKEN" not in str([job for name, job in jobs.items() if name != "comment"])
    assert "REVIEW_TOKEN" not in str(jobs["comment"]["rules"])

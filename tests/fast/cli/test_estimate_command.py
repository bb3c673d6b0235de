"""`agentenv estimate`: its table, its JSON, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentenv.cli.main import main
from agentenv.core.cost.assumptions import MOST, Assumptions, bounds

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def estimate(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["estimate", "--stack", "prod", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    found = estimate(capsys, "--users", "1000")
    assert {"fixed_month", "per_user_month", "break_even_users", "lines"} <= set(found)
    assert all({"part", "monthly", "basis"} <= set(line) for line in found["lines"])
    assert "by_users" not in found
    assert round(sum(line["monthly"] for line in found["lines"]), 2) == found["total_month"]
    fixed = sum(line["monthly"] for line in found["lines"] if line["fixed"])
    assert fixed == pytest.approx(found["fixed_month"], abs=0.011)
    assert found["per_user_month"] == round(found["total_month"] / 1000, 2)
    assert (found["users"], found["active_hours"], found["region"]) == (1000, 40.0, "us-east-1")
    assert found["prices"]["age_days"] > 0
    assert found["assumptions"]
    assert {row["name"] for row in found["by_class"]} == {"standard", "reviewer", "untrusted", "batch"}


def test_several_numbers_of_users_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    found = estimate(capsys, "--users", "10,100,1000", "--active-hours", "20")
    assert [row["users"] for row in found["by_users"]] == [10, 100, 1000]
    costs = [row["per_user_month"] for row in found["by_users"]]
    assert costs == sorted(costs, reverse=True)
    assert (found["users"], found["per_user_month"], found["active_hours"]) == (10, costs[0], 20.0)


def test_assumptions_and_mixes_change_the_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    usual = estimate(capsys, "--users", "100")
    larger = estimate(capsys, "--users", "100", "--assume", "home=10")
    mixed = estimate(capsys, "--users", "100", "--mix", "standard=0.5,untrusted=0.5", "--sensitivity")
    assert larger["per_user_month"] > usual["per_user_month"]
    assert next(assumption["value"] for assumption in larger["assumptions"] if assumption["name"] == "home") == 10.0
    parts = {line["part"] for line in mixed["lines"]}
    assert {"sandboxes: standard", "sandboxes: untrusted"} <= parts
    assert mixed["per_user_month"] > usual["per_user_month"]
    assert mixed["sensitivity"]


def test_the_text_has_every_line_every_assumption_and_the_age_of_prices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = estimate(capsys, "--users", "100,200")
    assert main(["estimate", "--stack", "prod", "--users", "100,200", "--sensitivity", "--compare", "HEAD"]) == 0
    text = capsys.readouterr().out
    for line in found["lines"]:
        assert line["part"] in text
        assert f"{line['monthly']:.2f}" in text
    for assumption in found["assumptions"]:
        assert assumption["says"] in text
    assert "days ago" in text
    assert "compared with HEAD" in text
    assert "change of the cost of a user" in text
    assert f"from {found['break_even_users']} users on" in text


def test_the_plot_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cost.svg"
    assert main(["estimate", "--stack", "prod", "--plot", str(file)]) == 0
    capsys.readouterr()
    assert file.read_text(encoding="utf-8").count("<path") > 6
    nowhere = tmp_path / "nowhere" / "cost.svg"
    assert main(["estimate", "--stack", "prod", "--plot", str(nowhere)]) == 1
    assert f"{nowhere} cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--stack", "nowhere"], "there is no"),
        (["--stack", "prod", "--assume", "hoem=3"], "no assumption 'hoem'"),
        (["--stack", "prod", "--mix", "standard=much"], "are numbers"),
        (["--stack", "prod", "--mix", "standard=0.5"], "sum to 0.5"),
        (["--stack", "prod", "--mix", "nobody=1"], "no class 'nobody'"),
        (["--stack", "prod", "--mix", "standard=nan"], "the share of standard is nan"),
        (["--stack", "prod", "--mix", "standard=1e999999999,reviewer=1"], "the share of standard is 1e999999999"),
        (["--stack", "prod", "--mix", "standard=2,reviewer=-1"], "the share of standard is 2; allowed is 0 to 1"),
        (
            ["--stack", "prod", "--assume", "home=1e999999"],
            "home is 1e999999; allowed is nothing below 0 and 1000000 at most",
        ),
        (["--stack", "prod", "--assume", "reads=1e30"], "reads is 1e30; allowed is nothing below 0"),
        (["--stack", "prod", "--assume", "node-fill=1e-30"], "node-fill is 1e-30; allowed is 0.001 to 1"),
        (["--stack", "prod", "--assume", "node-life=1e-9"], "node-life is 1e-9; allowed is nothing below 0.001"),
        (["--stack", "prod", "--assume", "home=nan"], "home is nan; allowed is nothing below 0"),
    ],
)
def test_invalid_values_are_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", *words]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("end", [0, 1], ids=["least", "most"])
def test_all_allowed_assumptions_can_be_estimated(end: int, capsys: pytest.CaptureFixture[str]) -> None:
    extremes = [f"{row.name}={bounds(row.name, row.kind)[end]}" for row in Assumptions().rows()]
    for assumed in (*extremes, ",".join(extremes)):
        found = estimate(capsys, "--users", "10000000", "--active-hours", "730", "--assume", assumed)
        assert found["total_month"] > 0
    # What moves it most is asked with each of them a fifth larger.
    assert estimate(capsys, "--assume", extremes[0], "--sensitivity")["sensitivity"]
    assert estimate(capsys, "--assume", f"home={MOST}", "--sensitivity")["sensitivity"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--users", "0"], "allowed is 1 to"),
        (["--users", "100,99999999999"], "99999999999 users cannot be estimated; allowed is 1 to"),
        (["--users", "many"], "not a list of numbers"),
        (["--active-hours", "731"], "a month has 730 hours"),
        (["--active-hours", "x"], "not a number of hours"),
        (["--active-hours", "nan"], "not a number of hours"),
        (["--active-hours", "inf"], "not a number of hours"),
        (["--mix", "a"], "not NAME=VALUE"),
    ],
)
def test_invalid_arguments_are_usage_errors(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["estimate", "--stack", "prod", *words])
    assert ended.value.code == 2
    estimate = capsys.readouterr().err
    assert "agentenv estimate: error" in estimate
    assert message in estimate


def test_hours_are_printed_without_an_exponent(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimate", "--stack", "prod", "--active-hours", "1e2"]) == 0
    assert "with 100 active hours" in capsys.readouterr().out


def test_a_region_without_prices_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "Pulumi.yaml").write_text((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    text = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text(encoding="utf-8").replace("us-east-1", "sa-east-1")
    (tmp_path / "stacks" / "Pulumi.far.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["estimate", "--stack", "far", "--json"]) == 1
    out, err = capsys.readouterr()
    assert "no prices of sa-east-1" in err
    assert "prices refresh --region sa-east-1" in json.loads(out.splitlines()[-1])["error"]


def test_a_stack_file_elsewhere_is_read_without_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = estimate(capsys, "--users", "100")
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_bytes((ROOT / "stacks" / file.name).read_bytes())
    monkeypatch.chdir(tmp_path)
    assert main(["estimate", "--file", str(file), "--users", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == expected
    assert main(["estimate", "--file", str(file), "--compare", "main"]) == 1
    assert "name it with --stack" in capsys.readouterr().err
    file.write_text("config: {}\n", encoding="utf-8")
    assert main(["estimate", "--file", str(file)]) == 1
    assert f"see `agentenv check --file {file}`" in capsys.readouterr().err

"""`agentenv cost report`: from the files of a month, or from AWS, to a page, a table and an export."""

from __future__ import annotations

import csv
import io
import json
import re
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from agentenv.cli.commands.cost import period
from agentenv.cli.main import FAILED, OK, CommandError, main
from agentenv.cli.reports.cost_statement import charge_in_period, rows_in_period
from agentenv.cli.reports.sources import athena_lines, athena_query, ledger_rows, table_rows
from agentenv.core.attribution.types import Charge
from agentenv.core.ledger.rows import Row
from agentenv.core.ledger.table import create_table
from agentenv.service.ledger.table import Ledger
from bench.month.export import export
from bench.month.record import START, Record, record
from bench.month.truth import Truth, truth
from bench.month.whole import month
from tests.fast.simulated_tables import table_client

OWNERS, SEED = 20, 11
DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Record, Truth]:
    simulated = month(OWNERS, SEED)
    observed = record(simulated, SEED)
    bill, ledger = export(simulated, observed, tmp_path_factory.mktemp("month"))
    return bill, ledger, observed, truth(simulated)


@pytest.fixture(scope="module")
def days(files: tuple[Path, Path, Record, Truth]) -> Path:
    """Return a bill of some days, which is read faster than a month."""
    bill, _, _, _ = files
    few = bill.with_name("days.csv")
    with bill.open() as whole, few.open("w") as part:
        part.writelines(line for line in whole if re.search(r"2026-10-0[6-9]T|^bill_", line))
    return few


@pytest.fixture(scope="module")
def output_files(files: tuple[Path, Path, Record, Truth]) -> tuple[dict[str, Any], str, Path]:
    """Run the command for a whole month, and return its figures, its text and the folder with its files."""
    bill, ledger, _, _ = files
    folder, output = bill.parent, io.StringIO()
    options = ["--since", "2026-10-01", "--until", "2026-10-30", "--bill", str(bill), "--ledger", str(ledger)]
    out = ["--html", str(folder / "cost.html"), "--focus", str(folder / "cost.parquet"), "--json"]
    with redirect_stdout(output):
        assert main(["cost", "report", *options, *out, "--stack", "prod"]) == OK
    return json.loads(output.getvalue().splitlines()[-1]), output.getvalue(), folder


def test_every_cent_is_attributed_and_each_owner_is_near_the_exact_cost(
    output_files: tuple[dict[str, Any], str, Path], files: tuple[Path, Path, Record, Truth]
) -> None:
    _, _, observed, exact = files
    figures, text, _ = output_files
    bill = sum((charge.amount for charge in observed.charges), Decimal(0))
    assert figures["bill"] == figures["attributed"] == float(bill.quantize(Decimal("0.01")))
    assert round(sum(figures["parts"].values()), 2) == figures["bill"]
    # The nodes of pods and the warm time come from the bill's lines of pods.
    for row in figures["owners"]:
        assert row["dollars"] == pytest.approx(exact.total(row["owner"]), rel=0.012, abs=0.011)
    assert "Warm slots" in text


def test_the_page_is_self_contained_and_has_the_figures(output_files: tuple[dict[str, Any], str, Path]) -> None:
    figures, _, folder = output_files
    page = (folder / "cost.html").read_text()
    assert figures["written"] == [str(folder / "cost.html"), str(folder / "cost.parquet")]
    assert f"${figures['bill']:,.2f}" in page
    assert all(owner["owner"] in page for owner in figures["owners"])
    assert page.count("<rect") > 100
    assert "prefers-color-scheme: dark" in page
    assert "default-src 'none'" in page
    assert not re.search(r"(src|href)=|<script|url\(|@import|https?://", page)
    assert "cap $3.00" in page


def test_a_shorter_period_has_its_share_of_the_bill(
    files: tuple[Path, Path, Record, Truth], days: Path, tmp_path: Path
) -> None:
    _, ledger, observed, _ = files
    file = tmp_path / "cost.csv"
    time = ["--since", "2026-10-06", "--until", "2026-10-08"]
    assert main(["cost", "report", *time, "--bill", str(days), "--ledger", str(ledger), "--focus", str(file)]) == OK
    begin, end = START + 5 * DAY, START + 8 * DAY
    exact = sum((charge.amount for charge in observed.charges if begin <= charge.began < end), Decimal(0))
    with file.open(newline="") as stream:
        message = sum(Decimal(line["BilledCost"]) for line in csv.DictReader(stream))
    assert message == exact


def test_a_missing_option_is_named(
    files: tuple[Path, Path, Record, Truth], days: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bill, ledger = days, files[1]
    for options, message in (
        ([], "--ledger FILE"),
        (["--ledger", str(ledger)], "--bill PATH"),
        (["--table", "t", "--bill", str(bill)], "give the --stack"),
        (["--ledger", str(ledger), "--bill", str(bill), "--since", "2020-01-01", "--until", "2020-01-02"], "no lines"),
        (["--ledger", str(bill), "--bill", str(bill)], "is not a row of the ledger"),
        (["--ledger", str(ledger), "--bill", str(ledger)], "is not a bill"),
        (["--ledger", str(ledger), "--bill", str(bill), "--since", "tomorrow"], "is not a day"),
    ):
        assert main(["cost", "report", *options]) == FAILED
        assert message in capsys.readouterr().err


def test_a_file_without_the_columns_of_a_bill_is_an_error(
    files: tuple[Path, Path, Record, Truth], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert main(["cost", "report", "--ledger", str(files[1]), "--bill", str(tmp_path)]) == FAILED
    assert "is not a CUR 2.0 export: it has no line_item_line_item_type" in capsys.readouterr().err


HEAD = (
    "line_item_usage_start_date,line_item_usage_end_date,line_item_line_item_type,line_item_usage_type,"
    "line_item_product_code,line_item_resource_id,line_item_unblended_cost\n"
)
HOUR_OF = "2026-10-06T00:00:00Z,2026-10-06T01:00:00Z,Usage,NatGateway-Hours,AmazonEC2,nat-1"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("cut.parquet", b"PAR1", "is not Parquet, or is truncated"),
        ("other.csv", (HEAD + "\xff").encode("latin-1"), "is not CSV in UTF-8"),
        ("words.csv", f"{HEAD}{HOUR_OF},much\n".encode(), "line 1 of the bill is invalid"),
        ("nan.csv", f"{HEAD}{HOUR_OF},0.045\n{HOUR_OF},NaN\n".encode(), "line 2 of the bill is invalid"),
        ("never.csv", f"{HEAD}never,{HOUR_OF[21:]},0.045\n".encode(), "line_item_usage_start_date is never"),
        ("cut.csv", f"{HEAD}{HOUR_OF}\n".encode(), "line_item_unblended_cost is empty"),
    ],
)
def test_an_invalid_bill_is_an_error(
    name: str, content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bill, ledger = tmp_path / name, tmp_path / "ledger.jsonl"
    bill.write_bytes(content)
    ledger.write_text("")
    time = ["--since", "2026-10-06", "--until", "2026-10-06"]
    assert main(["cost", "report", *time, "--bill", str(bill), "--ledger", str(ledger)]) == FAILED
    assert message in capsys.readouterr().err


def test_an_invalid_ledger_and_an_unwritable_file_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bill, ledger = tmp_path / "bill.csv", tmp_path / "ledger.jsonl"
    bill.write_text(f"{HEAD}{HOUR_OF},0.045\n")
    ledger.write_bytes(b"\xff\xfe")
    options = ["cost", "report", "--since", "2026-10-06", "--until", "2026-10-07", "--bill", str(bill)]
    assert main([*options, "--ledger", str(ledger)]) == FAILED
    assert "ledger.jsonl:1 is not a row of the ledger" in capsys.readouterr().err
    ledger.write_text("")
    page = tmp_path / "nowhere" / "cost.html"
    assert main([*options, "--ledger", str(ledger), "--html", str(page)]) == FAILED
    assert f"{page} cannot be written: No such file or directory" in capsys.readouterr().err
    assert main([*options[:3], "2020-01-01", *options[4:], "--until", "2020-01-02", "--ledger", str(ledger)]) == FAILED
    assert "no lines from 2020-01-01 to 2020-01-02" in capsys.readouterr().err


def test_a_page_without_a_name_is_written_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bill.csv").write_text(f"{HEAD}{HOUR_OF},1.25\n")
    (tmp_path / "ledger.jsonl").write_text("")
    monkeypatch.chdir(tmp_path)
    time = ["--since", "2026-10-06", "--until", "2026-10-06"]
    assert main(["cost", "report", *time, "--bill", "bill.csv", "--ledger", "ledger.jsonl", "--html"]) == OK
    assert "$1.25" in (tmp_path / "cost-report.html").read_text(encoding="utf-8")


def test_names_are_escaped(files: tuple[Path, Path, Record, Truth], days: Path, tmp_path: Path) -> None:
    ledger = files[1]
    evil = tmp_path / "ledger.jsonl"
    evil.write_text(ledger.read_text().replace("u-0003", "<script>alert(1)</script>"))
    page = tmp_path / "cost.html"
    options = ["--since", "2026-10-06", "--until", "2026-10-08", "--bill", str(days), "--ledger", str(evil)]
    assert main(["cost", "report", *options, "--html", str(page)]) == OK
    assert "<script" not in page.read_text()
    assert "&lt;script&gt;alert(1)" in page.read_text()


def test_rows_are_read_from_the_ledgers_table(files: tuple[Path, Path, Record, Truth]) -> None:
    rows = files[2].rows[:20]
    with table_client(create_table("ledger")) as client:
        for row in rows:
            Ledger(client, "ledger").put(row)
        found = table_rows(client, "ledger", START, START + 30 * DAY)
        assert sorted(found, key=str) == sorted(rows, key=str)
        with pytest.raises(CommandError, match="cannot be read"):
            table_rows(client, "another", START, START + DAY)


def test_the_ledgers_file_has_the_same_rows(files: tuple[Path, Path, Record, Truth]) -> None:
    assert ledger_rows(files[1]) == files[2].rows


ANSWER = {
    "ResultSet": {
        "Rows": [
            {"Data": [{"VarCharValue": "line_item_usage_type"}, {"VarCharValue": "line_item_unblended_cost"}]},
            {"Data": [{"VarCharValue": "NatGateway-Bytes"}, {}]},
        ]
    }
}


def athena(*states: str) -> tuple[Any, Stubber]:
    client: Any = boto3.client("athena", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    stub = Stubber(client)
    request = {
        "QueryString": athena_query(START, START + DAY),
        "QueryExecutionContext": {"Database": "usage"},
        "WorkGroup": "usage-prod",
    }
    stub.add_response("start_query_execution", {"QueryExecutionId": "q-1"}, request)
    for state in states:
        message = {"QueryExecution": {"Status": {"State": state, "StateChangeReason": "too much to read"}}}
        stub.add_response("get_query_execution", message, {"QueryExecutionId": "q-1"})
    return client, stub


def test_an_athena_query_is_polled_and_read_with_all_pages() -> None:
    client, stub = athena("QUEUED", "RUNNING", "SUCCEEDED")
    more = {"ResultSet": {"Rows": [{"Data": [{"VarCharValue": "Hours"}, {"VarCharValue": "0.1"}]}]}}
    stub.add_response("get_query_results", {**ANSWER, "NextToken": "more"}, {"QueryExecutionId": "q-1"})
    stub.add_response("get_query_results", more, {"QueryExecutionId": "q-1", "NextToken": "more"})
    waited: list[float] = []
    with stub:
        lines = list(athena_lines(client, "usage", "usage-prod", (START, START + DAY), waited.append))
    assert lines == [
        {"line_item_usage_type": "NatGateway-Bytes", "line_item_unblended_cost": None},
        {"line_item_usage_type": "Hours", "line_item_unblended_cost": "0.1"},
    ]
    assert len(waited) == 2
    stub.assert_no_pending_responses()


def test_a_failed_athena_query_is_an_error() -> None:
    client, stub = athena("FAILED")
    with stub, pytest.raises(CommandError, match="too much to read"):
        list(athena_lines(client, "usage", "usage-prod", (START, START + DAY), lambda _: None))


def test_a_rejected_athena_query_is_an_error() -> None:
    client: Any = boto3.client("athena", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
    stub = Stubber(client)
    stub.add_client_error("start_query_execution", "InvalidRequestException", "there is no such workgroup")
    with stub, pytest.raises(CommandError, match=r"the request to Athena failed: .* no such workgroup"):
        list(athena_lines(client, "usage", "usage-prod", (START, START + DAY), lambda _: None))


NOW = datetime(2026, 11, 2, 15, tzinfo=UTC)


def test_a_period_is_whole_days_to_yesterday() -> None:
    assert period("30d", None, NOW) == (datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 11, 2, tzinfo=UTC))
    assert period("2026-10-01", "2026-10-01", NOW) == (START, START + DAY)
    with pytest.raises(CommandError, match="is not before the end"):
        period("2026-10-02", "2026-10-01", NOW)
    for since, until in (("30d", "0001-01-05"), ("30d", "9999-12-31")):
        with pytest.raises(CommandError, match="outside the calendar"):
            period(since, until, NOW)


def test_rows_and_charges_are_cut_at_the_edges_of_the_period() -> None:
    row = Row(
        owner="u-1", claim="c", pod="p", began=START - DAY, ended=START + DAY, sandbox_class="s", workspace="w",
        cpu_seconds=Decimal(100), storage_gib_hours=Decimal(48),
    )  # fmt: skip
    (cut,) = rows_in_period([row, Row(**{**_fields(row), "ended": START})], START, START + 2 * DAY)
    assert (cut.began, cut.cpu_seconds, cut.storage_gib_hours) == (START, Decimal(50), Decimal(24))
    tax = Charge(kind="fixed", began=START, ended=START + 30 * DAY, amount=Decimal(30))
    part = charge_in_period(tax, START + DAY, START + 8 * DAY)
    assert part is not None
    assert (part.amount, part.ended) == (Decimal(7), START + 8 * DAY)
    assert charge_in_period(tax, START - DAY, START) is None


def _fields(row: Row) -> dict[str, Any]:
    return {name: getattr(row, name) for name in Row.__slots__}

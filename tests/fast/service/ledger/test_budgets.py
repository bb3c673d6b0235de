"""Budgets: which limit applies to a workspace, and the actions of a pass, each done once."""

from __future__ import annotations

import functools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies

from agentenv.config import read
from agentenv.core.ledger.budgets import MonthlySpend, Policy, Rates, budget_action, row_cost
from agentenv.core.ledger.published import MAX_ENTRIES, NAME, PublishedSpend
from agentenv.core.ledger.rates import budget_policy, class_rates
from agentenv.core.ledger.rows import Row
from agentenv.core.prices.book import price_book
from agentenv.core.values.timestamps import format_timestamp
from agentenv.core.workspaces.workspace import BUDGET_NOTICED, SUSPENDED_BECAUSE, WAKE_AT, Workspace
from agentenv.service.aws.clients import AwsUnavailableError
from agentenv.service.kube.client import CLAIMS, CONFIGURATIONS, EVENTS, SANDBOXES, VOLUMES, Document, KubeApiError
from agentenv.service.ledger.budgets import Accounts, BudgetPass, Budgets
from agentenv.service.ledger.published import PublishedBudgets, publish
from agentenv.service.loops.context import cluster_context
from agentenv.service.loops.workspace_passes import wake_due
from agentenv.service.telemetry.metrics import Metrics
from agentenv.service.workspaces.suspend import suspend
from tests.fast.config.stack_samples import ACCESS
from tests.fast.service.fake_api_server import Api, FakeApiServer, Killed, run
from tests.fast.service.ledger import documents
from tests.fast.service.loops.cluster import OWNER, SPACE, Cluster, RecordedMetrics, StubClock, always

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
RATES = Rates(Decimal("0.036"), Decimal("0.004"), Decimal("0.0005"))
POLICY = Policy({"standard": RATES, "large": RATES}, {"large": Decimal(20)}, Decimal(3), 80)


def row(dollars: str, workspace: str = "w-1", sandbox_class: str = "standard", owner: str = "u-1") -> Row:
    """Return a row of this cost, from processor time alone."""
    cpu = Decimal(dollars) / Decimal("0.036") * 3600
    return Row(
        owner=owner,
        claim=f"claim-{workspace}",
        pod="p",
        began=NOON,
        ended=NOON + HOUR,
        sandbox_class=sandbox_class,
        workspace=workspace,
        cpu_seconds=cpu,
    )


class FakeLedger:
    """A ledger with these rows."""

    def __init__(self, *rows: Row) -> None:
        self.rows, self.at, self.unavailable = list(rows), NOON + 2 * HOUR, False
        self.queried: list[str] = []

    def now(self) -> datetime:
        return self.at

    def of_owner(self, owner: str, since: datetime, until: datetime, *, consistent: bool = True) -> list[Row]:
        del consistent
        self.queried.append(owner)
        if self.unavailable:
            raise AwsUnavailableError("away")
        return [row_ for row_ in self.rows if row_.owner == owner and since <= row_.began < until]


NAMESPACE = "workspace-service"


class Service:
    """The pass of the leader, and a replica that sees what it published."""

    def __init__(self, api: FakeApiServer, fake_ledger: FakeLedger, policy: Policy = POLICY) -> None:
        ledger: Any = fake_ledger
        self._api, self.departed = api, list[str]()
        self.replica = PublishedBudgets(policy, Metrics(), fake_ledger.now)
        self.loop = Budgets(
            cluster_context(Api(api), StubClock(fake_ledger.now), RecordedMetrics(), NAMESPACE, "r1").backend,
            Accounts(ledger, policy),
            self.replica,
            Metrics(),
            publish=functools.partial(publish, Api(api), NAMESPACE),
            departed_owners=lambda: self.departed,
        )

    def enforce_all(self) -> BudgetPass:
        """Run a pass, and deliver the event of its ConfigMap."""
        try:
            return run(self.loop.enforce_all)
        finally:
            configmap = self._api.find(CONFIGURATIONS, NAME, NAMESPACE)
            if configmap is not None:
                self.replica.put(configmap)

    def refused(self, row_: Workspace) -> bool:
        return self.replica.refusal(row_) is not None


def workspace(name: str, owner: str = "u-1", sandbox_class: str = "standard") -> Workspace:
    return Workspace(name, owner, sandbox_class, "user", "creating")


def is_running(api: FakeApiServer, name: str = "w-1") -> bool:
    return api.objects[SANDBOXES, documents.NAMESPACE, f"box-{name}"]["spec"]["operatingMode"] == "Running"


def test_a_row_costs_what_its_amounts_do() -> None:
    row_of_all = replace(row("0.072"), memory_gib_hours=Decimal(2), storage_gib_hours=Decimal(4))
    assert row_cost({"standard": RATES}, row_of_all) == Decimal("0.072") + Decimal("0.008") + Decimal("0.002")
    # A row of a removed class costs as much as in the most expensive class.
    expensive = replace(RATES, core_hour=Decimal(1))
    assert row_cost({"standard": RATES, "large": expensive}, replace(row_of_all, sandbox_class="old")) > 2


def test_the_nearest_limit_applies() -> None:
    spent = MonthlySpend(POLICY, [row("2"), row("1.5", "w-2"), row("5", "w-3", "large")])
    by_cap = spent.nearest("w-1", "standard", None)
    assert by_cap is not None
    assert (by_cap.of, by_cap.spent, by_cap.over) == ("user", Decimal("3.5"), True)
    by_class = spent.nearest("w-3", "large", None)
    assert by_class is not None
    assert (by_class.of, by_class.spent, by_class.percent) == ("class", Decimal(5), 25)
    # A workspace's own budget replaces the class's, and never the owner's cap.
    by_budget = spent.nearest("w-3", "large", Decimal(4))
    assert by_budget is not None
    assert (by_budget.of, by_budget.over) == ("workspace", True)
    by_high_budget = spent.nearest("w-1", "standard", Decimal(1000))
    assert by_high_budget is not None
    assert by_high_budget.of == "user"
    assert MonthlySpend(replace(POLICY, user_cap=None), [row("2")]).nearest("w-1", "standard", None) is None


@given(strategies.decimals(0, 100, places=4), strategies.decimals("0.01", 50, places=2))
def test_the_action_follows_from_the_spending(spent: Decimal, limit: Decimal) -> None:
    found = MonthlySpend(replace(POLICY, user_cap=limit), [row(str(spent))]).nearest("w-1", "standard", None)
    assert found is not None
    expected = "suspend" if found.spent >= limit else "notice" if found.spent * 100 >= limit * 80 else None
    assert budget_action(found, 80) == expected


def test_near_a_limit_its_owner_is_notified_once_a_month() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("2.5"))
    documents.claim(api)
    service = Service(api, fake_ledger)
    assert service.enforce_all().noticed == 1
    assert service.enforce_all().noticed == 0
    assert is_running(api)
    assert api.objects[CLAIMS, documents.NAMESPACE, "w-1"]["metadata"]["annotations"][BUDGET_NOTICED] == "2026-11"
    (event,) = (row_ for (kind, _, _), row_ in api.objects.items() if kind is EVENTS)
    assert (event["reason"], "2.50 of 3.00" in event["message"]) == ("BudgetNearlySpent", True)


def test_at_a_limit_its_workspaces_are_suspended_and_nothing_is_deleted() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("2"), row("1", "w-2"), row("9", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-3", "w-4")):
        documents.claim(api, owner, name)
    before = {key for key in api.objects if key[0] is not EVENTS} | {(CONFIGURATIONS, NAMESPACE, NAME)}
    assert Service(api, fake_ledger).enforce_all().suspended == 2
    assert [is_running(api, name) for name in ("w-1", "w-2", "w-4")] == [False, False, True]
    notes = api.objects[CLAIMS, documents.NAMESPACE, "w-1"]["metadata"]["annotations"]
    assert notes[SUSPENDED_BECAUSE] == "budget"
    assert {key for key in api.objects if key[0] is not EVENTS} == before
    assert Service(api, fake_ledger).enforce_all().suspended == 0


def test_a_budget_that_is_not_a_number_is_ignored() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("3"))
    for number, amount in enumerate(("NaN", "Infinity", "-1", "much")):
        documents.claim(api, "u-1", f"w-{number}", **{"sandbox.users.io/budget": amount})
    assert Service(api, fake_ledger).enforce_all().suspended == 4


class Refusing(FakeApiServer):
    """A cluster whose guardrails refuse any change of one claim."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__()
        self._name, self._code = name, code

    def patch(self, kind: Any, existing: Document, changes: Document) -> bool:
        if kind is CLAIMS and existing["metadata"]["name"] == self._name:
            raise KubeApiError("not this one", self._code)
        return super().patch(kind, existing, changes)


def test_a_refused_claim_does_not_stop_the_pass() -> None:
    api, fake_ledger = Refusing("w-1", 403), FakeLedger(row("3"), row("2.6", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-2", "w-3")):
        documents.claim(api, owner, name)
    held = Service(api, fake_ledger).enforce_all()
    assert (held.suspended, held.noticed, held.failures) == (1, 1, ("w-1: not this one",))
    assert [is_running(api, name) for name in ("w-1", "w-2", "w-3")] == [True, False, True]
    # An unavailable server ends the pass.
    api = Refusing("w-1", 503)
    documents.claim(api)
    with pytest.raises(KubeApiError):
        Service(api, fake_ledger).enforce_all()


@pytest.mark.parametrize("change", range(1, 7))
def test_the_next_pass_completes_a_killed_one(change: int) -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("2"), row("1", "w-2"), row("2.6", "w-3", owner="u-2"))
    for owner, name in (("u-1", "w-1"), ("u-1", "w-2"), ("u-2", "w-3")):
        documents.claim(api, owner, name)

    def dies(number: int) -> None:
        if number == change:
            raise Killed

    api.before = dies
    with pytest.raises(Killed):
        Service(api, fake_ledger).enforce_all()
    api.before = lambda _: None
    # A claim that is marked and not suspended yet is completed by the idle loop.
    Service(api, fake_ledger).enforce_all()
    marked = [
        name
        for name in ("w-1", "w-2", "w-3")
        if api.objects[CLAIMS, documents.NAMESPACE, name]["metadata"]["annotations"].get(SUSPENDED_BECAUSE) == "budget"
    ]
    assert marked == ["w-1", "w-2"]
    assert api.objects[CLAIMS, documents.NAMESPACE, "w-3"]["metadata"]["annotations"][BUDGET_NOTICED] == "2026-11"
    assert is_running(api, "w-3")


def test_a_workspace_over_its_limit_is_not_resumed_until_it_is_raised_or_the_month_is_over() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("3"))
    documents.claim(api)
    service, generous = Service(api, fake_ledger), Service(api, fake_ledger, replace(POLICY, user_cap=Decimal(4)))
    assert not service.refused(workspace("w-1"))
    service.enforce_all()
    generous.replica.put(api.objects[CONFIGURATIONS, NAMESPACE, NAME])
    refusal = service.replica.refusal(workspace("w-1"))
    assert refusal is not None
    assert (refusal.kind, "2026-12-01" in refusal.way_out) == ("budget-spent", True)
    # The cap is of all workspaces of the owner, also of those that do not exist yet.
    assert service.refused(workspace("w-9"))
    assert not service.refused(workspace("w-1", owner="u-2"))
    assert not generous.refused(workspace("w-1"))
    fake_ledger.at = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)
    assert not service.refused(workspace("w-1"))


def test_a_request_reads_nothing_of_the_ledger() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("3"))
    documents.claim(api)
    documents.claim(api, "u-2", "w-2")
    service = Service(api, fake_ledger)
    service.enforce_all()
    fake_ledger.unavailable = True
    queried = list(fake_ledger.queried)
    assert service.refused(workspace("w-1"))
    assert not service.refused(workspace("w-1", owner="u-2"))
    assert fake_ledger.queried == queried
    # A pass without the ledger leaves what is published.
    with pytest.raises(AwsUnavailableError):
        service.enforce_all()
    assert service.refused(workspace("w-1"))


def test_the_budget_of_a_suspended_or_deleted_workspace_is_published() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("19", "w-3", "large"), row("0.5"), row("1", "w-2"))
    documents.claim(api, **{SUSPENDED_BECAUSE: "idle", "sandbox.users.io/budget": "0.5"})
    documents.claim(api, name="w-2")
    documents.delete(api, "w-2")
    api.objects[VOLUMES, "", "pv-w-2"]["metadata"]["annotations"]["sandbox.users.io/budget"] = "1"
    service = Service(api, fake_ledger)
    service.enforce_all()
    assert service.refused(replace(workspace("w-1"), budget=Decimal("0.5")))
    assert service.refused(replace(workspace("w-2"), budget=Decimal(1)))
    # Its class has a budget, and nothing is left of it but its rows.
    assert service.replica.spend.workspaces["w-3"] == 19
    assert not service.refused(workspace("w-3", sandbox_class="large"))


def test_owners_of_short_lived_workspaces_reach_their_cap() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("3", owner="u-7"))
    service = Service(api, fake_ledger)
    service.departed = ["u-7"]
    service.enforce_all()
    assert service.refused(workspace("w-1", owner="u-7"))
    # What was published stays, although nothing of the owner exists any more.
    service.departed = []
    service.enforce_all()
    assert service.refused(workspace("w-1", owner="u-7"))


def test_owners_without_running_workspaces_are_read_once_a_day() -> None:
    api, fake_ledger = FakeApiServer(), FakeLedger(row("1"), row("1", owner="u-2"))
    documents.claim(api, "u-1", "w-1", **{SUSPENDED_BECAUSE: "idle"})
    documents.claim(api, "u-2", "w-2")
    service = Service(api, fake_ledger)
    for _ in range(2):
        service.enforce_all()
    assert fake_ledger.queried == ["u-1", "u-2", "u-2"]
    fake_ledger.at += timedelta(days=1)
    service.enforce_all()
    assert fake_ledger.queried.count("u-1") == 2


def test_of_too_many_amounts_the_largest_are_published() -> None:
    owners = {f"u-{number}": Decimal(number) for number in range(MAX_ENTRIES + 5)}
    spend = PublishedSpend.from_text(PublishedSpend("2026-11", owners).to_text())
    assert (len(spend.owners), min(spend.owners.values())) == (MAX_ENTRIES, 5)
    longest = PublishedSpend(
        "2026-11", {f"{name:x<63}": amount + Decimal("0.123456") for name, amount in owners.items()}
    )
    assert len(longest.to_text()) < 2**20


def test_an_unreadable_document_refuses_nothing() -> None:
    for text in ("", "{", "[]", '{"month": 7, "owners": {"u-1": "NaN"}, "workspaces": []}'):
        assert PublishedSpend.from_text(text) == PublishedSpend()


def asleep_until_noon(cluster: Cluster) -> None:
    cluster.workspace("w-1", **{WAKE_AT: format_timestamp(cluster.now)})
    claim = cluster.server.find(CLAIMS, "w-1", SPACE) or {}
    assert run(suspend, cluster.server, claim, "idle") == "done"
    cluster.settle()


def test_wake_at_does_not_resume_a_workspace_over_its_limit() -> None:
    cluster, fake_ledger = Cluster(), FakeLedger(row("3", owner=OWNER))
    asleep_until_noon(cluster)
    service = Service(cluster.server, fake_ledger)
    service.enforce_all()
    for _ in range(2):
        run(wake_due, cluster.context(refuse_wake=service.loop.refuse_wake), always)
        assert (cluster.mode(), cluster.notes()[SUSPENDED_BECAUSE]) == ("Suspended", "budget")
    # It is suspended by its budget by then, and not tried again.
    (event,) = cluster.server.list(EVENTS)
    assert event["reason"] == "BudgetSpent"
    # After its budget is raised it may be resumed; `wake-at` is over by then.
    assert service.refused(workspace("w-1"))


def test_wake_at_resumes_a_workspace_below_its_limit() -> None:
    cluster, fake_ledger = Cluster(), FakeLedger(row("2.9", owner=OWNER))
    asleep_until_noon(cluster)
    service = Service(cluster.server, fake_ledger)
    service.enforce_all()
    assert run(wake_due, cluster.context(refuse_wake=service.loop.refuse_wake), always).steps == 1
    assert (cluster.mode(), cluster.notes().get(WAKE_AT)) == ("Running", None)


def test_hourly_requests_match_the_estimate() -> None:
    image = f"registry.example.com/a@sha256:{'0' * 64}"
    large = {"name": "standard", "image": image, "resources": {"cpu": "100m", "memory": "512Mi"}, "budget": "7.50"}
    small = {**large, "name": "fargate", "compute": "fargate", "tier": "untrusted", "storage": {"kind": "none"}}
    config = {
        "aws:region": "us-east-1",
        **ACCESS,
        "agent-environment:sandboxClasses": [large, small],
        "agent-environment:cost": {"perUserCap": "3.00"},
    }
    settings = read(config, "dev")
    rates = class_rates(settings, price_book("us-east-1"))
    assert (
        Decimal("0.0005") < rates["standard"].core_hour / 10 + rates["standard"].memory_gib_hour / 2 < Decimal("0.02")
    )
    assert rates["fargate"].core_hour == Decimal("0.04048")
    policy = budget_policy(settings)
    assert (policy.user_cap, policy.class_budgets["standard"]) == (Decimal("3.00"), Decimal("7.50"))

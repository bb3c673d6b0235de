"""The estimate: what an environment costs a month, for so many users who are active for so many hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from agentenv.core.cost.assumptions import Assumption, Assumptions
from agentenv.core.cost.context import EstimateContext
from agentenv.core.cost.homes import homes, looking, throughput
from agentenv.core.cost.lines import Line, Part, line, plain
from agentenv.core.cost.network import traffic, ways
from agentenv.core.cost.node_kinds import Kind, kinds
from agentenv.core.cost.platform import logged, platform, recorded
from agentenv.core.cost.sandboxes import Place, place_on_fargate, place_on_node, standing
from agentenv.core.prices.book import PriceBook, price_book
from agentenv.core.prices.units import Amount, Dollars, total

if TYPE_CHECKING:
    from datetime import date

    from agentenv.config.sections.classes import SandboxClass
    from agentenv.config.settings import Settings

USUAL_HOURS, USUAL_TARGET = Decimal(40), Decimal(3)
MOST_HOURS = Decimal(730)


@dataclass(frozen=True)
class ClassCost:
    """What one class costs: what of it stands there, an active hour, and a user who spends all hours in it."""

    name: str
    fixed_month: Decimal
    hour: Decimal
    per_user_month: Decimal
    basis: str


@dataclass(frozen=True)
class Estimate:
    """What an environment costs a month, in dollars, exactly."""

    region: str
    users: int
    active_hours: Decimal
    target: Decimal
    lines: tuple[Line, ...]
    fixed_month: Decimal
    variable_month: Decimal  # of one user
    by_class: tuple[ClassCost, ...]
    assumptions: tuple[Assumption, ...]
    prices_of: date
    remarks: tuple[str, ...] = ()

    @property
    def total_month(self) -> Decimal:
        """All of it."""
        return self.fixed_month + self.variable_month * self.users

    @property
    def per_user_month(self) -> Decimal:
        """A user's share of all of it."""
        return self.total_month / self.users

    @property
    def break_even_users(self) -> int | None:
        """From how many users on each costs no more than the target; None where none are enough."""
        room = self.target - self.variable_month
        if room <= 0:
            return None
        return max(int((self.fixed_month / room).to_integral_value(rounding=ROUND_CEILING)), 1)


@dataclass(frozen=True)
class Model:
    """What follows from settings and hours alone: what is fixed, and what a user adds. For many numbers of users, make
    it once."""

    context: EstimateContext
    active_hours: Decimal
    parts: tuple[Part, ...]
    by_class: tuple[ClassCost, ...]
    remarks: tuple[str, ...] = field(default=())

    def of(self, users: int) -> Estimate:
        """The estimate for so many users."""
        if users < 1:
            raise ValueError(f"{users} users; there has to be one at least")
        cap = self.context.settings.cost.per_user_cap
        return Estimate(
            self.context.settings.region,
            users,
            self.active_hours,
            USUAL_TARGET if cap is None else cap,
            tuple(line(part, users) for part in self.parts),
            total(part.cost for part in self.parts if part.scale == "fixed").value,
            total(part.cost for part in self.parts if part.scale == "user").value,
            self.by_class,
            tuple(self.context.taken.rows()),
            self.context.book.date,
            self.remarks,
        )


def estimate(
    settings: Settings,
    users: int,
    active_hours: Decimal = USUAL_HOURS,
    book: PriceBook | None = None,
    *,
    taken: Assumptions | None = None,
    mix: Mapping[str, Decimal] | None = None,
) -> Estimate:
    """What the environment of these settings costs a month; `MissingPricesError` for a region without a price book."""
    return model(settings, active_hours, book, taken=taken, mix=mix).of(users)


def model(
    settings: Settings,
    active_hours: Decimal = USUAL_HOURS,
    book: PriceBook | None = None,
    *,
    taken: Assumptions | None = None,
    mix: Mapping[str, Decimal] | None = None,
) -> Model:
    """What follows from settings and hours alone. A mix says in which classes a user's hours are spent, as shares; all
    in the first class that is for users unless told."""
    if not 0 <= active_hours <= MOST_HOURS:
        raise ValueError(f"{active_hours} active hours; a month has {MOST_HOURS}")
    context = EstimateContext(settings, book or price_book(settings.region), taken or Assumptions())
    nodes = kinds(context)
    places = _places(context, nodes)
    shares = usual_mix(settings) if mix is None else _checked(mix, places)
    fixed = [*platform(context), *ways(context), *throughput(context), *looking(context), *standing(context, nodes)]
    fixed += _used_seats(context)
    return Model(
        context,
        active_hours,
        (*fixed, *_user(context, shares, places, active_hours)),
        tuple(_class_cost(context, one, fixed, places, active_hours) for one in settings.sandbox_classes),
        tuple(_remarks(settings, shares)),
    )


def usual_mix(settings: Settings) -> Mapping[str, Decimal]:
    """All hours in the first class that a user may have."""
    first = next((one.name for one in settings.sandbox_classes if "user" in one.modes), None)
    return {} if first is None else {first: Decimal(1)}


def _places(context: EstimateContext, nodes: list[Kind]) -> Mapping[str, Place]:
    fill, classes = context.taken.node_fill, context.settings.sandbox_classes
    found = {one.name: place_on_node(one, kind, fill) for kind in nodes for one in kind.classes}
    return {**found, **{one.name: place_on_fargate(one, context.book) for one in classes if one.compute == "fargate"}}


def _user(
    context: EstimateContext, shares: Mapping[str, Decimal], places: Mapping[str, Place], hours: Decimal
) -> list[Part]:
    """What one user adds, whose hours are spent in such shares."""
    settings, taken = context.settings, context.taken
    if not shares:
        return []
    found: list[Part] = []
    node_hours = Decimal(0)
    for name, share in shares.items():
        place, spent = places[name], hours * share
        cost = place.rate.of(Amount(spent, "h"))
        found.append(Part(f"sandboxes: {name}", cost, f"{plain(spent)} h; {place.basis}", "user", name))
        node_hours += spent * place.nodes
    if any(one.storage.kind in {"slot", "shared"} for one in settings.sandbox_classes if one.name in shares):
        found += homes(context, hours)
    found += traffic(context, hours, node_hours)
    found.append(_logs(context, hours))
    if settings.service.deployed:
        writes = taken.ledger_writes * hours
        cost = context.cost("dynamodb.writes", writes / 1_000_000, "million")
        found.append(Part("ledger", cost, f"{plain(writes)} writes", "user"))
    return found


def _used_seats(context: EstimateContext) -> Iterator[Part]:
    """What declared seats have beside their place: a home like a user's, and what is moved in it."""
    hours = context.taken.seat_hours
    of_one = total(part.cost for part in (*homes(context, hours), *traffic(context, hours, Decimal(0))))
    for one in context.settings.sandbox_classes:
        if seats := sum(seat.class_ == one.name for seat in context.settings.workspaces):
            words = f"{seats} with a home like a user's, {plain(hours)} h of work"
            yield Part(f"use of declared seats: {one.name}", of_one * seats, words, sandbox_class=one.name)


def _logs(context: EstimateContext, hours: Decimal) -> Part:
    settings, taken = context.settings, context.taken
    starts = taken.starts * hours
    cost = Dollars()
    if settings.cluster.existing is None:
        cost += logged("logs.taken-in", starts * taken.start_logs, settings.cluster.log_days, context)
    if settings.network.existing is None:
        flows = taken.user_flows * hours * recorded(context)
        cost += logged("logs.delivered", flows, settings.network.flow_log_days, context)
    return Part("logs of users", cost, f"{plain(starts)} claims and wakes, {plain(hours)} h of flows", "user")


def _class_cost(
    context: EstimateContext, one: SandboxClass, fixed: list[Part], places: Mapping[str, Place], hours: Decimal
) -> ClassCost:
    place = places[one.name]
    whole = _user(context, {one.name: Decimal(1)}, places, hours)
    return ClassCost(
        one.name,
        total(part.cost for part in fixed if part.sandbox_class == one.name).value,
        place.rate.dollars,
        total(part.cost for part in whole).value,
        place.basis,
    )


def _checked(mix: Mapping[str, Decimal], places: Mapping[str, Place]) -> Mapping[str, Decimal]:
    for name, share in mix.items():
        if name not in places:
            raise ValueError(f"there is no class '{name}'; there are {', '.join(places)}")
        if share < 0:
            raise ValueError(f"the share of {name} is {share}; allowed is nothing below 0")
    whole = sum(mix.values(), start=Decimal(0))
    if whole != 1:
        raise ValueError(f"the shares of a user's hours sum to {whole} and not to 1")
    return mix


def _remarks(settings: Settings, shares: Mapping[str, Decimal]) -> list[str]:
    """What is not in the figures, or is taken to be so for want of anything said."""
    found: list[str] = []
    if not settings.sandbox_classes:
        found.append("There are no sandbox classes, so users cost nothing.")
    else:
        spent = ", ".join(f"{share:.0%} in {name}" for name, share in shares.items()) or "in no class"
        found.append(f"Users' hours are spent {spent}.")
    if not settings.service.deployed:
        found.append("The workspace service is not deployed: no image of it is named.")
    for words, existing in (
        ("network", settings.network.existing),
        ("cluster", settings.cluster.existing),
    ):
        if existing is not None:
            found.append(f"The {words} stands already, and what it costs by itself is not counted.")
    found.append("Taxes, support plans, free tiers and committed discounts are not counted.")
    return found

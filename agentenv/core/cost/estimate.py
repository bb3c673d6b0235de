"""The estimate: the monthly cost of an environment for a number of users and active hours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from agentenv.core.classes.sizes import SMALL, in_size, largest_size
from agentenv.core.cost.assumptions import Assumption, Assumptions
from agentenv.core.cost.context import EstimateContext
from agentenv.core.cost.homes import home_scans, homes, throughput
from agentenv.core.cost.lines import Line, Part, line, plain
from agentenv.core.cost.network import gateways_and_endpoints, traffic, zone_failure
from agentenv.core.cost.node_kinds import Kind, kinds
from agentenv.core.cost.platform import log_cost, platform, recorded_share
from agentenv.core.cost.sandboxes import Place, place_on_fargate, place_on_node, warm_capacity
from agentenv.core.prices.book import PriceBook, price_book
from agentenv.core.prices.units import Amount, Dollars, total

if TYPE_CHECKING:
    from datetime import date

    from agentenv.config.sections.classes import SandboxClass, SizeName
    from agentenv.config.settings import Settings

    _Places = Mapping[tuple[str, SizeName], Place]

USUAL_HOURS, USUAL_TARGET = Decimal(40), Decimal(3)
MOST_HOURS = Decimal(730)


@dataclass(frozen=True)
class ClassCost:
    """The cost of a class: its fixed cost, an active hour, and a user who spends all hours in it."""

    name: str
    fixed_month: Decimal
    hour: Decimal
    per_user_month: Decimal
    basis: str


@dataclass(frozen=True)
class Estimate:
    """The exact monthly cost of an environment in dollars."""

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
        """Return the total monthly cost."""
        return self.fixed_month + self.variable_month * self.users

    @property
    def per_user_month(self) -> Decimal:
        """Return the total monthly cost divided by the number of users."""
        return self.total_month / self.users

    @property
    def break_even_users(self) -> int | None:
        """Return the number of users from which the cost per user is within the target; None if there is none."""
        room = self.target - self.variable_month
        if room <= 0:
            return None
        return max(int((self.fixed_month / room).to_integral_value(rounding=ROUND_CEILING)), 1)


@dataclass(frozen=True)
class Model:
    """The fixed cost, and the cost of each user. It is independent of the number of users, so it can be reused."""

    context: EstimateContext
    active_hours: Decimal
    parts: tuple[Part, ...]
    by_class: tuple[ClassCost, ...]
    remarks: tuple[str, ...] = field(default=())

    def of(self, users: int) -> Estimate:
        """Return the estimate for a number of users."""
        if users < 1:
            raise ValueError(f"{users} users; at least one is required")
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
    """Return the monthly cost of an environment; raise `MissingPricesError` for a region without a price book."""
    return model(settings, active_hours, book, taken=taken, mix=mix).of(users)


def model(
    settings: Settings,
    active_hours: Decimal = USUAL_HOURS,
    book: PriceBook | None = None,
    *,
    taken: Assumptions | None = None,
    mix: Mapping[str, Decimal] | None = None,
) -> Model:
    """Return the fixed cost and the cost of each user. `mix` has the shares of a user's hours by class, by default all
    in the first class with the mode `user`."""
    if not 0 <= active_hours <= MOST_HOURS:
        raise ValueError(f"{active_hours} active hours; a month has {MOST_HOURS}")
    context = EstimateContext(settings, book or price_book(settings.region), taken or Assumptions())
    nodes = kinds(context)
    places = _places(context, nodes)
    shares = usual_mix(settings) if mix is None else _checked(mix, [each.name for each in settings.sandbox_classes])
    fixed = [
        *platform(context),
        *gateways_and_endpoints(context),
        *throughput(context),
        *home_scans(context),
        *warm_capacity(context, nodes),
    ]
    fixed += _used_seats(context)
    return Model(
        context,
        active_hours,
        (*fixed, *_user(context, shares, places, active_hours)),
        tuple(
            _class_cost(context, sandbox_class, fixed, places, active_hours)
            for sandbox_class in settings.sandbox_classes
        ),
        tuple(_remarks(context, shares)),
    )


def usual_mix(settings: Settings) -> Mapping[str, Decimal]:
    """Return the default mix: all hours in the first class with the mode `user`."""
    first = next(
        (sandbox_class.name for sandbox_class in settings.sandbox_classes if "user" in sandbox_class.modes), None
    )
    return {} if first is None else {first: Decimal(1)}


def _places(context: EstimateContext, nodes: list[Kind]) -> _Places:
    fill, classes = context.taken.node_fill, context.settings.sandbox_classes
    placements: dict[tuple[str, SizeName], Place] = {
        (sandbox_class.name, size): place_on_node(in_size(sandbox_class, size), kind, fill)
        for kind in nodes
        for sandbox_class in kind.classes
        for size in (SMALL, largest_size(sandbox_class))
    }
    return {
        **placements,
        **{
            (sandbox_class.name, SMALL): place_on_fargate(sandbox_class, context.book)
            for sandbox_class in classes
            if sandbox_class.compute == "fargate"
        },
    }


def _hours_by_size(context: EstimateContext, name: str, hours: Decimal) -> Mapping[SizeName, Decimal]:
    """Return the hours that a workspace of a class spends in its smallest and in its largest size."""
    sandbox_class = next(each for each in context.settings.sandbox_classes if each.name == name)
    largest = largest_size(sandbox_class)
    if largest == SMALL:
        return {SMALL: hours}
    larger = hours * context.taken.larger
    return {SMALL: hours - larger, largest: larger}


def _user(context: EstimateContext, shares: Mapping[str, Decimal], places: _Places, hours: Decimal) -> list[Part]:
    """Return the parts that each user adds."""
    settings, taken = context.settings, context.taken
    if not shares:
        return []
    parts: list[Part] = []
    node_hours = Decimal(0)
    for name, share in shares.items():
        for size, spent in _hours_by_size(context, name, hours * share).items():
            place, words = places[name, size], name if size == SMALL else f"{name}, {size}"
            cost = place.rate.of(Amount(spent, "h"))
            parts.append(Part(f"sandboxes: {words}", cost, f"{plain(spent)} h; {place.basis}", "user", name))
            node_hours += spent * place.nodes
    if any(
        sandbox_class.storage.kind in {"slot", "shared"}
        for sandbox_class in settings.sandbox_classes
        if sandbox_class.name in shares
    ):
        parts += homes(context, hours)
    parts += traffic(context, hours, node_hours)
    parts.append(_logs(context, hours))
    if settings.service.deployed:
        writes = taken.ledger_writes * hours
        cost = context.cost("dynamodb.writes", writes / 1_000_000, "million")
        parts.append(Part("ledger", cost, f"{plain(writes)} writes", "user"))
    return parts


def _used_seats(context: EstimateContext) -> Iterator[Part]:
    """Yield the cost of homes and traffic of seats."""
    hours = context.taken.seat_hours
    of_one = total(part.cost for part in (*homes(context, hours), *traffic(context, hours, Decimal(0))))
    for sandbox_class in context.settings.sandbox_classes:
        if seats := sum(seat.class_ == sandbox_class.name for seat in context.settings.workspaces):
            words = f"{seats} with a home like a user's, {plain(hours)} h of work"
            yield Part(
                f"use of declared seats: {sandbox_class.name}", of_one * seats, words, sandbox_class=sandbox_class.name
            )


def _logs(context: EstimateContext, hours: Decimal) -> Part:
    settings, taken = context.settings, context.taken
    starts = taken.starts * hours
    cost = Dollars()
    if settings.cluster.existing is None:
        cost += log_cost("logs.taken-in", starts * taken.start_logs, settings.cluster.log_days, context)
    if settings.network.existing is None:
        flows = taken.user_flows * hours * recorded_share(context)
        cost += log_cost("logs.delivered", flows, settings.network.flow_log_days, context)
    return Part("logs of users", cost, f"{plain(starts)} claims and wakes, {plain(hours)} h of flows", "user")


def _class_cost(
    context: EstimateContext,
    sandbox_class: SandboxClass,
    fixed: list[Part],
    places: _Places,
    hours: Decimal,
) -> ClassCost:
    place = places[sandbox_class.name, SMALL]
    whole = _user(context, {sandbox_class.name: Decimal(1)}, places, hours)
    return ClassCost(
        sandbox_class.name,
        total(part.cost for part in fixed if part.sandbox_class == sandbox_class.name).value,
        place.rate.dollars,
        total(part.cost for part in whole).value,
        place.basis,
    )


def _checked(mix: Mapping[str, Decimal], classes: Sequence[str]) -> Mapping[str, Decimal]:
    for name, share in mix.items():
        if name not in classes:
            raise ValueError(f"there is no class '{name}'; the classes are {', '.join(classes)}")
        if share < 0:
            raise ValueError(f"the share of {name} is {share}; it must not be negative")
    whole = sum(mix.values(), start=Decimal(0))
    if whole != 1:
        raise ValueError(f"the shares of a user's hours sum to {whole}, not to 1")
    return mix


def _remarks(context: EstimateContext, shares: Mapping[str, Decimal]) -> list[str]:
    """Return what the estimate does not include, and its defaults."""
    remarks: list[str] = []
    settings = context.settings
    if not settings.sandbox_classes:
        remarks.append("There are no sandbox classes, so users cost nothing.")
    else:
        spent = ", ".join(f"{share:.0%} in {name}" for name, share in shares.items()) or "in no class"
        remarks.append(f"Users' hours are spent {spent}.")
    if not settings.service.deployed:
        remarks.append("The workspace service is not deployed: no image of it is named.")
    for words, existing in (
        ("network", settings.network.existing),
        ("cluster", settings.cluster.existing),
    ):
        if existing is not None:
            remarks.append(f"The {words} already exists; its own cost is not counted.")
    if words := zone_failure(context):
        remarks.append(words)
    remarks.append("Taxes, support plans, free tiers and committed discounts are not counted.")
    return remarks

"""Validate rows against FOCUS: the rules of columns, and rules between columns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from agentenv.core.focus.columns import BY_NAME, CATEGORIES, COLUMNS, Column
from agentenv.core.focus.rows import FocusRow, Value

_COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")
_CURRENCY = re.compile(r"[A-Z]{3}")
_OWN = re.compile(r"x_[A-Z][A-Za-z0-9]*")
_DATA = "(?:[KMGTPE]i?)?[bB]"
_COUNT = "(?:[A-Z][a-z]+s|GiB|GB|TB)"
_UNIT = re.compile(rf"(?:[0-9]+ )?(?:{_COUNT}|{_DATA})(?:-(?:Hours|Days|Months)|/(?:Hour|Day|Month))?")
_TOGETHER = (
    ("ConsumedQuantity", "ConsumedUnit"),
    ("PricingQuantity", "PricingUnit"),
    ("ResourceId", "ResourceType"),
    ("SubAccountId", "SubAccountName"),
    ("SubAccountId", "SubAccountType"),
)
# What may not be empty in a row of usage.
_OF_USAGE = ("PricingCategory", "PricingQuantity", "PricingUnit", "ConsumedQuantity", "ConsumedUnit")
MOST = 20


def breaches(rows: Sequence[FocusRow], bill: Decimal | None = None) -> list[str]:
    """Return the violations of FOCUS, at most `MOST`; with a bill, also whether the rows add up to it."""
    problems = _headings(rows[0]) if rows else []
    for number, row in enumerate(rows, 1):
        if len(problems) >= MOST:
            break
        if row.keys() != rows[0].keys():
            problems.append(f"row {number}: it has other columns than the first")
            continue
        problems += [f"row {number}: {problem}" for problem in _of_row(row)]
    if bill is not None:
        total = sum((_decimal(row.get("BilledCost")) for row in rows), Decimal(0))
        # What a bill has finer than a billionth of a cent is rounded, line by line.
        if abs(total - bill) > Decimal("1e-6"):
            problems.append(f"all rows: their BilledCost is {total}, and the bill {bill}")
    return problems[:MOST]


def _headings(row: FocusRow) -> list[str]:
    """Return violations of the columns: mandatory ones exist, and custom ones come last."""
    names = list(row)
    problems = [
        f"columns: {column.name} is missing"
        for column in COLUMNS
        if column.level == "mandatory" and column.name not in row
    ]
    custom = [name for name in names if name not in BY_NAME]
    problems += [
        f"columns: {name} is none of FOCUS's, and not named x_Something" for name in custom if not _OWN.fullmatch(name)
    ]
    if custom and names[-len(custom) :] != custom:
        problems.append("columns: custom columns come after those of FOCUS")
    return problems


def _of_row(row: FocusRow) -> Iterable[str]:
    for name, value in row.items():
        if name in BY_NAME and (problem := _of_value(BY_NAME[name], value)):
            yield f"{name} {problem}"
    yield from _between(row)


def _of_value(column: Column, value: Value) -> str:
    """Return the problem of a value; an empty string without one."""
    if value is None:
        return "" if column.nullable else "is empty"
    if column.allowed and value not in column.allowed:
        return f"is {value!r}, which is none of {', '.join(column.allowed)}"
    checks = {"decimal": _wrong_number, "moment": _wrong_moment, "pairs": _wrong_pairs, "string": _wrong_text}
    return checks[column.type](value)


def _wrong_number(value: Value) -> str:
    if not isinstance(value, Decimal) or not value.is_finite():
        return f"is {value!r} and no number"
    return ""


def _wrong_moment(value: Value) -> str:
    if not _is_moment(value):
        return f"is {value!r} and no moment in UTC"
    return ""


def _is_moment(value: Value) -> bool:
    return isinstance(value, datetime) and value.utcoffset() == timedelta(0)


def _wrong_text(value: Value) -> str:
    if not isinstance(value, str) or not value.strip():
        return f"is {value!r} and no text"
    return ""


def _wrong_pairs(value: Value) -> str:
    try:
        pairs: Any = json.loads(str(value))
    except ValueError:
        return "is no JSON"
    if not isinstance(pairs, dict):
        return "is no JSON object"
    entries = dict[str, Any](pairs)  # pyright: ignore[reportUnknownArgumentType] - JSON says nothing of its types
    if any(isinstance(item, list | dict) for item in entries.values()):
        return "has lists or objects in it"
    return ""


def _between(row: FocusRow) -> Iterable[str]:
    """Yield violations of rules between columns."""
    for first, second in _TOGETHER:
        if (row.get(first) is None) != (row.get(second) is None):
            yield f"{first} and {second}: one is empty and the other is not"
    for name in ("ConsumedUnit", "PricingUnit"):
        unit = row.get(name)
        if unit is not None and not _UNIT.fullmatch(str(unit)):
            yield f"{name} is {unit!r}, which is no unit as FOCUS writes them"
    if not _CURRENCY.fullmatch(str(row.get("BillingCurrency"))):
        yield f"BillingCurrency is {row.get('BillingCurrency')!r} and no code of a currency"
    for kind in ("Charge", "Billing"):
        began, ended = row.get(f"{kind}PeriodStart"), row.get(f"{kind}PeriodEnd")
        if _is_moment(began) and _is_moment(ended) and str(began) >= str(ended):
            yield f"{kind}PeriodEnd is not after {kind}PeriodStart"
    if str(row.get("ServiceSubcategory")) not in CATEGORIES.get(str(row.get("ServiceCategory")), ()):
        yield f"ServiceSubcategory is {row.get('ServiceSubcategory')!r}, which is not of {row.get('ServiceCategory')!r}"
    yield from _of_prices(row)


def _of_prices(row: FocusRow) -> Iterable[str]:
    category = row.get("ChargeCategory")
    if category == "Usage" and row.get("ChargeClass") is None:
        yield from (f"{name} is empty in a row of usage" for name in _OF_USAGE if row.get(name) is None)
    if category == "Purchase" and row.get("ChargeFrequency") == "Usage-Based":
        yield "ChargeFrequency is Usage-Based in a row of a purchase"
    if row.get("ListUnitPrice") is None and category != "Tax":
        differing = [name for name in _COSTS if row.get(name) != row.get("BilledCost")]
        yield from (f"{name} differs from BilledCost, without a price that says why" for name in differing)
    else:
        product = _decimal(row.get("ListUnitPrice")) * _decimal(row.get("PricingQuantity"))
        if abs(product - _decimal(row.get("ListCost"))) > Decimal("1e-9"):
            yield "ListCost is not ListUnitPrice times PricingQuantity"


def _decimal(value: Value) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(0)

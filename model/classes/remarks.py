"""What somebody who wrote a class might not expect of it, in plain words: no mistakes, and good to know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.capabilities.grants import grants_of
from model.capabilities.resolve import notes
from model.classes.gate import gate_note

if TYPE_CHECKING:
    from model.classes.plan import ClassPlan


def remarks(plan: ClassPlan) -> tuple[str, ...]:
    """What to tell of a class whenever it is previewed."""
    of_grants = (f"class {plan.name}: {note}" for note in notes(grants_of(plan.asked.capabilities), plan.here))
    of_gate = gate_note(plan.asked, plan.here)
    return (*of_grants, *([of_gate] if of_gate else []))

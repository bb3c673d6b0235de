"""Samples: an environment with a class of each kind, and the objects of each."""

from __future__ import annotations

from typing import Any

from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan, plans
from tests.fast.config.stack_samples import VETTED, fargate, sandbox, settings

OTHER = f"registry.example.com/sandbox@sha256:{'cd' * 32}"
SECTIONS: dict[str, Any] = {
    "capacity": {"families": ["m8gd", "m7g"]},
    "sandboxClasses": [
        sandbox("standard", capabilities=["dns", "web"], pool={"size": 3}),
        sandbox("standard-2", capabilities=["dns", {"class": "standard", "ports": [8080]}]),
        sandbox("closed", releases=[{"channel": "next", "image": OTHER}]),
        sandbox("vetted", **VETTED, capabilities=["web"], storage={"kind": "scratch"}),
        sandbox("walled", tier="untrusted", storage={"kind": "shared"}),
        fargate("batch", capabilities=["dns", "web"]),
    ],
    "workspaces": [
        {"name": "desk", "class": "standard", "user": "u-1"},
        {"name": "bench", "class": "standard-2", "user": "u-2"},
    ],
}
SETTINGS = settings(SECTIONS)
PLANS = {plan.name: plan for plan in plans(SETTINGS)}


def objects(plan: ClassPlan) -> ClassObjects:
    known = DeploymentValues(["fs-0"], "fs-0", {}, {plan.name: ["sg-0"]} if plan.on_fargate else {})
    return class_objects(plan, known)


OBJECTS = {name: objects(plan) for name, plan in PLANS.items()}

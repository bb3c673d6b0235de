"""Hypothesis strategies for valid classes, and their objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from agentenv.config.constraints.names import LONGEST_CLASS
from agentenv.core.classes.objects import ClassObjects, DeploymentValues, class_objects
from agentenv.core.classes.plan import ClassPlan, plans
from agentenv.core.classes.pods.resources import SCRATCH
from tests.fast.config import stack_samples
from tests.fast.config.stack_samples import IMAGE, VETTED, sandbox

Object = dict[str, Any]

# Each is read and judged like a stack file, which takes its time.
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SERVICE: Object = {
    "image": f"registry.example.com/workspace-service@sha256:{'a' * 64}",
    "workspaced": {"image": f"registry.example.com/workspaced@sha256:{'b' * 64}"},
}
SYSTEMS = [f"fs-{number:017x}" for number in range(1, 10)]


def images(count: int) -> list[str]:
    return [IMAGE.replace("abab", f"{number:02x}{number:02x}") for number in range(count)]


def plan_of(settings: Mapping[str, Any], file_systems: int = 1, **sections: Any) -> ClassPlan:
    """The plan of one class; the test fails where the settings refuse it."""
    sections_ = {"storage": {"fileSystems": file_systems}, "sandboxClasses": [dict(settings)], **sections}
    return plans(stack_samples.settings(sections_))[0]


def objects_of(plan: ClassPlan, role: Any = None, groups: Any = None) -> ClassObjects:
    """All objects of a class, in an environment whose ids are known."""
    systems = SYSTEMS[: plan.shards]
    roles = {} if role is None else {plan.name: role}
    return class_objects(
        plan, DeploymentValues(systems, ",".join(systems), roles, {plan.name: groups or ["sg-0123456789abcdef0"]})
    )


def created(settings: Mapping[str, Any], file_systems: int = 1, **sections: Any) -> ClassObjects:
    return objects_of(plan_of(settings, file_systems, **sections))


_HOURS = st.lists(st.integers(0, 23), min_size=2, max_size=2, unique=True).map(sorted)
_SCHEDULES = st.lists(
    st.builds(
        lambda day, hours, size: {
            "days": [day],
            "start": f"{hours[0]:02}:00",
            "end": f"{hours[1]:02}:30",
            "size": size,
            "timezone": "Europe/Berlin",
        },
        st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]),
        _HOURS,
        st.integers(0, 12),
    ),
    max_size=3,
    unique_by=lambda schedule: schedule["days"][0],
)
_POOLS = st.one_of(
    st.builds(lambda size, schedules: {"size": size, "schedules": schedules}, st.integers(0, 12), _SCHEDULES),
    st.builds(lambda claims: {"peakClaimsPerHour": claims}, st.integers(1, 300)),
)
_PROBES = st.sampled_from([None, {"port": 8080}, {"port": 8080, "path": "/ready"}, {"command": ["/bin/ready", "-q"]}])
_CAPABILITIES = st.sampled_from(
    [[], ["dns"], ["dns", "web"], ["vpc", "api-server", "metadata", "dns"], [{"cidr": "192.0.2.0/24", "ports": [443]}]]
)
_NAMES = st.one_of(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), st.just("x" * LONGEST_CLASS))


@st.composite
def class_settings(draw: st.DrawFn) -> Object:
    """A class as a stack file has it."""
    tier = draw(st.sampled_from(["verified", "standard", "untrusted", "fargate"]))
    cpu, memory, disk = draw(st.integers(1, 2000)), draw(st.integers(8, 4096)), draw(st.integers(1, 8192))
    resources: Object = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "ephemeral": f"{disk}Mi"}
    kinds = ["none", "scratch"]
    settings = sandbox(draw(_NAMES), capabilities=draw(_CAPABILITIES), pool=draw(_POOLS), resources=resources)
    if tier == "fargate":
        settings |= {
            "tier": "untrusted",
            "compute": "fargate",
            "capabilities": draw(st.sampled_from([[], ["dns", "web"]])),
        }
    else:
        more = draw(st.integers(0, 3))
        resources["burst"] = {"cpu": f"{cpu + 100 * more}m", "memory": f"{memory + 64 * more}Mi"}
        kinds += ["slot", "shared"]
        settings |= {"tier": tier} | (VETTED if tier == "verified" else {})
        if tier == "verified":
            settings["gpu"] = draw(st.integers(0, 2))
    settings["storage"] = {
        "kind": draw(st.sampled_from(kinds)),
        "size": f"{draw(st.integers(1, 8))}Gi",
        "mountPath": draw(st.sampled_from(["/home/agent", *SCRATCH, "/run/mine"])),
    }
    if (probe := draw(_PROBES)) is not None:
        settings["probe"] = probe
    if draw(st.booleans()):
        settings |= {"command": ["/bin/agent"], "args": ["--serve"], "env": [{"name": "LANG", "value": "C"}]}
    extra = images(draw(st.integers(0, 2)))
    settings["releases"] = [{"channel": f"next-{number}", "image": image} for number, image in enumerate(extra)]
    if draw(st.booleans()) and not settings["pool"].get("schedules") and settings["pool"].get("size") == 0:
        settings["claimEnv"] = True
    return settings


@st.composite
def planned(draw: st.DrawFn) -> ClassPlan:
    """Any class, on some file systems, in an environment that has nodes for it."""
    families = ["m8g", "m7i", "m8gd", "m6id"]
    capacity = {"families": families, "nestedFamilies": ["m8i", "i4i-metal"], "gpu": {"limit": 8}}
    service = draw(st.sampled_from([{}, {"service": SERVICE}]))
    return plan_of(draw(class_settings()), draw(st.integers(1, 3)), capacity=capacity, **service)

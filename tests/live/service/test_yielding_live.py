"""On a full node, slots make way for a cold start that somebody waits for, and come back when there is room."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from agentenv.core.classes.names import cold_pool
from agentenv.core.workspaces import claims
from agentenv.core.workspaces.pod_report import PodReport
from agentenv.core.workspaces.workspace import Workspace
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.view import ClusterView
from agentenv.service.workspaces.make_room import give_back_slots, yield_slots
from tests.live.controlplane.objects import TIMEOUT, is_ready
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, LiveClass
from tests.live.service.lifecycle import OWNER, Lifecycle

# Four of them fill the node.
QUARTER = {"resources": {"cpu": "4", "memory": "1Gi"}}


@pytest.fixture
def live_class(live_class: LiveClass) -> LiveClass:
    live_class.size, live_class.max_sandboxes, live_class.extra_settings = 4, 8, QUARTER
    return live_class


def reports(box: LiveClass) -> list[tuple[Workspace, PodReport]]:
    view = ClusterView()
    for claim in box.all("sandboxclaims"):
        view.put_claim(claim)
    for pod in box.all("pods", "/api/v1"):
        view.put_pod(pod)
    return view.reports()


def test_a_cold_start_gets_the_room_of_a_slot_on_a_full_node(live_class: LiveClass, lifecycle: Lifecycle) -> None:
    pool = live_class.deploy_until_full()
    name = f"w-{uuid.uuid4().hex[:8]}"
    template = (live_class.pool(pool) or {})["spec"]["sandboxTemplateRef"]["name"]
    live_class.client.create(claims.claim(live_class.name, cold_pool(template), name, owner=OWNER, workspace=name))
    path = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/{name}"

    def waits() -> bool:
        return any(workspace.id == name and report.unscheduled for workspace, report in reports(live_class))

    assert until(waits, TIMEOUT)
    context = replace(lifecycle.context(), pod_reports=lambda: reports(live_class))

    def starts() -> bool:
        assert run(yield_slots, context, lambda: True).failures == ()
        return is_ready(live_class.client, path)

    assert until(starts, TIMEOUT, every=0.5)
    assert (live_class.pool(pool) or {})["spec"]["replicas"] == 3
    live_class.client.delete(path)
    assert until(lambda: live_class.client.find(path) is None, TIMEOUT)

    def comes_back() -> bool:
        run(give_back_slots, context, lambda: True)
        return live_class.is_full(pool)

    assert until(comes_back, TIMEOUT, every=0.5)

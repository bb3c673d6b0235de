"""A workspace whose cluster objects are all lost is recovered on its own access point, and restored when it is used."""

from __future__ import annotations

from agentenv.core.lifecycle.access_point_audit import Point
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.recovery import home_record
from agentenv.core.workspaces.workspace import RECOVERED_AT
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES, KubeApi
from agentenv.service.workspaces.recover import Recovering, Recovery
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.blocking import run
from tests.live.service.conftest import EXTENSIONS, IMAGES, LiveClass
from tests.live.service.test_restore_live import OWNER, create_workspace, delete_claim, restore, volume_of


def test_a_lost_workspace_is_recovered_and_restored_on_its_own_access_point(live_class: LiveClass) -> None:
    pool = live_class.deploy(IMAGES[0])
    assert until(lambda: live_class.is_full(pool), TIMEOUT)
    name = create_workspace(live_class, pool, "w-lost")
    volume, claim = (
        live_class.cluster.find(VOLUMES, name),
        live_class.cluster.find(CLAIMS, "w-lost", live_class.namespace),
    )
    assert volume is not None
    record = home_record(volume, claim)
    assert record is not None

    delete_claim(live_class, "w-lost")
    live_class.client.delete(f"/api/v1/persistentvolumes/{name}")
    assert until(lambda: live_class.cluster.find(VOLUMES, name) is None, TIMEOUT)

    system, _, id_ = record.handle.partition("::")
    point = Point(id_, system, f"/classes/{live_class.name}/x", 1, 1, tags={"sandbox-user": OWNER})

    async def recover(api: KubeApi) -> Recovery:
        return await Recovering(api, {}, [system]).run([record], [point])

    found = run(recover, live_class.cluster)
    assert (found.homes, found.workspaces, found.created, found.lost) == (1, 1, 1, [])

    def is_released() -> bool:
        current = live_class.cluster.find(VOLUMES, name)
        return current is not None and current.get("status", {}).get("phase") == "Released"

    assert until(is_released, TIMEOUT), live_class.cluster.find(VOLUMES, name)
    recovered = live_class.cluster.find(VOLUMES, name)
    assert recovered is not None
    workspace = workspace_of_volume(recovered)
    assert workspace is not None
    assert (workspace.id, workspace.owner, workspace.state) == ("w-lost", OWNER, "suspended")

    assert restore(live_class, "w-lost").outcome in {"made", "there"}
    path = f"{EXTENSIONS}/namespaces/{live_class.namespace}/sandboxclaims/w-lost"
    assert until(lambda: (live_class.client.get(path).get("status") or {}).get("sandbox"), TIMEOUT)
    assert volume_of(live_class, "w-lost") == name
    home = live_class.client.get(f"/api/v1/persistentvolumes/{name}")
    assert home["spec"]["csi"]["volumeHandle"] == record.handle
    assert RECOVERED_AT not in home["metadata"]["annotations"]

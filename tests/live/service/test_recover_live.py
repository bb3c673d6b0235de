"""A workspace whose cluster objects are all lost is recovered on its own access point, and restored when it is used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from agentenv.core.ledger.table import create_table
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.recovery import home_record
from agentenv.core.workspaces.workspace import RECOVERED_AT
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.ledger.home_records import HomeRecordTable
from tests.live.cli.test_rehearse import AGENTENV
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.conftest import EXTENSIONS, LiveClass
from tests.live.service.test_restore_live import OWNER, create_workspace, delete_claim, restore, volume_of

ROOT = Path(__file__).resolve().parents[3]


def recover(world: LiveCluster, folder: Path, file_system: str, table: str) -> dict[str, Any]:
    """Run the command with an engine that knows the outputs of a stack, and return its JSON."""
    kubeconfig = yaml.safe_load(world.plane.layout.kubeconfig("admin").read_text(encoding="utf-8"))
    outputs = {"kubeconfig": json.dumps(kubeconfig), "fileSystemIds": [file_system]}
    (folder / "outputs.json").write_text(json.dumps(outputs), encoding="utf-8")
    script = f"import json, sys; print(json.dumps(json.load(open({str(folder / 'outputs.json')!r}))[sys.argv[3]]))"
    (folder / "pulumi").write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    (folder / "pulumi").chmod(0o755)
    environment = {**world.environment, "PATH": f"{folder}:{world.environment['PATH']}"}
    command = [AGENTENV, "recover", "--stack", "local", "--table", table, "--json"]
    ended = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


def test_a_lost_workspace_is_recovered_and_restored_on_its_own_access_point(
    live_class: LiveClass, live: LiveCluster, tmp_path: Path
) -> None:
    pool = live_class.deploy_until_full()
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

    dynamodb = live.aws("dynamodb")
    dynamodb.create_table(**create_table(f"ledger-{live_class.name}"))
    HomeRecordTable(dynamodb, f"ledger-{live_class.name}").put(record)
    found = recover(live, tmp_path, live_class.file_system, f"ledger-{live_class.name}")
    assert (found["homes"], found["workspaces"], found["lost"]) == (1, 1, 0)

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

"""A workspace whose cluster objects are all lost is recovered on its own access point, and restored when it is used."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from agentenv.core.classes.names import USER_LABEL, base_path, storage_class
from agentenv.core.ledger.table import create_table
from agentenv.core.workspaces.records import workspace_of_volume
from agentenv.core.workspaces.recovery import HomeRecord, home_record, record_of_point
from agentenv.core.workspaces.seats import CLASS_TAG, USER_TAG
from agentenv.core.workspaces.workspace import RECOVERED_AT
from agentenv.rehearsal.controlplane.client import until
from agentenv.service.kube.client import CLAIMS, VOLUMES
from agentenv.service.ledger.home_records import HomeRecordTable
from tests.live.cli.test_rehearse import AGENTENV
from tests.live.conftest import LiveCluster
from tests.live.controlplane.objects import TIMEOUT
from tests.live.service.conftest import EXTENSIONS, LiveClass
from tests.live.service.test_restore_live import OWNER, create_workspace, delete_claim, restore, volume_of

HOMES = 1_000
ROOT = Path(__file__).resolve().parents[3]


def start_recovery(world: LiveCluster, folder: Path, file_system: str, table: str) -> subprocess.Popen[str]:
    """Start the command with an engine that knows the outputs of a stack."""
    kubeconfig = yaml.safe_load(world.plane.layout.kubeconfig("admin").read_text(encoding="utf-8"))
    outputs = {"kubeconfig": json.dumps(kubeconfig), "fileSystemIds": [file_system]}
    (folder / "outputs.json").write_text(json.dumps(outputs), encoding="utf-8")
    script = f"import json, sys; print(json.dumps(json.load(open({str(folder / 'outputs.json')!r}))[sys.argv[3]]))"
    (folder / "pulumi").write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    (folder / "pulumi").chmod(0o755)
    environment = {**world.environment, "PATH": f"{folder}:{world.environment['PATH']}"}
    command = [AGENTENV, "recover", "--stack", "local", "--table", table, "--json"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, stdin=nothing, stdout=pipe, stderr=pipe)


def recover(world: LiveCluster, folder: Path, file_system: str, table: str) -> dict[str, Any]:
    """Run the command, and return its JSON."""
    with start_recovery(world, folder, file_system, table) as command:
        output, errors = command.communicate()
    assert command.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


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


def test_a_thousand_homes_are_recovered_by_a_command_that_was_killed_once(live: LiveCluster, tmp_path: Path) -> None:
    class_name, table = f"lost-{secrets.token_hex(3)}", f"ledger-lost-{secrets.token_hex(3)}"
    efs, dynamodb, client = live.aws("efs"), live.aws("dynamodb"), live.plane.client
    file_system = efs.create_file_system(CreationToken=class_name)["FileSystemId"]
    dynamodb.create_table(**create_table(table))

    def create_home(number: int) -> HomeRecord:
        owner = f"u-{number}"
        tags = [{"Key": USER_TAG, "Value": owner}, {"Key": CLASS_TAG, "Value": class_name}]
        folder = {"Path": f"{base_path(class_name)}/{number}"}
        point = efs.create_access_point(
            ClientToken=f"{class_name}-{number}", FileSystemId=file_system, RootDirectory=folder, Tags=tags
        )
        handle = f"{file_system}::{point['AccessPointId']}"
        record = record_of_point(handle, owner, class_name, storage_class(class_name, 0), "5Gi")
        HomeRecordTable(dynamodb, table).put(record)
        return record

    with ThreadPoolExecutor(8) as executor:
        records = list(executor.map(create_home, range(HOMES)))

    def volumes() -> list[Any]:
        created = client.get("/api/v1/persistentvolumes")["items"]
        return [row for row in created if row["spec"].get("csi", {}).get("volumeHandle", "").startswith(file_system)]

    with start_recovery(live, tmp_path, file_system, table) as command:
        assert until(lambda: len(volumes()) > HOMES // 10, TIMEOUT)
        command.kill()
        command.communicate()
    try:
        assert len(volumes()) < HOMES
        found = recover(live, tmp_path, file_system, table)
        assert (found["homes"], found["workspaces"], found["lost"]) == (HOMES, HOMES, 0)
        recovered = {row["spec"]["csi"]["volumeHandle"]: row["metadata"]["labels"][USER_LABEL] for row in volumes()}
        assert recovered == {record.handle: record.owner for record in records}
        assert len(volumes()) == HOMES
    finally:
        with ThreadPoolExecutor(8) as executor:
            list(executor.map(lambda record: client.delete(f"/api/v1/persistentvolumes/{record.volume}"), records))

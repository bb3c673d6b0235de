"""An environment of a version without workspaced is upgraded: workspaces get it when they wake, with their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentenv.cli.stack_files import settings_of_file
from agentenv.core.classes.names import HOME, namespace
from agentenv.rehearsal.controlplane.client import until
from agentenv.rehearsal.controlplane.plane import ControlPlane
from agentenv.rehearsal.controlplane.sandboxes.homes import Owner
from agentenv.rehearsal.controlplane.storage import efs_provisioning
from agentenv.rehearsal.scenario import gateway_probe, service_probe
from agentenv.rehearsal.scenario.gateway_probe import Front
from agentenv.rehearsal.scenario.service_probe import Service
from agentenv.rehearsal.stage import credentials
from agentenv.rehearsal.stage.cluster import ClusterOptions
from agentenv.rehearsal.stage.engine import Engine, Outcome
from agentenv.rehearsal.stage.stage import Stage, stage
from agentenv.rehearsal.tools.progress import terminal_progress
from tests.live.controlplane.objects import TIMEOUT
from tests.live.stack.test_environment_lifecycle import ROOT, changed_resources_of, configured

Object = dict[str, Any]
FILE = ROOT / "stacks" / "Pulumi.local.yaml"
SERVICE = "agent-environment:service"
NAME, TEXT = "notes.txt", "written before the upgrade\n"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on which sandboxes are processes."""
    settings = settings_of_file(FILE, "local")
    assert settings is not None
    options = ClusterOptions.for_stack(settings)
    with stage(terminal_progress(), under=tmp_path_factory.mktemp("runs"), cluster=options) as opened:
        yield opened


def test_workspaces_of_a_former_version_get_workspaced_when_they_wake_and_keep_their_files(running: Stage) -> None:
    config = yaml.safe_load(FILE.read_text(encoding="utf-8"))["config"]
    engine = running.program(ROOT / "stacks", "local", without_workspaced(config), {"name": "agent-environment"})
    plane = plane_of(running)
    engine.up()
    try:
        with (
            service_probe.service_client(plane.client, plane.layout.folder) as owner,
            service_probe.service_client(plane.client, plane.layout.folder) as stranger,
        ):
            workspace = create(owner, "upgraded")
            write_as_a_former_version(plane, engine, workspace)
            configured(engine, config)
            check_nothing_of_users_changes(engine.up())
            assert engine.up().changed == 0
            # Its pods were replaced.
            owner.address = stranger.address = service_probe.addresses(plane.client, plane.layout.folder)[0]
            front = gateway_probe.front_of(config[SERVICE], running.query("balancers"))
            assert front is not None
            check_wake(front, owner, stranger, workspace["id"])
    finally:
        engine.destroy()


def without_workspaced(config: Mapping[str, Any]) -> Object:
    """Return the settings as those of a version that had no workspaced."""
    return {**config, SERVICE: {name: value for name, value in config[SERVICE].items() if name != "workspaced"}}


def create(service: Service, key: str) -> Object:
    workspace = service.request("POST", "/v1/workspaces?wait=60", {"class": "standard", "mode": "user", "key": key})
    assert workspace["state"] == "running", workspace
    return workspace


def write_as_a_former_version(plane: ControlPlane, engine: Engine, workspace: Object) -> None:
    """Write a file to the root of a workspace's access point, which was the home."""
    volume_claim = f"{HOME}-{workspace['sandbox']}"
    path = f"/api/v1/namespaces/{namespace(workspace['class'])}/persistentvolumeclaims/{volume_claim}"
    volume = plane.client.get(f"/api/v1/persistentvolumes/{plane.client.get(path)['spec']['volumeName']}")
    handle = volume["spec"]["csi"]["volumeHandle"]
    efs = credentials.client("efs", engine.environment)
    [point] = efs.describe_access_points(AccessPointId=efs_provisioning.access_point(handle))["AccessPoints"]
    root = Path(point["RootDirectory"]["Path"]).relative_to("/")
    home = plane.layout.folder / "file-systems" / point["FileSystemId"] / root
    home.mkdir(parents=True, exist_ok=True)
    (home / NAME).write_text(TEXT, encoding="utf-8")
    owner = Owner(point["PosixUser"]["Uid"], point["PosixUser"]["Gid"])
    for path_ in (home, home / NAME):
        owner.give(path_)


def check_nothing_of_users_changes(upgraded: Outcome) -> None:
    """Check that resources outside the cluster are untouched, and only objects of releases are deleted."""
    changes = changed_resources_of(upgraded)
    assert set(changes) == {"create", "update", "delete"}
    kinds = {urn.split("::")[2].rpartition("$")[2] for _, urn, _ in upgraded.changed_resources()}
    assert all(kind.startswith("kubernetes:") for kind in kinds), kinds
    assert all(name.endswith(("-pool", "-template")) for name in changes["delete"]), changes["delete"]


def check_wake(front: Front, owner: Service, stranger: Service, id_: str) -> None:
    """Check that a workspace says what it lacks while it runs, and has it and its file after its next wake."""
    with gateway_probe.keys_of(front, id_, owner, stranger) as hosts:
        headers = {"Authorization": f"Bearer {hosts.owner}"}
        status, text = front.get(hosts.api, f"/files?path={NAME}", headers)
        assert (status, "suspend" in text) == (409, True), text
        owner.request("POST", f"/v1/workspaces/{id_}/suspend")
        path = f"/v1/workspaces/{id_}"
        assert until(lambda: owner.request("GET", path)["state"] == "suspended", TIMEOUT)
        status, text = front.get(hosts.api, f"/files?path={NAME}", headers)
        assert (status, text) == (200, TEXT), owner.request("GET", path)


def plane_of(running: Stage) -> ControlPlane:
    assert running.cluster is not None
    return running.cluster.plane

"""Promises about isolation, tested from inside a sandbox: what it did not declare, it cannot reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentenv.cli.prove.deployment import Deployment, Object
from agentenv.cli.prove.promises import Broken, NotTried, Promise

Target = tuple[str, int]

# Prints `open` or `closed`, by the first tool that the image has.
_CONNECT = r"""
connect() {
  if command -v python3 > /dev/null; then
    python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).close()' \
      "$1" "$2" 2> /dev/null && echo open || echo closed
  elif command -v nc > /dev/null; then
    nc -z -w 3 "$1" "$2" > /dev/null 2>&1 && echo open || echo closed
  elif command -v bash > /dev/null; then
    timeout 3 bash -c 'exec 3<> "/dev/tcp/$0/$1"' "$1" "$2" 2> /dev/null && echo open || echo closed
  else
    echo none
  fi
}
"""
# A listener of the sandbox's own: where a connection to it fails, a failing one elsewhere proves nothing.
_CONTROL = r"""
if command -v python3 > /dev/null; then
  python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 38017)); s.settimeout(5); s.accept()' &
elif command -v nc > /dev/null; then
  nc -l -p 38017 -s 127.0.0.1 > /dev/null 2>&1 < /dev/null &
fi
for _ in 1 2 3 4 5 6 7 8 9 10; do
  [ "$(connect 127.0.0.1 38017)" = open ] && break
  sleep 0.3
done
[ $? = 0 ] && echo control || echo none
"""
_METADATA: tuple[Target, ...] = (("169.254.169.254", 80), ("169.254.170.2", 80))
_PUBLIC: Target = ("checkip.amazonaws.com", 443)
_KUBELET, _NFS, _HTTPS = 10250, 2049, 443


def reachable(deployment: Deployment, workspace: Object, targets: Iterable[Target]) -> list[str]:
    """Return the targets that a sandbox connects to; `NotTried` where connections cannot be tested in it."""
    script = _CONNECT + _CONTROL + "".join(f"echo {host} {port} $(connect {host} {port})\n" for host, port in targets)
    lines = deployment.run(workspace["id"], script).splitlines()
    if "control" not in lines:
        raise NotTried("the image has no python3 or nc that connects to the sandbox itself")
    return [line.removesuffix(" open") for line in lines if line.endswith(" open")]


def _unreachable(targets_of: Callable[[Deployment, Object], list[Target]]) -> Callable[[Deployment], str]:
    def test(deployment: Deployment) -> str:
        with deployment.workspace() as workspace:
            targets = targets_of(deployment, workspace)
            if found := reachable(deployment, workspace, targets):
                raise Broken(f"a sandbox of {workspace['class']} connected to {', '.join(found)}")
        return "no connection to " + ", ".join(f"{host}:{port}" for host, port in targets)

    return test


def _metadata(deployment: Deployment, _: Object) -> list[Target]:
    _check_not_granted(deployment, "metadata")
    return list(_METADATA)


def _check_not_granted(deployment: Deployment, capability: str) -> None:
    class_ = deployment.enterable_class()
    if capability in {grant.word for grant in class_.capabilities}:
        raise NotTried(f"class {class_.name} declares {capability}")


def _api_server(deployment: Deployment, _: Object) -> list[Target]:
    _check_not_granted(deployment, "api-server")
    service = deployment.kubernetes.get("/api/v1/namespaces/default/services/kubernetes")
    slices = deployment.kubernetes.get(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        labelSelector="kubernetes.io/service-name=kubernetes",
    )["items"]
    backends = [
        (address, int(port["port"]))
        for row in slices
        for endpoint in row["endpoints"]
        for address in endpoint["addresses"]
        for port in row["ports"]
    ]
    return [(service["spec"]["clusterIP"], _HTTPS), *backends]


def _node(deployment: Deployment, workspace: Object) -> list[Target]:
    return [(deployment.pod(workspace)["status"]["hostIP"], _KUBELET)]


def _file_systems(deployment: Deployment, _: Object) -> list[Target]:
    efs = deployment.client("efs")
    systems = deployment.outputs.get("fileSystemIds") or []
    targets = [row for id_ in systems for row in efs.describe_mount_targets(FileSystemId=id_)["MountTargets"]]
    if not targets:
        raise NotTried("the stack has no file system")
    return [(row["IpAddress"], _NFS) for row in targets]


def reaches_no_neighbour(deployment: Deployment) -> str:
    """Connect from one sandbox to the daemon of another one of the same class."""
    with deployment.workspace() as first, deployment.workspace() as second:
        pod = deployment.pod(second)
        ports = [row["containerPort"] for row in pod["spec"]["containers"][0].get("ports") or ()]
        targets = [(pod["status"]["podIP"], port) for port in ports]
        if found := reachable(deployment, first, targets):
            raise Broken(f"a sandbox connected to its neighbour at {', '.join(found)}")
    return "no connection to " + ", ".join(f"{host}:{port}" for host, port in targets)


def reaches_what_it_declares(deployment: Deployment) -> str:
    """Connect from a sandbox to a public host, if its class declares `web`."""
    if deployment.surroundings.simulated:
        raise NotTried("a rehearsal reaches no public host")
    class_ = deployment.enterable_class()
    if "web" not in {grant.word for grant in class_.capabilities}:
        raise NotTried(f"class {class_.name} does not declare web")
    with deployment.workspace() as workspace:
        if not reachable(deployment, workspace, [_PUBLIC]):
            raise Broken(f"a sandbox of {class_.name} did not reach {_PUBLIC[0]}:{_PUBLIC[1]}")
    return f"connected to {_PUBLIC[0]}:{_PUBLIC[1]}"


PROMISES = (
    Promise("granted", "a sandbox reaches what its class declares", reaches_what_it_declares),
    Promise("metadata", "a sandbox does not reach the metadata of its instance", _unreachable(_metadata)),
    Promise("api-server", "a sandbox does not reach the API server", _unreachable(_api_server)),
    Promise("neighbour", "a sandbox does not reach another sandbox", reaches_no_neighbour),
    Promise("node", "a sandbox does not reach the kubelet of its node", _unreachable(_node)),
    Promise("file-systems", "a sandbox does not reach the mount targets of file systems", _unreachable(_file_systems)),
)

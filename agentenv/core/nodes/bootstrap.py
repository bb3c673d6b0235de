"""The user data of a node: limits of its kubelet, its firewall, and its container runtime, before the kubelet starts.

The image's own agent writes containerd's configuration from every NodeConfig it is given and starts containerd only
after cloud-init's scripts, so nothing is restarted and no pod meets a node that is half ready.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentenv.core.nodes.tiers import KATA_GUEST_MEMORY, Wall
from agentenv.core.pinned_versions import Runtime

_BOUNDARY = "//"
# containerd 2 reads this plugin's table; the name that it had before would be passed over without a word.
_RUNTIMES = "plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes"
_KATA = "/opt/kata/share/defaults/kata-containers"

# Processes and threads of a pod. Without a limit one pod can take all that the node has.
POD_PIDS = 4096

# What joins the cluster starts after this script and is kept from it by taking its unit's place. The image has the unit
# itself where `systemctl mask` would put its link, and the command refuses then.
_OPENING = """\
#!/bin/bash
set -euo pipefail
# A node without its wall must not take pods: it never joins, goes out, and Karpenter launches another.
work=""
close() {
  [ -z "$work" ] || rm -rf "$work"
  [ "$1" -ne 0 ] || return 0
  set +e
  ln -sf /dev/null /etc/systemd/system/nodeadm-run.service
  systemctl daemon-reload
  systemctl poweroff --no-block
}
trap 'close "$?"' EXIT
machine="$(uname -m)"
case "$machine" in
  x86_64) package=amd64 ;;
  aarch64) package=arm64 ;;
  *) exit 1 ;;
esac
# Not in /tmp, which is in memory.
work="$(mktemp -d -p /var/tmp)"
cd "$work"
# Takes the file from the first address that has the pinned bytes. Only the last is tried again after every error, such
# as a missing file.
fetch() {
  local file="$1" digest="$2" retry
  shift 2
  while [ "$#" -gt 0 ]; do
    retry=(--retry 5)
    [ "$#" -gt 1 ] || retry+=(--retry-all-errors)
    if curl --fail --silent --show-error --location --proto '=https' --connect-timeout 10 --speed-time 30 \\
      "${retry[@]}" -o "$file" "$1" && echo "${digest#*:}  $file" | "${digest%%:*}sum" --check; then
      return 0
    fi
    shift
  done
  return 1
}
"""

# No network policy applies between a pod and its own node. Pods of sandboxes need nothing of it but the credentials of
# the Pod Identity agent; responses to the kubelet's probes are of its own connections. Interfaces of pods are `eni…`.
_FIREWALL = """\
command -v iptables >/dev/null || dnf install -y iptables-nft
cat > /etc/systemd/system/pods-to-node.service <<'END'
[Unit]
Description=Drop what pods send to their own node
Before=kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=iptables -w -N PODS-TO-NODE
ExecStart=iptables -w -A PODS-TO-NODE -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN
ExecStart=iptables -w -A PODS-TO-NODE -d 169.254.170.23 -p tcp --dport 80 -j RETURN
ExecStart=iptables -w -A PODS-TO-NODE -j DROP
ExecStart=iptables -w -I INPUT -i eni+ -j PODS-TO-NODE
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now pods-to-node.service
"""


def user_data(wall: Wall | None, runtimes: Mapping[str, Runtime]) -> str:
    """Return the user data of a node: the kubelet's settings, and for sandboxes the firewall and the runtime.

    The runtime is left out if the image already has it. Nodes of the platform, without a wall, have no firewall.

    Karpenter adds its own part, and the parts are merged.
    """
    script: list[str] = []
    table: list[str] = []
    if wall is not None and wall.word == "gvisor":
        script, table = _gvisor(runtimes["gvisor"])
    elif wall is not None and wall.word == "kata":
        script, table = _kata(runtimes["kata"])
    kubelet = ("  kubelet:", "    config:", f"      podPidsLimit: {POD_PIDS}")
    containerd = ("  containerd:", "    config: |", *(f"      {line}" for line in table)) if table else ()
    parts = {
        **(
            {'text/x-shellscript; charset="us-ascii"': _OPENING + _FIREWALL + "\n".join(script)}
            if wall is not None
            else {}
        ),
        "application/node.eks.aws": "\n".join(
            ("apiVersion: node.eks.aws/v1alpha1", "kind: NodeConfig", "spec:", *kubelet, *containerd)
        ),
    }
    body = "".join(f"--{_BOUNDARY}\nContent-Type: {kind}\n\n{text}\n\n" for kind, text in parts.items())
    return f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n{body}--{_BOUNDARY}--\n'


def _gvisor(runtime: Runtime) -> tuple[list[str], list[str]]:
    script = [
        *_unpacked(runtime, "/usr/local/bin"),
        # It runs by what lies beside it, and fetches what does not: then rather no node.
        "test -x /usr/local/bin/gvisor-bin/gvisor_sentry -a -x /usr/local/bin/containerd-shim-runsc-v1",
        "mkdir -p /etc/containerd",
        "cat > /etc/containerd/runsc.toml <<'END'",
        "[runsc_config]",
        'platform = "systrap"',
        # Without it a sandbox's share of its node is counted where the kubelet does not look.
        'systemd-cgroup = "true"',
        "END",
    ]
    table = [
        f"[{_RUNTIMES}.runsc]",
        'runtime_type = "io.containerd.runsc.v1"',
        f"[{_RUNTIMES}.runsc.options]",
        'TypeUrl = "io.containerd.runsc.v1.options"',
        'ConfigPath = "/etc/containerd/runsc.toml"',
    ]
    return script, table


def _unpacked(runtime: Runtime, folder: str) -> list[str]:
    addresses = [address.format(machine="$machine", package="$package") for address in runtime.addresses]
    archive = addresses[0].rsplit("/", 1)[1]
    return [
        'case "$package" in',
        *(f"  {package}) digest={digest} ;;" for package, digest in sorted(runtime.digests.items())),
        "esac",
        " ".join(("fetch", *(f'"{word}"' for word in (archive, "$digest", *addresses)))),
        "command -v zstd >/dev/null || dnf install -y zstd",
        f'tar --zstd --no-same-owner -xf "{archive}" -C {folder}',
    ]


def _kata(runtime: Runtime) -> tuple[list[str], list[str]]:
    script = [
        *_unpacked(runtime, "/"),
        # Kata reads these files after its own. A guest gets the memory limits of its pod beside what it needs itself,
        # from the start, and all processes on the node are in the cgroup of the pod. By default a guest has 2 GiB more,
        # outside of it.
        f"mkdir -p {_KATA}/config.d",
        f"cat > {_KATA}/config.d/50-pod-resources.toml <<'END'",
        "[hypervisor.clh]",
        f"default_memory = {KATA_GUEST_MEMORY}",
        "[runtime]",
        "sandbox_cgroup_only = true",
        "static_sandbox_resource_mgmt = true",
        "END",
        "ln -sf /opt/kata/bin/containerd-shim-kata-v2 /usr/local/bin/containerd-shim-kata-v2",
        # For the guest's processor and network. Cloud Hypervisor speaks to its guest over a Unix socket.
        "modprobe -a kvm vhost vhost_net",
    ]
    table = [
        f"[{_RUNTIMES}.kata]",
        'runtime_type = "io.containerd.kata.v2"',
        "privileged_without_host_devices = true",
        f"[{_RUNTIMES}.kata.options]",
        f'ConfigPath = "{_KATA}/configuration-clh.toml"',
    ]
    return script, table

"""Pods of class templates, and a client of the workspaced in them."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agentenv.core.classes.pods import home_layout
from agentenv.rehearsal.scenario.command_probe import Output, run_script

Object = dict[str, Any]

PORT = 49983
UID = 61234
IMAGE = "registry.example/sandbox"
_OPT = {"name": "workspaced", "mountPath": "/opt/workspaced"}
EVERYTHING = "api ssh ports control"


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@dataclass
class Signer:
    """The service's key, and tokens signed with it."""

    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def keys(self) -> str:
        """Return the public keys as the service publishes them."""
        x = _encode(self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
        return json.dumps({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": x}]})

    def token(self, pod_uid: str, claim: str = "claim-1", scope: str = EVERYTHING) -> str:
        """Return a token for a pod."""
        now = int(time.time())
        claims = {"aud": pod_uid, "claim": claim, "sid": "s1", "scope": scope, "iat": now, "exp": now + 60}
        parts = [_encode(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "kid": "k1"}, claims)]
        return ".".join([*parts, _encode(self.key.sign(".".join(parts).encode()))])


def keys_configmap(namespace: str, signer: Signer) -> Object:
    """Return the ConfigMap with the public keys."""
    metadata = {"name": "workspaced-keys", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"keys.json": signer.keys()}}


def sandbox_spec(*command: str, home: Object | None = None, **more: Any) -> Object:
    """Return the specification of a sandbox's pod, with its home in a volume claim or an emptyDir."""
    uid = {"path": "uid", "fieldRef": {"fieldPath": "metadata.uid"}}
    run = [
        "/opt/workspaced/workspaced",
        "run",
        "--pod-uid-file",
        "/etc/podinfo/uid",
        "--keys",
        "/etc/workspaced/keys.json",
    ]
    container = {
        "name": "sandbox",
        "image": IMAGE,
        "command": [*run, "--grace", "2s", *(["--", *command] if command else [])],
        "env": [{"name": "HOME", "value": "/home/agent"}],
        "ports": [{"name": "workspaced", "containerPort": PORT}],
        "securityContext": {"readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {**_OPT, "readOnly": True},
            {"name": "workspaced", "mountPath": "/etc/passwd", "subPath": "passwd", "readOnly": True},
            {"name": "workspaced", "mountPath": "/etc/group", "subPath": "group", "readOnly": True},
            {"name": "podinfo", "mountPath": "/etc/podinfo", "readOnly": True},
            {"name": "workspaced-keys", "mountPath": "/etc/workspaced", "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the sandbox
            {"name": "home", "mountPath": "/home/agent", "subPath": "current"},
        ],
        **more.pop("container", {}),
    }
    files = ["--to", "/opt/workspaced/passwd", "--group", "/opt/workspaced/group"]
    passwd = ["/opt/workspaced/workspaced", "passwd", *files, "--home", "/home/agent"]
    install = {"command": ["/workspaced", "install", "/opt/workspaced"], "volumeMounts": [_OPT]}
    return {
        "securityContext": {"runAsUser": UID, "runAsGroup": UID, "runAsNonRoot": True},
        "initContainers": [
            {"name": "workspaced", "image": "registry.example/workspaced", **install},
            {
                "name": "home",
                "image": "registry.example/gate",
                "command": ["/bin/sh", "-c", home_layout.script(), "home"],
                "args": [home_layout.FOLDER],
                "volumeMounts": [{"name": "home", "mountPath": home_layout.FOLDER}],
            },
            {"name": "passwd", "image": IMAGE, "command": passwd, "volumeMounts": [_OPT]},
        ],
        "containers": [container],
        "volumes": [
            {"name": "workspaced", "emptyDir": {}},
            {"name": "podinfo", "downwardAPI": {"items": [uid]}},
            {"name": "workspaced-keys", "configMap": {"name": "workspaced-keys"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "home", **(home or {"emptyDir": {}})},
        ],
        **more,
    }


def sandbox_pod(namespace: str, name: str, *command: str, **more: Any) -> Object:
    """Return a sandbox's pod."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": sandbox_spec(*command, **more)}


def run(pod: Object, signer: Signer, script: str, claim: str = "claim-1", seconds: float = 60.0) -> Output:
    """Run a shell script in a sandbox, over its pod's address."""
    return run_script(pod, signer.token(pod["metadata"]["uid"], claim), script, seconds)

"""Kubeconfig files: load and merge them, and return the access to one cluster."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml


class InvalidKubeconfig(Exception):
    """The kubeconfig is not valid. The message never contains its content."""


@dataclass(frozen=True)
class Exec:
    """An exec plugin that issues credentials."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    api_version: str
    cluster_info: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Access:
    """The address of a cluster, and the user to authenticate as."""

    server: str
    namespace: str = ""
    ca: bytes | None = field(default=None, repr=False)
    insecure: bool = False
    tls_name: str | None = None
    proxy: str | None = None
    certificate: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    exec: Exec | None = None
    impersonate: str | None = None
    impersonate_groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A named entry of a kubeconfig, with the folder of its relative paths."""

    values: Mapping[str, Any] = field(repr=False)
    folder: Path | None

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        return str(value) if value else None

    def path(self, key: str) -> Path | None:
        value = self.text(key)
        if value is None:
            return None
        path = Path(value).expanduser()
        return path if path.is_absolute() or self.folder is None else self.folder / path

    def content(self, key: str) -> bytes | None:
        """A file's content: given as base64 in `<key>-data`, or by its path."""
        data = self.text(f"{key}-data")
        if data is not None:
            try:
                return base64.b64decode(data, validate=True)
            except (binascii.Error, ValueError):
                raise InvalidKubeconfig(f"{key}-data is not base64") from None
        path = self.path(key)
        if path is None:
            return None
        try:
            return path.read_bytes()
        except OSError as error:
            raise InvalidKubeconfig(f"{key}: {path} cannot be read ({error.strerror})") from None


@dataclass(frozen=True)
class Kubeconfig:
    """One or several files, merged: the first file that names something wins."""

    clusters: Mapping[str, Entry]
    users: Mapping[str, Entry]
    contexts: Mapping[str, Entry]
    current: str

    def active_cluster(self, context: str = "", cluster: str = "") -> Mapping[str, Any] | None:
        """The values of the cluster that would be spoken to, or None when that cannot be told."""
        chosen = self.contexts.get(context or self.current)
        name = cluster or (chosen.text("cluster") if chosen else None)
        entry = self.clusters.get(name or "")
        return entry.values if entry else None


def load(contents: str | Mapping[str, Any] | None, environment: Mapping[str, str]) -> Kubeconfig:
    """Load a kubeconfig from its content or a path, else from the files in KUBECONFIG.

    Never from `~/.kube/config`: a rehearsal must not reach a real cluster by accident.
    """
    if contents is None or contents == "":
        paths = [Path(p).expanduser() for p in environment.get("KUBECONFIG", "").split(":") if p]
        return _merge([(_file(path), path.parent) for path in paths if path.is_file()])
    if isinstance(contents, Mapping):
        return _merge([(dict(contents), None)])
    if "\n" not in contents and len(contents) < 4096 and not contents.lstrip().startswith("{"):
        path = Path(contents).expanduser()
        if path.is_file():
            return _merge([(_file(path), path.parent)])
    return _merge([(_parsed(contents, "the kubeconfig"), None)])


def _file(path: Path) -> dict[str, Any]:
    try:
        return _parsed(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidKubeconfig(f"{path} cannot be read ({type(error).__name__})") from None


def _parsed(text: str, source: str) -> dict[str, Any]:
    try:
        values = json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        # The parser's own words would quote the text, which holds credentials.
        raise InvalidKubeconfig(f"{source} is neither YAML nor JSON") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InvalidKubeconfig(f"{source} is neither the path of a file nor a kubeconfig's contents")
    return values


def _merge(parts: list[tuple[dict[str, Any], Path | None]]) -> Kubeconfig:
    merged: dict[str, dict[str, Entry]] = {"cluster": {}, "user": {}, "context": {}}
    current = ""
    for values, folder in parts:
        current = current or str(values.get("current-context") or "")
        for what, entries in merged.items():
            for item in values.get(f"{what}s") or []:
                if isinstance(item, dict) and item.get("name"):
                    entries.setdefault(str(item["name"]), Entry(item.get(what) or {}, folder))
    return Kubeconfig(merged["cluster"], merged["user"], merged["context"], current)


def cluster_access(config: Kubeconfig, context: str = "", cluster: str = "", namespace: str = "") -> Access:
    """Return the access to the cluster of a context, by default the current one."""
    if not config.clusters:
        raise InvalidKubeconfig("no kubeconfig was given: set kubeconfig on the provider, or KUBECONFIG")
    name = context or config.current
    chosen = config.contexts.get(name)
    if chosen is None:
        raise InvalidKubeconfig(
            f"context {name!r} does not exist; the kubeconfig has {_names(config.contexts)}"
            if name
            else f"no context was named and the kubeconfig has no current-context; it has {_names(config.contexts)}"
        )
    cluster_name = cluster or chosen.text("cluster") or ""
    source = config.clusters.get(cluster_name)
    if source is None:
        raise InvalidKubeconfig(
            f"cluster {cluster_name!r} does not exist; the kubeconfig has {_names(config.clusters)}"
        )
    server = source.text("server")
    if server is None or not server.startswith(("http://", "https://")):
        raise InvalidKubeconfig(f"cluster {cluster_name!r} needs a server that starts with https://")
    user_name = chosen.text("user") or ""
    user = config.users.get(user_name, Entry({}, None))
    if user_name and user_name not in config.users:
        raise InvalidKubeconfig(f"user {user_name!r} does not exist; the kubeconfig has {_names(config.users)}")
    return Access(
        server=server.rstrip("/"),
        namespace=namespace or chosen.text("namespace") or "",
        ca=source.content("certificate-authority"),
        insecure=bool(source.values.get("insecure-skip-tls-verify")),
        tls_name=source.text("tls-server-name"),
        proxy=source.text("proxy-url"),
        certificate=user.content("client-certificate"),
        key=user.content("client-key"),
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        exec=_exec(user),
        impersonate=user.text("as"),
        impersonate_groups=tuple(str(g) for g in user.values.get("as-groups") or ()),
    )


def _exec(user: Entry) -> Exec | None:
    values = user.values.get("exec")
    if not isinstance(values, Mapping):
        return None
    if not values.get("command"):
        raise InvalidKubeconfig("the user's exec names no command")
    return Exec(
        command=str(values["command"]),
        args=tuple(str(a) for a in values.get("args") or ()),
        env={str(e["name"]): str(e.get("value", "")) for e in values.get("env") or ()},
        api_version=str(values.get("apiVersion") or "client.authentication.k8s.io/v1"),
        cluster_info=bool(values.get("provideClusterInfo")),
        hint=str(values.get("installHint") or ""),
    )


def _names(entries: Mapping[str, Entry]) -> str:
    return ", ".join(repr(name) for name in sorted(entries)) or "none"

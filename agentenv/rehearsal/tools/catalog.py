"""The catalog of tools: a recipe for each, beside the folder whose `go.mod` and `go.sum` pin its sources.

A new tool is a row here; a new set of pinned modules is a folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from agentenv.rehearsal.tools.errors import UnknownTool
from agentenv.rehearsal.tools.versions import Version, need

HERE = Path(__file__).parent
WORKSPACED = HERE.parents[2] / "workspaced"

_PULUMI = "v3.259.0"
_KUBERNETES = "v1.35.4"
_AGENT_SANDBOX = "v1.0.3"
_PROMETHEUS = "v3.14.0"
_GVISOR = "v20260701.0.0"  # releases are named by date; the module has a pseudo-version of that day
_ASSETS = "KUBEBUILDER_ASSETS"  # where controllers' own tests keep an API server and its etcd


@dataclass(frozen=True)
class Program:
    """A program that is built from its group's modules."""

    name: str
    group: str  # the folder with go.mod and go.sum
    version: str  # the built version, and the minimum of an installed one unless `least` is set
    package: str
    stamp: str = ""  # the linker variable for the version, if the program has one
    stamps: tuple[str, ...] = ()  # further ones, as variable=value
    pinned: str = ""  # the version of its module, where that differs
    sources: Path | None = None  # the folder of a checkout that has its sources, instead of a pinned module
    tags: tuple[str, ...] = ()  # build tags
    least: str = ""  # the minimum version of an installed program
    only_minor: bool = False  # whether newer minor versions are refused
    assets: str = ""  # an environment variable that may name a folder with the program, looked into before PATH
    version_arguments: tuple[str, ...] = ("version",)  # arguments that print its version
    minutes: float = 1  # on two cores, modules included
    room_mb: int = 400  # for the program itself and what the linker needs
    go_room_mb: int = 500  # for Go's own caches of modules and objects

    def flags(self) -> tuple[str, ...]:
        """Return the build flags; they are part of the cache key."""
        stamps = (*([f"{self.stamp}={self.version}"] if self.stamp else []), *self.stamps)
        tags = ("-tags", ",".join(self.tags)) if self.tags else ()
        tags = (*tags, "-buildvcs=false") if self.sources else tags
        return ("-trimpath", *tags, "-ldflags", " ".join(("-s -w", *(f"-X {stamp}" for stamp in stamps))))

    def takes(self, version: Version) -> bool:
        """Return whether an installed program of that version is accepted."""
        least = need(self.least or self.version)
        same = (version.major, version.minor) == (least.major, least.minor)
        return version >= least and (same or not self.only_minor)

    def accepted_versions(self) -> str:
        """Return the accepted versions as a text."""
        least = need(self.least or self.version)
        return f"{least} or newer within {least.major}.{least.minor}" if self.only_minor else f"{least} or newer"


@dataclass(frozen=True)
class ModuleFile:
    """A file or folder of one of the group's modules, which is fetched and not built."""

    name: str
    group: str
    version: str
    module: str
    member: str  # its path inside the module
    pinned: str = ""  # the version that the module has, where the file has one of its own
    # The official plugin (kind, name) that brings it along and makes ours unnecessary
    beside: tuple[str, str] | None = None
    minutes: float = 0.2
    room_mb: int = 1
    go_room_mb: int = 100

    def flags(self) -> tuple[str, ...]:
        """Return what else the cache key depends on."""
        return (self.module, self.member)


Recipe = Program | ModuleFile

RECIPES: tuple[Recipe, ...] = (
    Program(
        name="pulumi",
        group="pulumi",
        version=_PULUMI,
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        stamp="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
        minutes=5,
        room_mb=600,
        go_room_mb=3200,
    ),
    ModuleFile(
        name="language-python-exec",
        group="pulumi",
        version=_PULUMI,
        module="github.com/pulumi/pulumi/sdk/v3",
        member="python/cmd/pulumi-language-python-exec",
        beside=("language", "python"),
    ),
    Program(
        name="etcd",
        group="etcd",
        version="v3.6.5",
        package="go.etcd.io/etcd/server/v3",
        least="v3.6.0",
        version_arguments=("--version",),
        assets=_ASSETS,
    ),
    *(
        Program(
            name=name,
            group="kubernetes",
            version=_KUBERNETES,
            package=f"k8s.io/kubernetes/cmd/{name}",
            stamp="k8s.io/component-base/version.gitVersion",
            stamps=tuple(f"k8s.io/component-base/version.{part}" for part in ("gitMajor=1", "gitMinor=35")),
            least="v1.35.0",
            only_minor=True,
            version_arguments=("--version",),
            assets=_ASSETS,
            minutes=minutes,
            go_room_mb=4000,
        )
        for name, minutes in (("kube-apiserver", 6), ("kube-controller-manager", 2), ("kube-scheduler", 0.5))
    ),
    Program(
        name="runsc",
        group="gvisor",
        version=_GVISOR,
        package="gvisor.dev/gvisor/runsc",
        stamp="gvisor.dev/gvisor/runsc/version.version",
        pinned="v0.0.0-20260701204157-69c2d17aea96",
        version_arguments=("--version",),
        minutes=1,
        go_room_mb=900,
    ),
    # Built from this checkout, so that a rehearsal runs what the checkout has. A wheel has no sources of it.
    Program(
        name="workspaced",
        group="workspaced",
        version=f"v{version('agent-environment')}",
        package="./cmd/workspaced",
        stamp="main.version",
        sources=WORKSPACED,
        minutes=0.3,
        room_mb=50,
        go_room_mb=300,
    ),
    # gVisor's network stack, of the same version as the runtime; and latencyfs, for homes that are to have the latency
    # of a network.
    *(
        Program(
            name=name,
            group=name,
            version="v0.1.0",
            package=".",
            stamp="main.version",
            sources=HERE / name,
            version_arguments=("--version",),
            minutes=minutes,
            room_mb=room_mb,
            go_room_mb=go_room_mb,
        )
        for name, minutes, room_mb, go_room_mb in (("podnetwork", 0.3, 30, 300), ("latencyfs", 0.1, 20, 100))
    ),
    Program(
        name="kwok",
        group="kwok",
        version="v0.8.0",
        package="sigs.k8s.io/kwok/cmd/kwok",
        version_arguments=("--version",),
        minutes=2,
        go_room_mb=2000,
    ),
    Program(
        name="agent-sandbox-controller",
        group="agent-sandbox",
        version=_AGENT_SANDBOX,
        package="sigs.k8s.io/agent-sandbox/cmd/agent-sandbox-controller",
        stamp="sigs.k8s.io/agent-sandbox/internal/version.gitVersion",
        version_arguments=("--version",),
        minutes=3,
        go_room_mb=2000,
    ),
    Program(
        name="helm",
        group="helm",
        version="v3.22.0",
        package="helm.sh/helm/v3/cmd/helm",
        stamp="helm.sh/helm/v3/internal/version.version",
        least="v3.14.0",
        version_arguments=("version", "--short"),
        minutes=2,
        go_room_mb=2000,
    ),
    # Only the tests ask for these two: rules and queries are tried on what will evaluate them. Of the places where one
    # can find what to scrape, only Kubernetes is left in, which leaves out the clients of a dozen clouds.
    *(
        Program(
            name=name,
            group="prometheus",
            version=_PROMETHEUS,
            pinned="v0.314.0",
            package=f"github.com/prometheus/prometheus/cmd/{name}",
            stamp="github.com/prometheus/common/version.Version",
            tags=("remove_all_sd", "enable_kubernetes_sd"),
            least="v3.5.0",
            version_arguments=("--version",),
            minutes=minutes,
            go_room_mb=3000,
        )
        for name, minutes in (("prometheus", 3), ("promtool", 0.2))
    ),
    *(
        ModuleFile(
            name=name, group="agent-sandbox", version=_AGENT_SANDBOX, module="sigs.k8s.io/agent-sandbox", member=member
        )
        for name, member in (("agent-sandbox-manifests", "k8s"), ("agent-sandbox-chart", "helm"))
    ),
    *(
        ModuleFile(
            name=f"{chart}-chart",
            group="karpenter",
            version="v1.14.1",
            module="github.com/aws/karpenter-provider-aws",
            member=f"charts/{chart}",
        )
        for chart in ("karpenter", "karpenter-crd")
    ),
    # Charts that are published in repositories of charts: as those repositories had them when these were released.
    *(
        ModuleFile(
            name=f"{chart}-chart",
            group="charts",
            version=version,
            module=f"github.com/{repository}",
            member=f"charts/{chart}",
            pinned=f"v0.0.0-{commit}",
        )
        for chart, version, repository, commit in (
            ("prometheus", "v29.27.0", "prometheus-community/helm-charts", "20260828105119-ed5d7d9b5933"),
            ("opencost", "v2.5.30", "opencost/opencost-helm-chart", "20260825223215-4242feee70e7"),
            ("grafana", "v13.0.1", "grafana-community/helm-charts", "20260829030558-dbf9f4fb5fa1"),
        )
    ),
)


def recipe(name: str) -> Recipe:
    """Return the recipe of that name."""
    for row in RECIPES:
        if row.name == name:
            return row
    known = ", ".join(row.name for row in RECIPES)
    raise UnknownTool(f"there is no tool '{name}'; there are {known}")


def folder(row: Recipe) -> Path:
    """Return the folder that pins the recipe's modules."""
    return row.sources if isinstance(row, Program) and row.sources else HERE / row.group


def has_sources(row: Recipe) -> bool:
    """Return whether the recipe can be built: a program of the checkout only inside one."""
    return (folder(row) / "go.mod").is_file()


def key(row: Recipe) -> str:
    """Return the recipe's cache key: it changes whenever the result might."""
    digest = hashlib.sha256()
    for path in _inputs(row):
        digest.update(path.read_bytes())
    digest.update("\0".join((row.name, row.version, *row.flags())).encode())
    return f"{row.name}-{row.version}-{digest.hexdigest()[:12]}"


def _inputs(row: Recipe) -> Iterator[Path]:
    """Yield the files that decide the result."""
    for name in ("go.mod", "go.sum"):
        yield folder(row) / name
    if isinstance(row, Program) and row.sources:
        yield from (path for path in sorted(row.sources.rglob("*.go")) if not path.name.endswith("_test.go"))


def least_go(row: Recipe) -> Version:
    """Return the Go version that the recipe's go.mod requires."""
    for line in (folder(row) / "go.mod").read_text(encoding="utf-8").splitlines():
        if line.startswith("go "):
            return need(line)
    raise ValueError(f"{folder(row) / 'go.mod'} has no 'go' line")

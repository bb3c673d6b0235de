"""The environment variables that a rehearsed engine and its plugins run under.

Everything that could lead to a real account, a real Pulumi organisation or another stack is taken out first; then the
simulated cloud is put in. The official plugins and the stand-ins read the same variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentenv.rehearsal.providers.common import unsimulated
from agentenv.rehearsal.stage import run_folders as runs
from agentenv.rehearsal.stage.processes import MARK

REGION = "us-east-1"  # where a program is rehearsed that names none
_DROPPED = ("AWS_", "PULUMI_", "ARM_", "GOOGLE_", "KUBE", "MOTO_", "VIRTUAL_ENV", "PYTHON")
_KEPT = frozenset({"AWS_CA_BUNDLE"})
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def cleaned(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of whoever rehearses, without what could lead elsewhere; the cloud runs under it too."""
    before = os.environ if inherited is None else inherited
    return {name: value for name, value in before.items() if name in _KEPT or not name.startswith(_DROPPED)}


def surroundings(
    run: str, folder: Path, *, cloud: str, shims: Path, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What the engine of this run sees; `folder` holds its home.

    Where its state goes is its project's to say, and its region the stack's.
    """
    clean = cleaned(inherited)
    return {
        **clean,
        MARK: run,
        # After what the machine has: an official plugin on PATH wins over a stand-in
        "PATH": os.pathsep.join(part for part in (clean.get("PATH", os.defpath), str(shims)) if part),
        # Where plugins find charts and helm, whatever they take for the home
        "AGENTENV_CACHE": str(runs.cache()),
        unsimulated.FILE_VARIABLE: str(pretended(folder)),
        **_direct(clean),
        **_engine(folder),
        **_aws(cloud, folder),
    }


def pretended(folder: Path) -> Path:
    """Where plugins write what they only pretend."""
    return folder / "not-simulated.jsonl"


def _engine(folder: Path) -> dict[str, str]:
    return {
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # A plugin that is neither installed nor stood in for is an error at once, not a download
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        # State is written once at the end of an operation, not twice a resource: a rehearsal that dies is cleared away
        "PULUMI_SKIP_CHECKPOINTS": "true",
        "PULUMI_ERROR_ON_DEPENDENCY_CYCLES": "true",
    }


def _aws(cloud: str, folder: Path) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": cloud,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        **located(REGION),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        # A call that the simulated cloud cannot answer must fail in seconds; the default is 25 tries over ten minutes
        "AWS_MAX_ATTEMPTS": "2",
    }


def located(region: str) -> dict[str, str]:
    """The variables that say which region is meant where nothing else does."""
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _direct(clean: Mapping[str, str]) -> dict[str, str]:
    """Loopback is never reached through a proxy."""
    given = [host for name in ("NO_PROXY", "no_proxy") for host in clean.get(name, "").split(",") if host]
    hosts = ",".join(dict.fromkeys([*given, *_LOOPBACK]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}

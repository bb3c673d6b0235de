"""The environment variables that a rehearsed engine and its plugins run under.

Variables that could lead to a real account, a real Pulumi organisation or another stack are removed first; then those
of the simulated cloud are added. The official plugins and the stand-ins read the same variables.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agentenv.local import run_folders
from agentenv.local.processes import MARK
from agentenv.rehearsal.providers.common import unsimulated

REGION = "us-east-1"  # the default of a program that names none
_REMOVED = ("AWS_", "PULUMI_", "ARM_", "GOOGLE_", "KUBE", "MOTO_", "VIRTUAL_ENV", "PYTHON")
_RETAINED = frozenset({"AWS_CA_BUNDLE"})
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def clean_environment(inherited: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the inherited environment without variables that could lead elsewhere; the cloud runs under it too."""
    environment = os.environ if inherited is None else inherited
    return {name: value for name, value in environment.items() if name in _RETAINED or not name.startswith(_REMOVED)}


def engine_environment(
    run: str, folder: Path, *, cloud: str, shims: Path, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the environment of the run's engine; `folder` holds its Pulumi home.

    The project adds the address of its state, and the stack its region.
    """
    clean = clean_environment(inherited)
    return {
        **clean,
        MARK: run,
        # Last, so that an official plugin on PATH wins over a stand-in
        "PATH": os.pathsep.join(part for part in (clean.get("PATH", os.defpath), str(shims)) if part),
        # So that plugins find charts and helm, whatever their home folder is
        "AGENTENV_CACHE": str(run_folders.cache()),
        unsimulated.FILE_VARIABLE: str(not_simulated_file(folder)),
        **_no_proxy(clean),
        **_engine(folder),
        **_aws(cloud, folder),
    }


def not_simulated_file(folder: Path) -> Path:
    """Return the file in which plugins record what they do not simulate."""
    return folder / "not-simulated.jsonl"


def _engine(folder: Path) -> dict[str, str]:
    return {
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE_FILE": str(folder / "passphrase"),
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # A missing plugin is an error at once, not a download
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_DIY_BACKEND_DISABLE_CHECKPOINT_BACKUPS": "true",
        # Write state once at the end of an operation, not twice a resource: a rehearsal that dies is deleted
        "PULUMI_SKIP_CHECKPOINTS": "true",
        "PULUMI_ERROR_ON_DEPENDENCY_CYCLES": "true",
    }


def _aws(cloud: str, folder: Path) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": cloud,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        **region_variables(REGION),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(folder / "aws-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "aws-credentials"),
        # A call that the simulated cloud cannot answer must fail in seconds; the default is 25 tries over ten minutes
        "AWS_MAX_ATTEMPTS": "2",
    }


def region_variables(region: str) -> dict[str, str]:
    """Return the variables that set the default region."""
    return {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}


def _no_proxy(clean: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exclude loopback from proxies."""
    existing = [host for name in ("NO_PROXY", "no_proxy") for host in clean.get(name, "").split(",") if host]
    hosts = ",".join(dict.fromkeys([*existing, *_LOOPBACK]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}

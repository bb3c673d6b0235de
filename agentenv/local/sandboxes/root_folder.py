"""The root folder that stands for an image: this machine's programs, read-only, and a small `/etc`.

A sandbox has its own root folder, because mount points are created in it. Of `/etc` it has what programs of a small
image need; users are root and nobody, so an entry for the class's user comes from the template or not at all.
"""

from __future__ import annotations

from pathlib import Path

from agentenv.local.sandboxes.bundle import Mount

_PROGRAMS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
# Of the machine's own /etc: links to alternatives of programs, libraries' places, certificates, time zone, its name.
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "nsswitch.conf", "os-release", "pki",
        "ssl")  # fmt: skip
_EMPTY = ("dev", "etc", "home", "mnt", "opt", "proc", "root", "run", "sys", "tmp", "var", "var/tmp", ".relay")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/profile": "export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}\n",
}
# Programs under a name that images for agents have, where this machine has none of that name.
_OTHER_NAMES = {"python": "python3"}
_OTHER_FOLDER = "opt/bin"
PATH = f"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/{_OTHER_FOLDER}"


def create(root: Path, hostname: str, address: str, machine: Path = Path("/"), resolver: str = "") -> tuple[Mount, ...]:
    """Create the folder; return the mounts of the machine's own programs.

    `machine` is the machine's root, and `resolver` the text of `/etc/resolv.conf`.
    """
    root.mkdir(parents=True)
    for name in _EMPTY:
        (root / name).mkdir(exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    hosts = f"127.0.0.1\tlocalhost\n::1\tlocalhost\n{address}\t{hostname}\n"
    own = {"etc/hosts": hosts, "etc/hostname": f"{hostname}\n", "etc/resolv.conf": resolver}
    for name, text in {**_FILES, **own}.items():
        (root / name).write_text(text, encoding="utf-8")
    mounts: list[Mount] = []
    for name in _PROGRAMS:
        source = machine / name
        if source.is_symlink():
            (root / name).symlink_to(source.readlink())
        elif source.is_dir():
            (root / name).mkdir()
            mounts.append(Mount(source, f"/{name}", read_only=True))
    (root / _OTHER_FOLDER).mkdir()
    for name, program in _OTHER_NAMES.items():
        (root / _OTHER_FOLDER / name).symlink_to(f"/usr/bin/{program}")  # the last one in PATH
    for name in _ETC:
        source = (machine / "etc" / name).resolve()
        if source.is_dir():
            (root / "etc" / name).mkdir()
        elif source.is_file():
            (root / "etc" / name).touch()
        else:
            continue
        mounts.append(Mount(source, f"/etc/{name}", read_only=True))
    return tuple(mounts)

"""Run a sandbox in plain Linux namespaces, where gVisor does not run: its own users, mounts, processes and network.

Where this process is root, the sandbox's user is that of its id. Else it is this process's own user under another id.
`python namespaces.py FILE` is the first process outside of the new namespaces; it passes SIGTERM on and dies with the
sandbox, and the sandbox with it. It is started by path, so it imports the standard library only.
"""

from __future__ import annotations

import ctypes
import dataclasses
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentenv.local.sandboxes.bundle import Bundle

Object = dict[str, Any]

_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_DETACH = 2
_SET_PDEATHSIG, _SET_NO_NEW_PRIVS = 1, 38
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


@dataclass(frozen=True)
class Namespaces:
    """The runtime of machines that allow namespaces to this user, but not gVisor."""

    name: str = "namespaces"
    own_network: bool = True
    not_simulated: tuple[str, ...] = ("a kernel of their own: they share this machine's",)

    def command(self, bundle: Bundle) -> list[str]:
        """Return the command line of this file, after writing the bundle for it."""
        document = dataclasses.asdict(bundle)
        (bundle.folder / "bundle.json").write_text(json.dumps(document, default=str), encoding="utf-8")
        command = [sys.executable, "-IS", str(Path(__file__)), str(bundle.folder / "bundle.json")]
        if bundle.network is None:
            return command
        # Only in a user namespace may a user create a network namespace
        own = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--keep-caps"]
        return [*own, *bundle.network.command(), *command]

    def terminate(self, bundle: Bundle, process: subprocess.Popen[bytes]) -> None:  # noqa: ARG002 - the protocol's
        """Send SIGTERM, which is passed on."""
        process.terminate()


def main(bundle: Object) -> int:
    """Run the bundle's command in new namespaces and return its exit code."""
    own, inside = (os.geteuid(), os.getegid()), (bundle["uid"], bundle["gid"])
    flags = _NEWUSER | _NEWNS | _NEWUTS | _NEWIPC | _NEWPID
    if bundle["network"] is None:
        flags |= _NEWNET
    bundle["as_root"] = own[0] == 0
    if bundle["as_root"]:
        _unshare_as_root(flags, *({0, number} for number in inside))
    else:
        _unshare(flags, (0, own[0]), (0, own[1]))
    socket.sethostname(bundle["hostname"])
    if bundle["network"] is None:
        _bring_loopback_up()
    child = os.fork()  # the first process of the new process namespace
    if child == 0:
        try:
            _run(bundle)
        except OSError as error:
            sys.stderr.write(f"the sandbox could not be set up: {error}\n")
        os._exit(70)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(child, received))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 128 - code if code < 0 else code


def _run(bundle: Object) -> None:
    """Set up the root folder, become the sandbox's user, and become its command."""
    _enter_root(bundle)
    if bundle["as_root"]:
        os.setgroups([])
        os.setresgid(*[bundle["gid"]] * 3)
        os.setresuid(*[bundle["uid"]] * 3)
    else:
        # A second user namespace, in which this user has the sandbox's id
        _unshare(_NEWUSER, (bundle["uid"], 0), (bundle["gid"], 0))
    # Last: a change of user resets it
    _call("prctl", _SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.chdir(bundle["cwd"])
    arguments: list[str] = bundle["arguments"]
    os.execve(arguments[0], arguments, bundle["environment"])  # noqa: S606 - a list of arguments


def _enter_root(bundle: Object) -> None:
    root: str = bundle["root"]
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount(root, root, None, _BIND | _REC)
    _mount("tmpfs", f"{root}/dev", "tmpfs", _NOSUID, "mode=755")
    for name in _DEVICES:
        Path(f"{root}/dev/{name}").touch()
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, _BIND)
    for name, options in (("pts", "newinstance,ptmxmode=0666,mode=0620"), ("shm", "mode=1777,size=64m")):
        Path(f"{root}/dev/{name}").mkdir()
        _mount(name, f"{root}/dev/{name}", "devpts" if name == "pts" else "tmpfs", _NOSUID | _NOEXEC, options)
    for link, target in (("ptmx", "pts/ptmx"), ("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1")):
        Path(f"{root}/dev/{link}").symlink_to(target)
    _mount("proc", f"{root}/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    for mount in bundle["mounts"]:
        if mount["memory"]:
            Path(f"{root}{mount['target']}").mkdir(parents=True, exist_ok=True)
            options = f"mode=1777,size={mount['memory']}"
            _mount("tmpfs", f"{root}{mount['target']}", "tmpfs", _NOSUID | _NODEV, options)
        else:
            _bind(mount["source"], f"{root}{mount['target']}", read_only=mount["read_only"])
    if bundle["read_only_root"]:
        _remount_read_only(root)
    os.chdir(root)
    _call("syscall", _PIVOT_ROOT[os.uname().machine], b".", b".")
    _call("umount2", b".", _DETACH)


def _bind(source: str, target: str, *, read_only: bool) -> None:
    place = Path(target)
    if Path(source).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(source, target, None, _BIND | _REC)
    if read_only:
        _remount_read_only(target)


def _remount_read_only(target: str) -> None:
    # Flags of the file system below cannot be dropped in a user namespace, so they are named again
    known = os.statvfs(target).f_flag & (_NOSUID | _NODEV | _NOEXEC)
    _mount(None, target, None, _REMOUNT | _BIND | _RDONLY | known)


def _unshare(flags: int, user: tuple[int, int], group: tuple[int, int]) -> None:
    """Enter new namespaces in which this user and group, which come second, have other ids."""
    _call("unshare", flags)
    _write("self", "setgroups", "deny")
    _write("self", "uid_map", f"{user[0]} {user[1]} 1")
    _write("self", "gid_map", f"{group[0]} {group[1]} 1")


def _unshare_as_root(flags: int, users: set[int], groups: set[int]) -> None:
    """Enter new namespaces in which these users and groups keep their ids; only a process outside may map several."""
    unshared, unshare = os.pipe()
    process = os.getpid()
    helper = os.fork()
    if helper == 0:
        os.close(unshare)
        if not os.read(unshared, 1):
            os._exit(1)
        for name, ids in (("uid_map", users), ("gid_map", groups)):
            _write(str(process), name, "".join(f"{number} {number} 1\n" for number in sorted(ids)))
        os._exit(0)
    _call("unshare", flags)
    os.write(unshare, b"x")
    if os.waitpid(helper, 0)[1] != 0:
        raise OSError("the ids of the sandbox could not be mapped")


def _write(process: str, name: str, text: str) -> None:
    Path(f"/proc/{process}/{name}").write_text(text, encoding="ascii")


def _bring_loopback_up() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", _IFF_UP))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    _call("mount", *(None if text is None else text.encode() for text in (source, target, kind)), flags,
          None if options is None else options.encode(), what=f"mount {target}")  # fmt: skip


def _call(function: str, *arguments: object, what: str = "") -> None:
    """Call a function of the C library; OSError with its reason if it fails."""
    values = [ctypes.c_ulong(value) if isinstance(value, int) else value for value in arguments]
    if ctypes.CDLL(None, use_errno=True)[function](*values) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what or function}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))

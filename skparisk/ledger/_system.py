"""What the system tells of file systems and of processes."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path

_PROC = Path("/proc")
_NETWORK = re.compile(
    r"9p|acfs|afs|beegfs|ceph|cifs|coda|davfs2?|gfs2?|glusterfs|gpfs|lustre|ncpfs|"
    r"nfs4?|ocfs2|orangefs|panfs|prl_fs|pvfs2|smb[23]|smbfs|vboxsf|vmhgfs|"
    # In user space most are remote, but for these.
    r"fuse(\.(?!(cryfs|encfs|fuse-overlayfs|gocryptfs)$).*)?"
)


def refuse_network(path: str) -> None:
    """Refuse a file on a network file system, as far as the system tells."""
    try:
        mounts = (_PROC / "self" / "mountinfo").read_bytes()
    except OSError:  # not Linux: nothing is known
        mounts = b""
    kind = network_type(path, os.fsdecode(mounts))
    if kind:
        raise ValueError(
            f"path must be on a local disk: {path} is on a network file system "
            f"({kind}), where the locks that keep two processes from spending one "
            "budget may not hold. Keep the ledger on a local disk, and copy its export "
            "(to_jsonl)."
        )


def network_type(path: str, mounts: str) -> str | None:
    """Return the type of the network file system of a path; None: local, or unknown.

    `path` is absolute and without links; `mounts` is what Linux has in
    :file:`/proc/self/mountinfo`, empty if nothing is known.
    """
    if re.match(r"\\\\(\?\\UNC\\|[^?.\\])", path):
        return "UNC path"
    longest, kind = "", ""
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        escaped = fields.split(" ")[4]
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), escaped)
        inside = f"{path}/".startswith(f"{point.rstrip('/')}/")
        # Of two at one place the later one hides the other.
        if inside and len(point) >= len(longest):
            longest, kind = point, rest.split(" ")[0]
    return kind if _NETWORK.fullmatch(kind) else None


def ancestors() -> set[str]:
    """Return the processes that started this one; all of them where /proc tells."""
    found = set()
    logical = multiprocessing.parent_process()
    if logical is not None:  # what a server forks is no child of who asked for it
        found.add(str(logical.pid))
    pid = str(os.getppid())
    while pid not in ("0", ""):
        found.add(pid)
        pid = _parent(pid)
    return found


def _parent(pid: str) -> str:
    try:
        status = (_PROC / pid / "stat").read_bytes()
    except OSError:
        return ""
    # "pid (name) state parent ...", where the name may hold anything.
    return status.rpartition(b")")[2].split()[1].decode()

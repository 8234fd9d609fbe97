"""The user namespace, in which anybody may have the other namespaces."""

from __future__ import annotations

import os
from pathlib import Path

from attnsuite.worker.sandbox.system import NEW_USER, function


def enter(namespaces: int) -> None:
    """Leave the system's namespaces for new ones. The user keeps the number that he has. OSError where that cannot be.

    The process may have one thread alone. A new PID namespace is for its children.
    """
    user, group = os.geteuid(), os.getegid()
    function("unshare", NEW_USER | namespaces)
    itself = Path("/proc/self")
    (itself / "setgroups").write_text("deny")  # else nobody but root may say what groups there are
    (itself / "uid_map").write_text(f"{user} {user} 1")
    (itself / "gid_map").write_text(f"{group} {group} 1")

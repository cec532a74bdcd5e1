"""What the figures were measured on."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path


def description() -> str:
    """Processor, cores, Python and the libraries that matter, in one line."""
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if "model name" in line]
        if (info.exists())
        else []
    )
    processor = names[0].split(":")[1].strip() if names else platform.processor()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("jax", "numpy", "scikit-learn"))
    return f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}, {libraries}"


@cache
def source() -> str:
    """What tells this state of the package's source from others of the same version."""
    package = Path(__file__).parents[1]
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return found.hexdigest()[:8]

"""The installed `mosaicgp` as a process, in a pipe or in a terminal of its own."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import mosaicgp

SCRIPT = Path(sys.executable).with_name("mosaicgp")
CONTROL = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")

# Makes the terminal it was given its own, so that Ctrl-C typed there reaches it.
TAKE_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def environment(**more: str) -> dict[str, str]:
    """With this source, whatever the installed script would import."""
    own = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "TERM")}
    source = str(Path(mosaicgp.__file__).parents[1])
    return own | {"PYTHONPATH": source, "TERM": "xterm-256color", "PYTHONWARNINGS": "error"} | more


def piped(*arguments: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run to the end with its streams in pipes."""
    command = [str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, env=environment(), timeout=120, **more)


class Terminal:
    """A process in a pseudo-terminal of 110 columns."""

    def __init__(self, *arguments: Any, **more: str) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        command = [sys.executable, "-S", "-c", TAKE_TERMINAL, str(SCRIPT), *map(str, arguments)]
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(**more),
            start_new_session=True,
        )
        os.close(slave)
        self.raw = b""

    @property
    def text(self) -> str:
        """What was written so far, without colours and movements of the cursor."""
        # The last character may have come by half.
        return CONTROL.sub(b"", self.raw).decode(errors="ignore")

    def read_until(self, wanted: str | None = None, seconds: float = 120.0) -> str:
        """Read until a text appears, or to the end."""
        deadline = time.monotonic() + seconds
        while wanted is None or wanted not in self.text:
            assert time.monotonic() < deadline, f"no {wanted!r} in {self.text!r}"
            if not select.select([self._master], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(self._master, 4096)
            except OSError:  # what Linux says when nobody holds the other end
                part = b""
            if not part:
                break
            self.raw += part
        return self.text

    def press_ctrl_c(self) -> None:
        """As the person at the keyboard does."""
        os.write(self._master, b"\x03")

    def end(self) -> int:
        """Read the rest; the exit code."""
        self.read_until()
        code = self._process.wait(timeout=120)
        os.close(self._master)
        return code

"""Ctrl-C: at once, or, where there is something to keep, when it is kept."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Ctrl-C raises ``KeyboardInterrupt``, and is remembered.

    Some libraries turn what is raised while they are imported or start up into an error of theirs.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        self._before: Any = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *exception: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt


class GentleInterrupt(Interrupt):
    """Ctrl-C while it trains ends the training, not the command; a second one ends that too.

    Before the first iteration there is nothing to keep, and Ctrl-C ends the command.
    """

    MESSAGE = b"\nStopping: the best model so far will be written. Ctrl-C again to give up.\n"

    def __init__(self) -> None:
        super().__init__()
        self._training = False

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        if self.asked or not self._training:
            self._before(signum, frame)
        self.asked = True
        os.write(2, self.MESSAGE)  # safe where printing is not: in the middle of another print

    def look(self, progress: Any) -> None:
        """Called with every iteration."""
        self._training = True
        if self.asked:
            raise KeyboardInterrupt  # which a fit ends on with what it has

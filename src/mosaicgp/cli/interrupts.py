"""Ctrl-C: at once, or, where there is something to keep, when it is kept."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

# Seconds after which an interrupt that was dropped comes again.
AGAIN = 0.05


class Interrupt:
    """Ctrl-C raises ``KeyboardInterrupt``, and is remembered.

    It may be raised where nobody lets it through. Libraries turn it into an error of theirs while
    they start up; and Python drops it in functions that the garbage collector calls, as jax has
    one: then it is raised again a moment later.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Self:
        self._before: Any = signal.getsignal(signal.SIGINT)
        self._alarm_before: Any = signal.getsignal(signal.SIGALRM)
        self._unraisable = sys.unraisablehook
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._on_signal)
            signal.signal(signal.SIGALRM, self._on_alarm)
            sys.unraisablehook = self._on_unraisable
        return self

    def __exit__(self, *exception: object) -> None:
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, self._alarm_before)
            signal.signal(signal.SIGINT, self._before)
            sys.unraisablehook = self._unraisable

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        self.asked = True
        raise KeyboardInterrupt

    def _on_alarm(self, signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def _on_unraisable(self, dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, AGAIN)
        else:
            self._unraisable(dropped)


class GentleInterrupt(Interrupt):
    """Ctrl-C while it trains ends the training, not the command; a second one ends that too.

    Before the first iteration there is nothing to keep, and Ctrl-C ends the command.
    """

    MESSAGE = b"\nStopping: the best model so far will be written. Ctrl-C again to give up.\n"

    def __init__(self) -> None:
        super().__init__()
        self._training = False

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._training:
            self._before(signum, frame)
        os.write(2, self.MESSAGE)  # safe where printing is not: in the middle of another print

    def look(self, progress: Any) -> None:
        """Called with every iteration."""
        self._training = True
        if self.asked:
            raise KeyboardInterrupt  # which a fit ends on with what it has

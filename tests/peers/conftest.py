"""Fixtures to ask a peer and compare, and a line on every comparison at the end of the run."""

import numpy as np
import pytest

from peers.exchange import Agree, Ask, Note, answers

LINES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash[LINES]
    if lines:
        terminalreporter.section("comparisons with peers")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def note(pytestconfig: pytest.Config) -> Note:
    """Put a line into the summary at the end of the run."""
    return pytestconfig.stash[LINES].append


@pytest.fixture
def agree(note: Note) -> Agree:
    """Assert that ours and theirs differ by no more than ``allowed``, and note by how much."""

    def check(label: str, ours: np.ndarray, theirs: np.ndarray, allowed: float) -> None:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        assert ours.shape == theirs.shape
        largest = float(np.max(np.abs(ours - theirs)))
        note(f"{label:<60} largest difference {largest:.1e}, allowed {allowed:.1e}")
        assert largest <= allowed

    return check


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """``ask(peer, questions)``: see ``exchange.answers``."""
    return lambda peer, questions: answers(peer, questions, tmp_path_factory.mktemp(peer))

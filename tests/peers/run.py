"""`make test-peers`: an environment for each peer, then the tests that are marked `peers`.

The peers' versions stand in requirements-NAME.txt; an environment is made again only when that
file or the Python version changes. The tests talk to NAME_side.py there through files alone.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PEERS = ("gpflow", "nuts")


def side(peer: str) -> Path:
    """The script that answers for the peer in its own environment."""
    return HERE / f"{peer}_side.py"


def interpreter(peer: str) -> Path:
    """The Python of the peer's environment."""
    return ROOT / f".venv-{peer}" / "bin" / "python"


def install(peer: str, requirements: Path | None = None) -> None:
    """Make the peer's environment, unless its stamp says that it is there."""
    requirements = requirements or HERE / f"requirements-{peer}.txt"
    python = interpreter(peer)
    folder = python.parents[1]
    stamp, wanted = folder / ".installed", f"{sys.version}\n{requirements.read_text()}"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"Installing {requirements.name} into {folder.name}, which takes minutes", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "--requirement", requirements], check=True)
    stamp.write_text(wanted)


def main() -> int:
    """The exit status of pytest, or of the installation that failed."""
    try:
        for peer in PEERS:
            install(peer)
    except subprocess.CalledProcessError as error:
        print(f"Could not install {error.cmd[-1]}; see above.", file=sys.stderr)
        return error.returncode
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "peers", HERE, *sys.argv[1:]]
    return subprocess.run(pytest, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())

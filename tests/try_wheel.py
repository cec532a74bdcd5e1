"""`make dist`: the wheel holds all files of the package, and runs in a new environment."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
DEMO = ("demo", "--rows", "500", "--test-rows", "100", "--out", "demo.png")


def check_contents(wheel: Path) -> None:
    """Modules, ``py.typed``, templates: what is in the folder of the package is in the wheel."""
    there = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    missing = there - set(zipfile.ZipFile(wheel).namelist())
    if missing or "mosaicgp/py.typed" not in there:
        sys.exit(f"{wheel.name} lacks {sorted(missing) or 'mosaicgp/py.typed'}.")


def try_wheel(wheel: Path) -> None:
    """Install it with its dependencies, far from the source, and run what it installed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        commands = environment / "bin"
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        subprocess.run([commands / "python", *install, f"{wheel}[demo]"], check=True)
        subprocess.run([commands / "mosaicgp", *DEMO], check=True, cwd=folder)
        if not Path(folder, "demo.png").stat().st_size:
            sys.exit("the demo drew an empty picture.")


if __name__ == "__main__":
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    check_contents(wheel)
    try_wheel(wheel)
    print(f"{wheel.name}: complete, and its demo runs.")

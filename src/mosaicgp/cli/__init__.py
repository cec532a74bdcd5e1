"""The command line: parses, calls the library, prints. No command computes anything itself.

One module holds one command; heavy imports stand inside it, so that ``--help`` need not wait.
"""

from mosaicgp.cli.app import app, main

__all__ = ["app", "main"]

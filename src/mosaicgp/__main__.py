"""``python -m mosaicgp`` is the ``mosaicgp`` command."""

from mosaicgp.cli import main

if __name__ == "__main__":
    main()

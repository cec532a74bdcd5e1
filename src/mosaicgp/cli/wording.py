"""Messages of the library, which speak of Python, said in terms of the command line."""

from __future__ import annotations

import re

# What a message may say, and what it means to somebody who types options.
_SAYINGS = (
    (r"categorical=\{'([^']+)': 'ordinal'\}", r"--ordinal '\1'"),
    (r"categorical=\['([^']+)'\]", r"--categorical '\1'"),
    (
        r"column '([^']+)'(.*) leave the column out with columns=\[\.\.\.\]",
        r"column '\1'\2 leave it out with --exclude '\1'",
    ),
    (r"columns=\[?\.\.\.\]?", "--columns"),
    (r"keep=\[\.\.\.\]", "--keep"),
    (r"missing='drop'", "--missing drop"),
    (r"overwrite=True", "--force"),
    (r"resume=True", "--resume"),
    (r"checkpoint=folder", "--checkpoint FOLDER"),
    (r"warm_start=True", "--start-from MODEL"),
    (r"SparseGPRegressor\.load", "mosaicgp predict"),
    (r"open_dataset\(\.\.\., target=column\)", "--target COLUMN"),
    (
        r"\b(max_iter|max_time|n_inducing|learning_rate|block_size|batch_size)=(\S+?)([;:,.]?)(?=\s|$)",
        r"--\1 \2\3",
    ),
)


def in_options(message: str) -> str:
    """A message with the options of the command line in place of arguments of Python."""
    for pattern, replacement in _SAYINGS:
        message = re.sub(pattern, replacement, message, flags=re.DOTALL)
    return re.sub(r"--\w+", lambda option: option[0].replace("_", "-"), message)

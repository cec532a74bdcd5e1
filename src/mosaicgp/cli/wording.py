"""Messages of the library, which speak of Python, said in terms of the command line."""

from __future__ import annotations

import re

# What a message may say, and what it means to somebody who types options.
_SAYINGS = (
    (r"\Afilter: ", "--where: "),
    (r", or pass a pyarrow\.compute expression", ""),
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
    (r"open_dataset\(\.\.\., target=column\)", "--target COLUMN"),
)

# Arguments of the estimator by name, unless in quotes, as the name of a column would be.
_ARGUMENTS = (
    *("max_iter", "max_time", "n_inducing", "learning_rate", "block_size", "batch_size"),
    *("n_restarts", "n_theta", "validation_rows", "work_dir", "learn_inducing"),
)
_ARGUMENT = re.compile(rf"(?<![\w'\"-])({'|'.join(_ARGUMENTS)})(?:=(?=\S)|(?![\w'\"]))")


def in_options(message: str) -> str:
    """A message with the options of the command line in place of arguments of Python."""
    for pattern, replacement in _SAYINGS:
        message = re.sub(pattern, replacement, message, flags=re.DOTALL)
    return _ARGUMENT.sub(_option, message)


def _option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')}" + (" " if found[0].endswith("=") else "")

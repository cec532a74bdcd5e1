"""The model: pure functions and immutable records on jax arrays.

Nothing here knows of files, epochs or scikit-learn. The names are those of the notation table in
docs/mathematics.md.
"""

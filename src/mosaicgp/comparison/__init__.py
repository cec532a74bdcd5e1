"""Familiar models on the same rows: the same split, the same scores, and the seconds of each."""

"""The paper's figures and table, made from data the user names: ``mosaicgp paper``."""

"""Inference: from blocks and a model to a posterior."""

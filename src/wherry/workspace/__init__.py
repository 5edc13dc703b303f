"""Shipping code with a job: what belongs to a tree, archives through the store, images."""

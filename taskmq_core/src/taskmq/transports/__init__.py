"""Adapters to the stores that hold jobs, each found by its URL scheme."""

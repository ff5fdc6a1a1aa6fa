"""Benchmarks of the engine: ``python -m tests.bench --help``."""

"""The command line ``taskmq``: `parser` holds the argument tree, and one module each group of
commands. ``docs/reference/cli.md`` lists commands and exit codes."""

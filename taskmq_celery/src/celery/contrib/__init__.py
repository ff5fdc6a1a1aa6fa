"""What is not needed to run tasks: test fixtures, abortable tasks, a debugger, migrations."""

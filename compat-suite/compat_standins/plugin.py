"""The pytest plugin that the suite `smoke` is run with: ``-p compat_standins.plugin``."""

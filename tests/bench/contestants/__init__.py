"""The queues that are measured, one module each, and the one way in which all of them are.

Each runs in an environment of its own, where the others, and taskmq, need not be installed: these
modules import nothing of the workspace but each other (`native` aside).
"""

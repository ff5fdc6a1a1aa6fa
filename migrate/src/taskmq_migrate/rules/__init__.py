"""The rules: one module each, named after its id; `taskmq_migrate.registry` finds them.

TMQ001 to TMQ099 lead to the shim (many of them serve both targets), TMQ100 to TMQ899 to the native
API, TMQ900 to TMQ999 belong to the doctor.
"""

"""For Django: tasks that are called when the transaction is committed."""

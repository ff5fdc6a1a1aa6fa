"""Programs: what runs in the foreground of a process."""

"""What an app does by itself in programs of a certain kind."""

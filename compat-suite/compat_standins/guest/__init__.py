"""What Python programs in a container see in place of the machine's own."""

"""Result backends."""

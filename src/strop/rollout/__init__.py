"""Many attempts at once: none lost, none too old."""

"""Numbers with honest intervals."""

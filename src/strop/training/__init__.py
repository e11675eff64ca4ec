"""Groups in, weight versions out."""

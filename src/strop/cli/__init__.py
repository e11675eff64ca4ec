"""The command line: one file a verb, and the only wiring."""

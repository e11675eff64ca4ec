"""Procedural terminal tasks: eighteen families at three difficulties, from one command to six."""

"""Procedural tasks with references and hidden tests."""

"""A machine that can be thrown away.

Nothing is imported here: the sandbox parent runs these files with the standard library alone.
"""

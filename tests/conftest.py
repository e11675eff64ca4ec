"""Every property test draws the same examples each time, however busy the machine is."""

from hypothesis import settings

settings.register_profile("strop", deadline=None, derandomize=True, database=None)
settings.load_profile("strop")

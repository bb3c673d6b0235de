"""When a workspace sleeps, wakes, ends and goes: pure decisions over what was read and what time it is.

None of them asks a clock: the time is an argument, by the API server's clock as far as that is known. A moment that
another process wrote may be off by `SKEW`, so that nothing is done to somebody for the sake of a few seconds.
"""

"""When a workspace is suspended, resumed and deleted: pure decisions from objects and the time.

None of them reads a clock: the time is an argument, by the API server's clock if that is known. Timestamps of other
processes may be off by `SKEW`, so no decision depends on a few seconds.
"""

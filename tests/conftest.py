"""What holds for every test: a property is judged by what it finds, never by how long a busy machine takes over it.

The SDKs that the tests import are a million objects that stay: they are taken out of the garbage collector's sight, and
what is left is looked through less often, which saves a fifth of the time.
"""

import gc

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_collection_finish() -> None:
    """Everything is imported now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

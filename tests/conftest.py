"""What holds for every test: a property is judged by what it finds, never by how long a busy machine takes over it.

The SDKs that the tests import are a million objects that stay: they are taken out of the garbage collector's sight, and
what is left is looked through less often, which saves a fifth of the time.
"""

import gc
import signal
import threading

from hypothesis import HealthCheck, settings

settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# A shell without job control starts what runs in its background deaf to Ctrl-C, and so would be all that tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Everything is imported now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

"""Settings of all tests: Hypothesis has no deadline, because the speed of a busy machine must not fail a test.

With CI set, its examples follow from the test, so that a pull request never fails by luck; elsewhere they are new ones.

The imported SDKs are a million permanent objects. They are frozen out of the garbage collector, which then also runs
less often; that saves a fifth of the time.
"""

import gc
import os
import signal
import threading

from hypothesis import HealthCheck, settings

settings.register_profile(
    "patient",
    settings.get_profile("ci" if os.environ.get("CI") else "default"),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")

# The key ring of whoever runs the tests is theirs.
os.environ["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"

# A shell without job control starts background jobs with SIGINT ignored, which all processes of the tests would inherit
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()


def pytest_collection_finish() -> None:
    """Freeze the imported objects, after all imports."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)
    gc.enable()

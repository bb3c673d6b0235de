"""The endpoint as a running server: `with Cloud.start() as cloud: ... cloud.url`."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar, Self

# Moto reads these when it is imported or first asked.
SETTINGS = {
    "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",  # else AdministratorAccess and its like are unknown
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "true",
    "MOTO_ENABLE_KEYPAIR_VALIDATION": "true",  # an instance with a key pair that does not exist is refused, as in AWS
}
os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})

from agentenv.rehearsal.providers.common.service_models import read_once  # noqa: E402 -- after the settings, on purpose

read_once()  # before moto, which makes sessions while it is imported

from moto.core.base_backend import BackendDict  # noqa: E402
from moto.core.model_instances import reset_model_data  # noqa: E402

from agentenv.rehearsal.cloud.dispatch import Application  # noqa: E402
from agentenv.rehearsal.cloud.http import Listener  # noqa: E402
from agentenv.rehearsal.cloud.journal import Journal  # noqa: E402
from agentenv.rehearsal.cloud.requests import service_model  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

# In the order in which a program needs them: a VPC is asked for long before an alarm.
LIKELY = ("sts", "iam", "ec2", "logs", "kms", "s3", "efs", "eks", "events", "sqs", "cloudwatch", "budgets", "ce")


class Cloud:
    """One simulated cloud, empty at its start.

    Moto keeps its state in the process: a cloud that is started while another runs in the same process shares it, and
    only the first starts empty. Isolated rehearsals are processes of their own.
    """

    _running: ClassVar[int] = 0

    def __init__(self, listener: Listener, application: Application, journal: Journal) -> None:
        self._listener = listener
        self._gate = application
        self._journal = journal
        self._thread = threading.Thread(target=listener.serve_forever, args=(0.1,), name="cloud", daemon=True)
        self.url = f"http://127.0.0.1:{listener.port}"

    @classmethod
    def start(cls, port: int = 0, log: Path | None = None, *, balancers: bool = False) -> Self:
        """Start a cloud on 127.0.0.1; OSError if the port is not available.

        Its network load balancers pass connections on only if asked for: they are processes.
        """
        if not Cloud._running:
            BackendDict.reset()
            reset_model_data()
        journal = Journal(log)
        application = Application(journal, balancers=balancers)
        listener = Listener(port, application)
        os.environ["MOTO_PORT"] = str(listener.port)
        cloud = cls(listener, application, journal)
        Cloud._running += 1
        cloud._thread.start()
        threading.Thread(target=cloud._warm, name="cloud-warm", daemon=True).start()
        return cloud

    def _warm(self) -> None:
        """Load the services that will be called, while the engine is still starting."""
        for service in LIKELY:
            if self._listener.ended:
                return
            self._gate.moto.prepare(service)
            service_model(service)

    def stop(self) -> None:
        """Close the port; the next start resets the state."""
        self._listener.ended = True
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()
        self._gate.store.balancers.close()
        self._journal.close()
        Cloud._running -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

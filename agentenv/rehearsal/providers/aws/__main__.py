"""Run the plugin: `python -m agentenv.rehearsal.providers.aws` prints its port and serves until the engine ends."""

from agentenv.rehearsal.providers.aws.servicer import SCHEMA_VERSION, Servicer
from agentenv.rehearsal.providers.common.server import serve
from agentenv.rehearsal.providers.common.service_models import read_once
from agentenv.rehearsal.tools.plugins import requested

read_once()
# The engine warns about a plugin that is older than the SDK requires.
raise SystemExit(serve(Servicer(requested("aws") or SCHEMA_VERSION)))

"""The plugin process of the stand-in: `python -m rehearsal.aws` prints its port and serves until the engine leaves."""

from rehearsal.aws.servicer import SCHEMA_VERSION, Servicer
from rehearsal.plugin.service_models import read_once
from rehearsal.plugin.serving import serve
from rehearsal.tools.plugins import requested

read_once()
# The engine warns of a plugin that is older than the SDK asks for.
raise SystemExit(serve(Servicer(requested("aws") or SCHEMA_VERSION)))

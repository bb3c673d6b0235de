"""The plugin process of the stand-in: `python -m agentenv.rehearsal.providers.kubernetes` prints its port and
serves.
"""

import sys

from agentenv.rehearsal.providers.common.server import engine_address, serve
from agentenv.rehearsal.providers.kubernetes.servicer import Servicer
from agentenv.rehearsal.tools.plugins import requested

# The engine warns of a plugin that is older than the SDK asks for; without an SDK any version will do.
raise SystemExit(serve(Servicer(requested("kubernetes") or "4.34.2", engine_address(sys.argv[1:]))))

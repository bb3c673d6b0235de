"""The plugin process of the stand-in: `python -m agentenv.rehearsal.providers.eks` prints its port and serves until the
engine leaves.
"""

import sys

from agentenv.rehearsal.providers.common.server import engine_address, serve
from agentenv.rehearsal.providers.eks.servicer import Servicer
from agentenv.rehearsal.tools.plugins import requested

# The engine warns of a plugin that is older than the SDK asks for. The children are of the packages that the program
# has, so that they share its default providers.
versions = {package: found for package in ("aws", "kubernetes") if (found := requested(package))}
servicer = Servicer(requested("eks") or "4.4.0", versions, engine_address(sys.argv[1:]))
ended = serve(servicer)
servicer.leave()  # a component that still waits for its cluster would keep the process for minutes
raise SystemExit(ended)

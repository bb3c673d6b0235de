"""Run the plugin: `python -m agentenv.rehearsal.providers.eks` prints its port and serves until the engine ends."""

import sys

from agentenv.rehearsal.providers.common.server import engine_address, serve
from agentenv.rehearsal.providers.eks.servicer import Servicer
from agentenv.rehearsal.tools.plugins import requested

# The engine warns about a plugin that is older than the SDK requires. Children use the package versions of the program,
# so that they share its default providers.
versions = {package: version for package in ("aws", "kubernetes") if (version := requested(package))}
servicer = Servicer(requested("eks") or "4.4.0", versions, engine_address(sys.argv[1:]))
exit_code = serve(servicer)
servicer.stop()  # a component that waits for its cluster would keep the process alive for minutes
raise SystemExit(exit_code)

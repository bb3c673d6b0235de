"""All dashboards."""

from __future__ import annotations

from agentenv.core.metering.platform_dashboard import PLATFORM
from agentenv.core.metering.pool_dashboard import POOL
from agentenv.core.metering.user_dashboard import USER

DASHBOARDS = (PLATFORM, POOL, USER)
# Where their generated files are, from the project's root.
FOLDER = "agentenv/core/metering/generated"

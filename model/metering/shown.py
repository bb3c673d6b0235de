"""All dashboards."""

from __future__ import annotations

from model.metering.platform_dashboard import PLATFORM
from model.metering.pool_dashboard import POOL
from model.metering.user_dashboard import USER

DASHBOARDS = (PLATFORM, POOL, USER)
# Where their generated files are, from the project's root.
FOLDER = "model/metering/dashboards"

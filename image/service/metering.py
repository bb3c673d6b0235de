"""`python -m service.metering`, the command of the daily job.

The same as `python -m agentenv.service.home_metering`.
"""

import sys

from agentenv.service.home_metering import main

sys.exit(main(sys.argv[1:]))

"""`python -m service`, as stack files of releases before 0.2 have it: the same as `python -m agentenv.service`."""

import sys

from agentenv.service.__main__ import main

sys.exit(main(sys.argv[1:]))

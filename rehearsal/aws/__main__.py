"""The plugin process of the stand-in: `python -m rehearsal.aws` prints its port and serves until the engine leaves."""

from rehearsal.aws.process import main

raise SystemExit(main())

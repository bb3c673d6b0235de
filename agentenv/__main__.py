"""`python -m agentenv` and the installed `agentenv` command."""

import sys

from agentenv.cli.main import main as run


def main() -> None:
    """End the process with the command's exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()

"""`python -m agentenv` and the installed `agentenv` command."""

import sys


def main() -> None:
    """End the process with the command's exit code. Ctrl-C leaves no traceback during the import either."""
    try:
        from agentenv.cli.main import main as run

        code = run()
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()

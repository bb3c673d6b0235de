"""The error of a wrong argument."""

import pulumi


class ArgumentError(pulumi.RunError, pulumi.InputPropertyError):
    """A wrong argument. The engine prints it without a traceback, and other languages get the path of the property."""

    def __init__(self, path: str, found: str, allowed: str) -> None:
        reason = f"found {found}; allowed: {allowed}"
        pulumi.InputPropertyError.__init__(self, path, reason)
        self.args = (f"{path}: {reason}",)

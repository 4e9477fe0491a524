"""Every error that a user can meet, one exit code a class.

Units and playbooks act on the exit code: 66, 69, 70 and 78 are never helped by a restart, 74 may be.
"""


class TrainerError(Exception):
    """Base of the tree; an error that is none of the classes below is a bug (exit code 70)."""

    exit_code = 70


class DataError(TrainerError):
    """Data is missing or damaged."""

    exit_code = 66


class DeviceError(TrainerError):
    """No usable device: a GPU that is not there, or that this MXNet has no code for."""

    exit_code = 69


class NonFiniteLossError(TrainerError):
    """The loss is NaN or infinite."""

    exit_code = 70


class DiskError(TrainerError):
    """Writing failed: no space, no permission, a device error."""

    exit_code = 74


class ConfigError(TrainerError):
    """The configuration or the command line asks for something impossible.

    `problems` holds one line a problem, each as `file: key must be ..., got ...`.
    """

    exit_code = 78

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class TooLargeError(ConfigError):
    """There is less memory than the batch size needs."""

"""`python -m trainer COMMAND`: turns errors into exit codes."""

import os
import sys
import traceback

from trainer.errors import DiskError, TrainerError
from trainer.spot.stop import stop_on_signals


def main() -> int:
    if os.geteuid() == 0:
        os.umask(0o022)  # what root prepares on a host is for the user that trains
    if sys.argv[1:2] == ["train"]:  # the imports below take seconds, in which it can be asked to stop already
        stop_on_signals()
    from trainer.commands.app import app

    try:
        app()
    except TrainerError as error:
        return _fail(error)
    except OSError as error:
        return _fail(DiskError(f"{error.filename or 'the disk'}: {error.strerror}"))
    except Exception:
        traceback.print_exc()
        return TrainerError.exit_code
    return 0


def _fail(error: TrainerError) -> int:
    for line in str(error).splitlines():
        print(f"error: {line}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

"""python -m tests.fakes.aws --scenario FILE --port N"""

import argparse
import signal
import sys
import threading
from pathlib import Path

from .scenario import read_scenario


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fakes.aws", description="A double of AWS on loopback.")
    parser.add_argument("--scenario", type=Path, required=True, help="TOML file; tests/fakes/aws/README.md")
    parser.add_argument("--port", type=int, default=0, help="0, the default: a free one")
    parser.add_argument("--log", type=Path, help="file for the calls, one JSON object a line")
    options = parser.parse_args()
    try:
        scenario = read_scenario(options.scenario)
    except (OSError, ValueError) as error:
        sys.exit(f"{options.scenario}: {error}")
    done = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: done.set())
    from .server import start, stop  # moto takes a second to import: not before the file is known to be right

    server = start(scenario, options.port, options.log)
    print(f"export AWS_ENDPOINT_URL=http://127.0.0.1:{server.server_port}", flush=True)
    print("export AWS_ACCESS_KEY_ID=double AWS_SECRET_ACCESS_KEY=double AWS_DEFAULT_REGION=us-east-1", flush=True)
    done.wait()
    stop(server)


main()

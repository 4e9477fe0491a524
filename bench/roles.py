"""What the roles of a host cost: a host that is configured already, and one from nothing.

A configured host: a play of the roles that changes nothing, against a play of as many tasks that do nothing (ping), in
turn on the same host. A fresh one: a play of those roles that install packages and wheels on a clone of the bare image,
against the bare installs on another clone; and, for information only, a play of all roles on a third, until steps flow:
what it takes beyond the installs is training. The least time of each counts.

Other processes disturb the clock. So the same is computed from the processor time that ansible-playbook takes here and
everything takes on the host; on a machine that others use, this decides.
"""

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/hosts")]

import host as hosts  # noqa: E402
import image  # noqa: E402
import layers  # noqa: E402
import train_host  # noqa: E402
import yaml  # noqa: E402
from host import Host, wait  # noqa: E402
from plays import Played, play  # noqa: E402

ROLES = ["first_boot", "data_volume", "node_exporter", "prometheus", "mxnet_runtime", "trainer"]
# Not nvidia_driver: it needs GPUs.
INSTALLING = ["first_boot", "node_exporter", "prometheus", "mxnet_runtime"]
MOST_AGAIN, MOST_FRESH = 1.5, 1.3
SETTINGS = train_host.SETTINGS | train_host.SHORT | {"mxnet_runtime_use_gpus": False, "data_volume_warm_up": False}
RUNTIME = yaml.safe_load((ROOT / "roles/mxnet_runtime/defaults/main.yml").read_text())["mxnet_runtime_packages"]
PACKAGES = ["prometheus-node-exporter", "prometheus", "python3-venv", "libgomp1", "libquadmath0"]


def main() -> None:
    options = _options()
    if reason := image.why_not():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory() as folder:
        again = _again(Path(folder), options.pairs) if options.pairs else True
        fresh = _fresh(Path(folder), options.fresh) if options.fresh else True
    sys.exit(not (again and fresh))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5, help="pairs of plays on the configured host (%(default)s)")
    parser.add_argument("--fresh", type=int, default=2, help="pairs of fresh hosts (%(default)s)")
    return parser.parse_args()


def _again(folder: Path, pairs: int) -> bool:
    """On a host whose run is finished: only the plays use it."""
    host = train_host.boot(layers.with_mxnet(), Path(tempfile.mkdtemp(dir=folder)))
    try:
        _played(host, ROLES)
        wait(lambda: train_host.unit(host, "ActiveState") == "inactive", 300, "the run's end")
        tasks = _played(host, ROLES).counts["ok"]
        ours, bare = [], []
        for _ in range(pairs):
            ours.append(_cost(host, lambda: _unchanged(host)))
            bare.append(_cost(host, lambda: _played(host, [], tasks=_nothing(tasks))))
    finally:
        hosts.down(host)
    return _show(f"a configured host, {tasks} tasks, against as many that do nothing", ours, bare, MOST_AGAIN)


def _fresh(folder: Path, pairs: int) -> bool:
    ours, bare, whole = [], [], []
    for _ in range(pairs):
        ours.append(_on_a_clone(folder, lambda host: _played(host, INSTALLING)))
        bare.append(_on_a_clone(folder, _install))
        whole.append(_on_a_clone(folder, lambda host: _played(host, ROLES)))
    ok = _show("a fresh host, against the bare installs", ours, bare, MOST_FRESH)
    print(f"  all roles, until steps flow: {min(whole)[0]:.1f} s")
    return ok


def _on_a_clone(folder: Path, work: Callable[[Host], object]) -> tuple[float, float]:
    host = train_host.boot(layers.bare(), Path(tempfile.mkdtemp(dir=folder)))
    try:
        return _cost(host, lambda: work(host))
    finally:
        hosts.down(host)


def _played(host: Host, roles: list[str], tasks: str = "[]") -> Played:
    done = play(host, roles, SETTINGS, tasks=tasks)
    if done.code:
        raise SystemExit(f"the play failed: {done.output}")
    return done


def _unchanged(host: Host) -> None:
    if changed := _played(host, ROLES).changed:
        raise SystemExit(f"the host was configured, and yet these tasks changed something: {', '.join(changed)}")


def _nothing(tasks: int) -> str:
    return json.dumps([{"name": f"Nothing {number}", "ansible.builtin.ping": {}} for number in range(tasks)])


def _install(host: Host) -> None:
    """What a person would type, who knows what to install."""
    (host.root / "root/constraints.txt").write_text((ROOT / "requirements.txt").read_text())
    pip = "/opt/mxnet/bin/python -m pip install --quiet --no-compile --disable-pip-version-check"
    for command in (
        "apt-get -q update",
        f"DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install {' '.join(PACKAGES)}",
        "python3 -m venv /opt/mxnet",
        f"{pip} -c /root/constraints.txt {shlex.join(RUNTIME)}",
    ):
        host.run(f"set -a; . /etc/environment; {command}", timeout_seconds=900)


def _cost(host: Host, work: Callable[[], object]) -> tuple[float, float]:
    """(seconds, processor seconds here and there)."""
    began, processor = time.monotonic(), _processor_seconds(host)
    work()
    return time.monotonic() - began, _processor_seconds(host) - processor


def _processor_seconds(host: Host) -> float:
    here = getrusage(RUSAGE_CHILDREN)
    there = dict(line.split() for line in host.read("cat /sys/fs/cgroup/cpu.stat").splitlines())
    return here.ru_utime + here.ru_stime + int(there["usage_usec"]) / 1e6


def _show(what: str, ours: list[tuple], bare: list[tuple], most: float) -> bool:
    print(f"{what}, the least of {len(ours)} each")
    by_clock, by_processor = (
        _ratio(measure, [cost[index] for cost in ours], [cost[index] for cost in bare], most)
        for index, measure in enumerate(("clock", "processor time"))
    )
    others = os.getloadavg()[0] > os.cpu_count()
    print(f"  load average {os.getloadavg()[0]:.1f}{': others use this machine' if others else ''}", flush=True)
    return by_processor if others else by_clock


def _ratio(measure: str, ours: list[float], bare: list[float], most: float) -> bool:
    ratio = min(ours) / min(bare)
    verdict = "ok" if ratio <= most else "MISSED"
    print(f"  by the {measure}: {min(ours):.1f} s against {min(bare):.1f} s, {ratio:.2f}: {verdict} {most}")
    return ratio <= most


if __name__ == "__main__":
    main()

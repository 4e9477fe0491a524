"""The way to a test host and its way out: a cable to this machine, a proxy to the package mirrors, and nothing else."""

import subprocess

from image import PROXY_PORT, allowed_servers


def connect(host) -> None:
    """A cable of two addresses between this machine and the host's network namespace; no route leads further."""
    call("ip", "link", "add", cable(host), "type", "veth", "peer", "name", "eth0", "netns", host.name)
    call("ip", "addr", "add", f"{host.gateway}/31", "dev", cable(host))
    call("ip", "link", "set", cable(host), "up")
    call("ip", "-n", host.name, "link", "set", "lo", "up")
    call("ip", "-n", host.name, "addr", "add", f"{host.address}/31", "dev", "eth0")
    call("ip", "-n", host.name, "link", "set", "eth0", "up")
    start_proxy(host)


def disconnect(host) -> None:
    """The proxy must be gone."""
    subprocess.run(["ip", "link", "del", cable(host)], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", host.name], capture_output=True, check=False)


def start_proxy(host) -> None:
    """The host's way to the package mirrors."""
    allowed = "".join(f"^{name.replace('.', '[.]')}$\n" for name in allowed_servers())
    (host.directory / "proxy.allow").write_text(allowed)
    (host.directory / "proxy.conf").write_text(
        f'Port {PROXY_PORT}\nListen {host.gateway}\nAllow {host.address}\nTimeout 120\nMaxClients 50\nConnectPort 443\n'
        f'PidFile "{host.directory}/proxy.pid"\nLogFile "{host.directory}/proxy.log"\n'
        f'Filter "{host.directory}/proxy.allow"\nFilterDefaultDeny Yes\nFilterExtended On\n'
    )
    call("tinyproxy", "-c", str(host.directory / "proxy.conf"))


def cable(host) -> str:
    return f"th{host.number}"


def call(*command: str) -> str:
    """What it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"Failed to run {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout

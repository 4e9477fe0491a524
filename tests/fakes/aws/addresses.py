"""Addresses and names that lead nowhere else: loopback, or the nets that RFC 5737 keeps for documentation."""

import ipaddress
import itertools
from collections.abc import Iterator
from typing import Any

from moto.ec2.models import elastic_network_interfaces, instances, nat_gateways, vpcs
from moto.ec2.models.subnets import Subnet

ALLOWED = [ipaddress.ip_network(net) for net in ("127.0.0.0/8", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
_public: Iterator[str] = iter(())
_private: Iterator[str] = iter(())


def set_addresses(public: tuple[str, ...]) -> None:
    """Gives out these public addresses in turn, TEST-NET-3 without any; private ones are of TEST-NET-2."""
    global _public, _private
    for address in public:
        if not is_allowed(address):
            raise ValueError(f"addresses must be loopback or test-net addresses, got {address}")
    _public = itertools.cycle(public or [f"203.0.113.{last}" for last in range(1, 255)])
    _private = itertools.cycle(f"198.51.100.{last}" for last in range(1, 255))


def is_allowed(address: str) -> bool:
    return any(ipaddress.ip_address(address) in net for net in ALLOWED)


def _next_public(*_: Any, **__: Any) -> str:
    return next(_public)


def _next_private(*_: Any, **__: Any) -> str:
    return next(_private)


def dns_name(address: str | None) -> str | None:
    """A name that no name server knows (RFC 6761)."""
    return f"ip-{address.replace('.', '-')}.invalid" if address else None


def patch_addresses() -> None:
    """Takes moto's own addresses, which are real ones of other people, out of every answer."""
    elastic_network_interfaces.random_public_ip = _next_public
    for module in (elastic_network_interfaces, instances, nat_gateways, vpcs):
        module.random_private_ip = _next_private
    elastic_network_interfaces.generate_dns_from_ip = lambda address, *_: dns_name(address)
    Subnet.get_available_subnet_ip = _next_private
    Subnet.request_ip = lambda *_: None
    Subnet.del_subnet_ip = lambda *_: None
    instances.Instance.private_dns_name = property(lambda self: dns_name(self.private_ip))
    instances.Instance.public_dns_name = property(lambda self: dns_name(self.public_ip))

"""Whether a listen address is one that the internet cannot reach."""

import ipaddress


def is_private_address(text):
    """True for a loopback, private or link-local address; False for any other, the wildcard and names."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    plain = getattr(address, "ipv4_mapped", None) or address  # ::ffff:0.0.0.0 is the wildcard, too
    return plain.is_private and not plain.is_unspecified


class TestModule:
    def tests(self):
        return {"node_exporter_private_address": is_private_address}

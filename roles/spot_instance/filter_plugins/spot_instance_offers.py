"""Which offers may be launched, in which order; and networks that a host may be opened to."""

import ipaddress
from itertools import groupby


def spot_instance_allowed(offers, allow_on_demand, max_price_usd, by_region):
    """The offers, in their order, without on-demand ones where those are not wanted, and those above the price."""
    return [
        offer for offer in offers
        if (allow_on_demand or offer["market"] == "spot")
        and _is_within(offer["price_usd_per_hour"], spot_instance_cap(offer["region"], max_price_usd, by_region))
    ]  # fmt: skip


def spot_instance_cap(region, max_price_usd, by_region):
    """The most that an hour may cost there, USD; None without a limit."""
    caps = [float(cap) for cap in (max_price_usd, by_region.get(region)) if cap not in (None, "")]
    return min(caps, default=None)


def _is_within(price, cap):
    return cap is None or price <= cap


def spot_instance_left(offers, tried):
    """The offers whose region did not refuse their market and type for good."""
    refused = {_key(row) for row in tried if row["step"] == "region"}
    return [offer for offer in offers if _key(offer) not in refused]


def _key(row):
    return row["region"], row["market"], row["instance_type"]


def spot_instance_by_region(offers):
    """[{"region", "offers"}]: ranked offers, those that follow one another in a region together."""
    return [{"region": region, "offers": list(rows)} for region, rows in groupby(offers, lambda row: row["region"])]


def spot_instance_told(tried):
    """A line for each offer that could not be had."""
    return [
        f"{row['instance_type']} {row['market'].replace('_', ' ')} in {row['zone'] or row['region']}: {row['meaning']}"
        f" ({row['code']}: {row['message']})"
        for row in tried
    ]


def spot_instance_wrong_networks(cidrs):
    """A sentence for each that is no network, or one so large that it is as good as the whole internet."""
    return [f"{cidr} {why}" for cidr in cidrs if (why := _wrong(cidr))]


def _wrong(cidr):
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError as error:
        return f"is no network like 192.0.2.7/32 ({error})"
    least = 16 if network.version == 4 else 32
    return f"is open to too many; at most a /{least} is allowed" if network.prefixlen < least else ""


def spot_instance_network_of(address):
    """The network of that address alone."""
    return str(ipaddress.ip_network(address.strip()))


def spot_instance_rules(ssh_cidr, monitor_cidrs, monitor_port):
    """Rules of amazon.aws.ec2_security_group: ssh and, from its own networks, the monitor."""
    wanted = [(22, ssh_cidr, "ssh")] + [(monitor_port, cidr, "monitor") for cidr in monitor_cidrs]
    return [
        {"proto": "tcp", "ports": [port], "cidr_ipv6" if ":" in cidr else "cidr_ip": cidr, "rule_desc": what}
        for port, cidr, what in wanted
    ]


def spot_instance_zone_network(zone, network):
    """The part of the run's own network for a zone, by the zone's letter: us-east-1b's is the second /24."""
    parts = list(ipaddress.ip_network(network).subnets(new_prefix=24))
    return str(parts[ord(zone[-1]) - ord("a")])


def spot_instance_subnet(row):
    return {"id": row["id"], "vpc_id": row["vpc_id"]}


class FilterModule:
    def filters(self):
        return {name: value for name, value in globals().items() if name.startswith("spot_instance_")}

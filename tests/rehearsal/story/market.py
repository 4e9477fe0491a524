"""The double's scenario at a moment of the story. Pure."""

from dataclasses import dataclass, field

from tests.rehearsal.story.plot import HOME, ZONES, Plot

TYPE = "g3.8xlarge"
ON_DEMAND_USD = 2.28
# Above spot_market_max_price_usd of inventory/rehearsal.
SPIKE_USD = 1.9
SNAPSHOT = "snap-0123456789abcdef0"
IMAGE_PARAMETER = "/aws/service/debian/release/12/latest/amd64"


@dataclass
class Market:
    """What has become of it so far."""

    plot: Plot
    spikes: dict[str, float] = field(default_factory=dict)  # zone: since how many seconds after the double's start
    full: set[str] = field(default_factory=set)  # zones without room for spot machines
    held: str = ""

    def cheapest(self) -> str:
        """The zone that costs least, of those with room and at their usual price."""
        zones = self.plot.prices_usd.keys() - self.full - self.spikes.keys()
        return min(zones, key=self.plot.prices_usd.__getitem__)

    def scenario(self) -> dict:
        images = [
            {"id": f"ami-{number}", "region": region, "ssm_parameter": IMAGE_PARAMETER}
            for number, region in enumerate(ZONES)
        ]
        return {
            "regions": {region: {"zones": _zone_ids(region)} for region in ZONES},
            "offers": [self._offer(region, f"{region}{letter}") for region in ZONES for letter in ZONES[region]],
            "images": images,
            "snapshots": [{"id": SNAPSHOT, "region": HOME, "size_gib": 1, "tags": {"dataset": "squares"}}],
            "timing": [{"pending": "forever"}],
            "faults": [{"action": self.held, "codes": ["held"]}] if self.held else [],
        }

    def _offer(self, region: str, zone: str) -> dict:
        usual = [["-1d", self.plot.prices_usd[zone]]]
        spike = [[self.spikes[zone], SPIKE_USD]] if zone in self.spikes else []
        capacity = {"spot_capacity": 0} if zone in self.full else {}
        return {
            "region": region, "zones": [zone], "instance_types": [TYPE], "on_demand_usd_per_hour": ON_DEMAND_USD,
            "spot_usd_per_hour": usual + spike,
        } | capacity  # fmt: skip


def _zone_ids(region: str) -> dict[str, str]:
    """AWS's own style: us-west-2a is usw2-az1."""
    area, side, number = region.split("-")
    return {f"{region}{letter}": f"{area}{side[0]}{number}-az{place}" for place, letter in enumerate(ZONES[region], 1)}

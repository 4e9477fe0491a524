"""What a run takes and costs on one offer. Pure arithmetic; every rate comes from the caller.

`rates` is the role's table (vars/main.yml): what AWS charges and how fast it copies, each with its source.
"""

HOURS_A_MONTH = 730.0
PARTS = ("compute", "copy", "volume", "warm_up", "lost_work")


def training_hours(epochs, images, images_per_second):
    """Hours of training alone."""
    return epochs * images / images_per_second / 3600


def lost_hours_per_interruption(checkpoint_interval_seconds, rates):
    """Half of what lies between two checkpoints is done twice; then a new machine has to get to its first step."""
    return checkpoint_interval_seconds / 2 / 3600 + rates["restart_minutes"] / 60


def warm_up_hours(volume_gb, rates):
    """To read a fresh volume once: until then its blocks come from the snapshot, one by one."""
    return volume_gb * 1000 / rates["warm_up_mb_per_second"] / 3600


def copy_hours(volume_gb, rates):
    return volume_gb * 1000 / rates["copy_mb_per_second"] / 3600


def copy_usd_per_gb(source_region, rates):
    """What leaves a region is charged by that region."""
    return rates["copy_usd_per_gb"].get(source_region, rates["copy_usd_per_gb"]["default"])


def usd_per_gb_month(kind, region, rates):
    """(USD, whether it is the region's own price) of a "volume" or a "snapshot"."""
    table = rates[f"{kind}_usd_per_gb_month"]
    return table.get(region, table["default"]), region in table


def run_costs(price, hours, interruptions_per_hour, volume_gb, copy_from, checkpoint_interval_seconds, rates, region):
    """{"compute", "copy", "volume", "warm_up", "lost_work", "total"} in USD.

    price: USD an hour of the machine. copy_from: the region that the snapshot is copied from, None when it is there.
    interruptions_per_hour: of a running machine; 0 on demand.
    """
    lost = hours * interruptions_per_hour * lost_hours_per_interruption(checkpoint_interval_seconds, rates)
    warm = warm_up_hours(volume_gb, rates)
    months = (hours + lost + warm) / HOURS_A_MONTH
    stored = {kind: months * usd_per_gb_month(kind, region, rates)[0] for kind in ("volume", "snapshot")}
    costs = {
        "compute": price * hours,
        "copy": volume_gb * (copy_usd_per_gb(copy_from, rates) + stored["snapshot"]) if copy_from else 0.0,
        "volume": volume_gb * stored["volume"],
        "warm_up": price * warm,
        "lost_work": price * lost,
    }
    rounded = {part: round(costs[part], 6) for part in PARTS}
    return rounded | {"total": round(sum(rounded.values()), 6)}


def hours_until_ready(hours, interruptions_per_hour, volume_gb, is_copied, checkpoint_interval_seconds, rates):
    """Hours from now to the end of the run: setting up, copying, warming, training, what interruptions cost."""
    lost = hours * interruptions_per_hour * lost_hours_per_interruption(checkpoint_interval_seconds, rates)
    before = rates["setup_minutes"] / 60 + warm_up_hours(volume_gb, rates)
    return before + (copy_hours(volume_gb, rates) if is_copied else 0.0) + hours + lost

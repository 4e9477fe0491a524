"""Numbers that must be above 0, judged all at once. What is empty is not set."""


def spot_market_not_above_zero(settings):
    """A sentence for each setting, or row of one that is a table, that is no number above 0."""
    rows = [row for name, value in settings.items() for row in _rows(name, value)]
    return [f"{name} must be a number above 0, got {value}" for name, value in rows if _is_wrong(value)]


def _rows(name, value):
    return [(f"{name}[{key}]", number) for key, number in value.items()] if isinstance(value, dict) else [(name, value)]


def _is_wrong(value):
    if value is None or value == "":
        return False
    try:
        return not 0 < float(value) < float("inf")
    except (TypeError, ValueError):
        return True


class FilterModule:
    def filters(self):
        return {"spot_market_not_above_zero": spot_market_not_above_zero}

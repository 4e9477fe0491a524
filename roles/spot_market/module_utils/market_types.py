"""What is known of an instance type: whether MXNet runs there, how fast, what is like it. Pure."""

import difflib

# Without these of its row, nobody can tell what a run on a type costs.
NEEDED = ("gpu_model", "vcpus", "interruptions_per_hour", "roof_images_per_second", "roof_source")


def refusal(instance_type, profiles):
    """Why MXNet cannot run on a type; empty when it can."""
    profile = profiles.get(instance_type)
    if profile is None:
        close = difflib.get_close_matches(instance_type, profiles, 1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        return f"it has no row in instance_profiles.yml, so nobody knows whether MXNet runs there{hint}"
    if profile.get("refused"):
        return profile["refused"]
    lacking = [key for key in NEEDED if profile.get(key) is None]
    if lacking:
        return f"its row in instance_profiles.yml has no {', '.join(lacking)}"
    if not profile.get("mxnet_wheel"):
        return f"no MXNet wheel has code for its {profile['gpu_model']}"
    if not profile.get("driver_branch"):
        return f"no driver runs its {profile['gpu_model']}"
    return ""


def images_per_second(request, instance_type):
    """(images/s, where the number is from): a tuning's, else a published measurement's, else a share of the roof."""
    profile = request["profiles"][instance_type]
    if request["measured_images_per_second"].get(instance_type):
        return float(request["measured_images_per_second"][instance_type]), "measured by the tuner"
    if "measured_images_per_second" in profile:
        source = profile.get("measured_source", "instance_profiles.yml does not say where")
        return float(profile["measured_images_per_second"]), f"measured: {source}"
    share = request["attained_share"]
    source = f"{share:.0%} of the roof of {profile['roof_images_per_second']:,.0f} ({profile['roof_source']})"
    return profile["roof_images_per_second"] * share, source


def interruptions_per_hour(request, instance_type):
    observed = request["interruptions_per_hour"]
    return request["profiles"][instance_type]["interruptions_per_hour"] if observed is None else observed


def vcpus(found, request, instance_type):
    return found["types"].get(instance_type, {}).get("vcpus") or request["profiles"][instance_type]["vcpus"]


def family(instance_type):
    """The letter that Spot quotas go by."""
    return instance_type[0]


def alternatives(survey, request):
    """[(type, images/s, [regions])] that MXNet can run, somebody offers and nobody asked for; the most alike first."""
    offered = {}
    for region, found in sorted(survey["regions"].items()):
        for instance_type in found["offerings"]:
            offered.setdefault(instance_type, []).append(region)
    wanted = _wanted_speed(request)
    rows = [
        (name, images_per_second(request, name)[0], regions) for name, regions in offered.items()
        if name not in request["instance_types"] and not refusal(name, request["profiles"])
    ]
    return sorted(rows, key=lambda row: (max(row[1] / wanted, wanted / row[1]), row[0]))


def _wanted_speed(request):
    speeds = [
        images_per_second(request, name)[0] for name in request["instance_types"]
        if not refusal(name, request["profiles"])
    ]
    return max(speeds, default=700.0)

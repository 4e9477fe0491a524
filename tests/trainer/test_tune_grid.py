"""The search against an exhaustive grid, on models of hosts drawn at random."""

from contextlib import suppress
from functools import cache
from statistics import median

import pytest
from random_twins import NOISY_TOLERANCE, QUIET, TOLERANCE, fewest_threads, grid, largest_batch, random_twin

from trainer.errors import ConfigError
from trainer.tune.known import Host
from trainer.tune.search import search
from trainer.tune.twin import TwinProber

TWINS = 200
BUDGET_SECONDS = 600.0


@cache
def tuned(choice):
    """(twin, what was found, seconds) for each twin."""
    rows = []
    for seed in range(TWINS):
        twin = random_twin(seed)
        prober = TwinProber(twin, seed, BUDGET_SECONDS)
        rows.append((twin, search(host_of(twin), prober, choice), prober.spent_seconds))
    return rows


def host_of(twin):
    return Host(devices=twin.gpus, vcpus=twin.vcpus, memory_mb=twin.gpu_memory_mb)


@pytest.mark.parametrize("choice", ["largest", "sufficient"])
def test_nothing_is_lost_against_the_grid(choice):
    for twin, found, _ in tuned(choice):
        lost = 1 - twin.throughput(found.batch_size, found.decode_threads) / grid(twin)[0]
        assert lost <= (TOLERANCE if twin.noise <= QUIET else NOISY_TOLERANCE), (twin, found)


def test_the_batch_is_the_largest_that_fits_unless_a_smaller_one_is_faster():
    for twin, found, _ in tuned("largest"):
        largest = largest_batch(twin)
        assert found.largest_batch == largest
        assert twin.fits(found.batch_size)
        if found.batch_size < largest:
            assert twin.network(largest) < twin.network(found.batch_size), (twin, found)


def test_the_sufficient_batch_is_sufficient():
    for twin, found, _ in tuned("largest"):
        tolerance = TOLERANCE if twin.noise <= QUIET else NOISY_TOLERANCE
        best = grid(twin)[0]
        assert twin.throughput(found.sufficient_batch, twin.vcpus) >= (1 - tolerance) * best, (twin, found)


@pytest.mark.parametrize("choice", ["largest", "sufficient"])
def test_threads_are_at_most_twice_the_fewest(choice):
    times = [found.decode_threads / fewest_threads(twin, found.batch_size) for twin, found, _ in tuned(choice)]
    assert max(times) <= 2
    assert median(times) <= 1.05


@pytest.mark.parametrize("choice", ["largest", "sufficient"])
def test_it_takes_a_part_of_the_grids_time_and_never_more_than_the_budget(choice):
    rows = tuned(choice)
    assert max(seconds for _, _, seconds in rows) <= BUDGET_SECONDS
    assert median(seconds / grid(twin)[1] for twin, _, seconds in rows) <= 0.3


def test_the_roofs_and_the_speed_are_the_twins():
    for twin, found, _ in tuned("largest"):
        limits = {"disk": twin.disk(), "input": min(twin.decode(twin.vcpus), twin.disk())}
        for name, limit in limits.items():
            assert found.roofs[name] == pytest.approx(limit, rel=0.002 + 3 * twin.noise)
        speed = twin.throughput(found.batch_size, found.decode_threads)
        assert found.images_per_second == pytest.approx(speed, rel=0.002 + 2 * twin.noise)
        assert found.roof_images_per_second == min(found.roofs.values())


@pytest.mark.parametrize("budget", [56.0, 120.0, 250.0])
def test_a_small_budget_is_kept_too(budget):
    for seed in range(40):
        twin = random_twin(seed)
        prober = TwinProber(twin, seed, budget)
        with suppress(ConfigError):  # it may end before a batch was found that fits
            assert twin.fits(search(host_of(twin), prober).batch_size)
        assert prober.spent_seconds <= budget


def test_half_of_the_budget_is_nearly_always_enough_for_the_threads():
    many = []
    for seed in range(TWINS):
        twin = random_twin(seed)
        found = search(host_of(twin), TwinProber(twin, seed, BUDGET_SECONDS / 2))
        if found.decode_threads > 2 * fewest_threads(twin, found.batch_size):
            many.append((twin, found))
    assert len(many) <= 0.01 * TWINS, many

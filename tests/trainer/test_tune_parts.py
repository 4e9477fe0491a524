"""The parts of the search by themselves: memory, decoding, batches, the recipe, what is kept."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tune_search import BIG

from trainer.config import build, load
from trainer.host_kind import host_kind
from trainer.tune import batch_curve, kept
from trainer.tune.decode_curve import DecodeCurve
from trainer.tune.figures import Figure, is_known
from trainer.tune.known import Host
from trainer.tune.memory_limit import largest_that_fits
from trainer.tune.recipe import recipe, tuned_config
from trainer.tune.search import search
from trainer.tune.threads_only import tune_threads
from trainer.tune.twin import TwinProber


def exact(rates):
    return {place: Figure(rate, 0.0) for place, rate in rates.items()}


@settings(max_examples=300, deadline=None)
@given(
    limit=st.floats(1000, 100_000), fixed_share=st.floats(0, 1.1), per_image=st.floats(0.05, 5000),
    first=st.integers(1, 2000), most=st.none() | st.integers(1, 5000),
)
def test_the_largest_is_found_in_few_tries_wherever_it_lies(limit, fixed_share, per_image, first, most):
    fixed, readings, tries = fixed_share * limit, {}, []

    def fits(images):
        tries.append(images)
        if fixed + per_image * images > limit:
            return False
        readings[images] = fixed + per_image * images
        return True

    found = largest_that_fits(fits, readings, limit, first, most)
    largest = max(0, int((limit - fixed) / per_image))
    assert found == pytest.approx(min(largest, most or largest), abs=1)
    assert found == 0 or fixed + per_image * found <= limit
    assert len(tries) <= 8
    assert most is None or max(tries) <= most


@pytest.mark.parametrize("parallel", [0.8, 0.95, 1.0])
@pytest.mark.parametrize("threads", [1, 3, 17, 64, 100])
def test_amdahls_law_tells_the_threads(parallel, threads):
    def rate(count):
        return 100 / (1 - parallel + parallel / count)

    curve = DecodeCurve(exact({1: rate(1), 64: rate(64)}), disk_rate=1e9)
    assert curve.likely_threads(rate(threads)) == pytest.approx(threads, rel=1e-6)
    assert curve.rate_of(threads) == pytest.approx(rate(threads))


def test_no_number_of_threads_is_enough_above_the_laws_limit():
    curve = DecodeCurve(exact({1: 100, 64: 100 / (0.2 + 0.8 / 64)}), disk_rate=1e9)
    assert curve.sure_threads(501) == float("inf")


def test_where_the_disk_hides_the_threads_the_guess_is_between_and_the_choice_is_what_was_seen():
    curve = DecodeCurve(exact({1: 100, 64: 400}), disk_rate=400)
    assert 4 < curve.likely_threads(396) < 64
    assert curve.sure_threads(400) == pytest.approx(64)
    seen = DecodeCurve(exact({1: 100, 5: 400, 64: 400}), disk_rate=400)
    assert 4 <= seen.sure_threads(396) <= 5


def test_a_number_of_threads_that_was_seen_to_be_too_slow_is_not_chosen():
    curve = DecodeCurve(exact({1: 100, 4: 350, 8: 800}), disk_rate=1e9)
    assert curve.sure_threads(390) > 4
    assert curve.sure_threads(801) > 8


def test_hyper_threads_bend_the_law_and_the_nearest_points_are_believed():
    def rate(threads):
        return 10 * min(threads, 32) + 2.5 * max(0, threads - 32)

    curve = DecodeCurve(exact({threads: rate(threads) for threads in (1, 16, 32, 64)}), disk_rate=1e9)
    assert curve.likely_threads(240) == pytest.approx(24, rel=0.1)


@pytest.mark.parametrize(
    ("curve", "wanted", "following"),
    [
        ({88: 100}, 98, 8), ({1: 10, 88: 100}, 98, 8), ({8: 60, 88: 100}, 98, 32), ({8: 60, 32: 100, 88: 100}, 98, 16),
        ({16: 90, 32: 100, 88: 100}, 98, None),
        ({16: 90, 32: 120, 88: 120}, 98, 21), ({28: 97, 32: 100, 88: 100}, 98, None), ({1: 100, 88: 100}, 98, None),
    ],
)  # fmt: skip
def test_the_way_down_to_the_smallest_batch(curve, wanted, following):
    assert batch_curve.next_smaller(exact(curve), wanted, 1) == following


def test_both_sides_of_a_peak_are_looked_at():
    curve = exact({4: 70, 16: 100, 64: 80})
    assert batch_curve.next_beside_peak(curve, 16, 1, 64) == 32
    assert batch_curve.next_beside_peak(curve | exact({32: 90}), 16, 1, 64) == 8
    assert batch_curve.next_beside_peak(curve | exact({32: 90, 8: 90}), 16, 1, 64) is None


@pytest.mark.parametrize(
    ("rates", "noise", "known"),
    [([100], 0, False), ([100, 100], 0, False), ([100] * 3, 0, True), ([100, 103, 97], 0, False),
     ([100, 100.1, 99.9], 0.05, False), ([100, 100.1, 99.9] * 4, 0.05, True)],
)  # fmt: skip
def test_when_enough_was_measured(rates, noise, known):
    assert is_known(rates, 0.03, noise) is known


@pytest.fixture
def values(tmp_path):
    (tmp_path / "train.rec").write_bytes(b"12345678")
    return {
        "run_directory": "run", "data_train": str(tmp_path / "train.rec"), "num_classes": 4, "num_layers": 18,
        "epochs": 90, "batch_size": 128, "base_learning_rate": 0.1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("change", "batch", "changed"),
    [
        ({}, 1408, {}),
        ({"base_learning_rate": None, "learning_rate": 0.1}, 1408, {"learning_rate": 1.1}),
        ({"base_learning_rate": None, "learning_rate": 0.1}, 128, {}),
        ({"warmup_epochs": 0}, 1408, {"warmup_epochs": 5.0}),
        ({"warmup_epochs": 0, "epochs": 20}, 256, {"warmup_epochs": 2.0}),
        ({"warmup_epochs": 0}, 160, {}),
        ({"warmup_epochs": 8}, 1408, {}),
    ],
)
def test_the_recipe_follows_the_batch(values, tmp_path, change, batch, changed):
    merged = {key: value for key, value in (values | change).items() if value is not None}
    assert recipe(build(merged, source="test", folder=tmp_path), batch) == changed


def test_what_was_found_serves_the_same_host_and_task_only(values, tmp_path):
    def key(**change):
        return kept.key_of(build(values | change, source="test", folder=tmp_path), {"what": "largest"})

    path = kept.keep(tmp_path / "kept", key(), {"batch_size": 1408})
    assert kept.find(tmp_path / "kept", key()) == {"batch_size": 1408}
    for change in ({"image_shape": [3, 64, 64]}, {"precision": "bfloat16"}, {"num_layers": 34}, {"batch_size": 64}):
        assert kept.find(tmp_path / "kept", key(**change)) is None
    (tmp_path / "train.rec").write_bytes(b"123456789")
    assert kept.find(tmp_path / "kept", key()) is None
    assert json.loads(path.read_text())["key"]["host"] == host_kind()
    path.write_text("{")
    assert kept.find(tmp_path / "kept", key()) is None


@pytest.mark.parametrize(("choice", "keys"), [("all", {"batch_size", "decode_threads", "tuning", "learning_rate"}),
                                              ("threads", {"decode_threads", "tuning"})])
def test_what_was_found_makes_a_valid_configuration(values, tmp_path, choice, keys):
    del values["base_learning_rate"]
    config = build(values | {"learning_rate": 0.1}, source="test", folder=tmp_path)
    host = Host(devices=1, vcpus=BIG.vcpus, memory_mb=8000, batch=128)
    one = BIG.model_copy(update={"gpus": 1})
    prober = TwinProber(one, 0, 600)
    found = search(host, prober) if choice == "all" else tune_threads(host, prober)
    tuned = tuned_config(config, found)
    assert set(tuned) == keys
    merged = values | {"learning_rate": 0.1} | tuned
    written = build(merged, source="test", folder=tmp_path)
    assert written.tuning.images_per_second == found.images_per_second
    path = tmp_path / "config.toml"
    path.write_text(written.to_toml())
    assert load(path) == written

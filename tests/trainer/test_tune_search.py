"""The search where hosts are not as simple as their model: scripted hosts in virtual time."""

import pytest
from test_twin import twin

from trainer.errors import ConfigError
from trainer.tune.figures import DoesNotFitError, Measured
from trainer.tune.known import Host
from trainer.tune.search import search
from trainer.tune.threads_only import tune_threads
from trainer.tune.twin import TwinProber

BIG = twin(
    vcpus=16, gpus=4, gpu_memory_mb=8000, disk_mb_per_second=500, decode_images_per_second_per_thread=60,
    decode_parallel_fraction=1.0, gpu_images_per_second={8: 80.0, 32: 100.0},
)  # fmt: skip


class Scripted(TwinProber):
    """A twin whose probes `change(probe, measured)` alters; `asked` holds them."""

    def __init__(self, model, change=lambda probe, measured: measured, budget_seconds=600.0):
        super().__init__(model, 0, budget_seconds)
        self.change, self.asked = change, []

    def __call__(self, probe):
        self.asked.append(probe)
        return self.change(probe, super().__call__(probe))


def host(model, **changes):
    return Host(**({"devices": model.gpus, "vcpus": model.vcpus, "memory_mb": model.gpu_memory_mb} | changes))


def test_a_batch_that_dies_in_validation_is_not_recommended():
    def change(probe, measured):
        if probe.what == "proof" and probe.batch > 2500:
            raise DoesNotFitError
        return measured

    found = search(host(BIG), Scripted(BIG, change))
    assert 2000 <= found.batch_size == found.largest_batch <= 2500
    assert found.batch_size % 4 == 0
    assert found.proven
    assert "fits in training, but not with a validation" in " ".join(found.notes)


@pytest.mark.parametrize("reserve", [0.1, 0.3])
def test_what_is_reserved_stays_free(reserve):
    found = search(host(BIG, memory_mb=8000 * (1 - reserve)), Scripted(BIG))
    assert BIG.memory_mb(found.largest_batch) <= 8000 * (1 - reserve) < BIG.memory_mb(found.largest_batch + 4)


def test_memory_that_grows_in_steps_is_found_by_halving():
    limit = 1232

    def change(probe, measured):
        if probe.what in ("training", "network", "proof") and probe.batch > limit:
            raise DoesNotFitError
        return Measured(measured.rates, 3000.0)

    found = search(host(BIG), Scripted(BIG, change))
    assert 0.97 * limit <= found.largest_batch <= limit


def test_a_limit_of_the_batch_is_kept():
    assert search(host(BIG, most_batch=200), Scripted(BIG)).largest_batch == 200
    assert search(host(BIG, most_batch=4), Scripted(BIG)).batch_size == 4


def test_more_threads_are_tried_where_training_needs_more_than_the_input_alone_says():
    """Half of what the threads decode is lost while training."""
    def change(probe, measured):
        if probe.what not in ("training", "proof"):
            return measured
        slower = [min(rate, 0.5 * BIG.decode(probe.threads)) for rate in measured.rates]
        return Measured(tuple(slower), measured.memory_mb)

    found = search(host(BIG), Scripted(BIG, change))
    assert found.decode_threads >= 13
    assert found.images_per_second >= 0.98 * 400


def test_fewer_threads_are_tried_where_decoding_takes_from_training():
    def change(probe, measured):
        if probe.what not in ("training", "proof"):
            return measured
        slower = [rate * (1 - 0.05 * probe.threads) for rate in measured.rates]
        return Measured(tuple(slower), measured.memory_mb)

    prober = Scripted(BIG, change)
    found = search(host(BIG), prober)
    tried = {probe.threads for probe in prober.asked if probe.what in ("training", "proof") and probe.batch > 128}
    assert len(tried) > 1
    speeds = {threads: BIG.throughput(2048, threads) * (1 - 0.05 * threads) for threads in tried}
    assert speeds[found.decode_threads] >= 0.98 * max(speeds.values())


def test_the_decode_threads_are_found_before_the_batch():
    prober = Scripted(BIG)
    search(host(BIG), prober)
    kinds = [probe.what for probe in prober.asked]
    assert kinds[0] == "training"
    assert kinds[-1] == "proof"
    smaller = next(i for i, probe in enumerate(prober.asked) if probe.what == "network" and probe.batch < 128)
    assert max(i for i, kind in enumerate(kinds) if kind == "input") < smaller


def test_credit_goes_to_the_knob_that_gained_it():
    slow_input = twin(vcpus=16, gpus=4, gpu_memory_mb=8000, decode_images_per_second_per_thread=25,
                      decode_parallel_fraction=1.0, disk_mb_per_second=500, gpu_images_per_second={1: 100.0})
    found = search(host(slow_input), Scripted(slow_input))
    assert found.credit == {"decode_threads": pytest.approx(4, rel=0.02), "batch_size": pytest.approx(1, rel=0.01)}
    small_batches = twin(vcpus=16, gpus=4, gpu_memory_mb=8000, decode_images_per_second_per_thread=1000,
                         disk_mb_per_second=5000, gpu_images_per_second={128: 1000.0})
    found = search(host(small_batches), Scripted(small_batches))
    assert found.credit["decode_threads"] == pytest.approx(1, rel=0.02)
    assert found.credit["batch_size"] == pytest.approx(4, rel=0.05)
    assert found.batch_alone > 3


def test_the_threads_get_their_credit_where_the_first_batch_does_not_fit_and_the_disk_hides_the_rest():
    """One thread is slower than the disk, and four are too."""
    model = twin(vcpus=64, gpus=1, gpu_memory_mb=1000, memory_mb_per_image=12, disk_mb_per_second=10,
                 decode_images_per_second_per_thread=25, decode_parallel_fraction=0.8,
                 gpu_images_per_second={1: 1000.0})  # fmt: skip
    found = search(host(model), Scripted(model))
    assert found.start == {"batch_size": 66, "decode_threads": 4, "images_per_second": pytest.approx(62.5)}
    assert found.credit["decode_threads"] == pytest.approx(found.images_per_second / 62.5, abs=1e-4)


def test_precision_gets_its_credit():
    def change(probe, measured):
        return Measured(tuple(rate / 1.5 for rate in measured.rates)) if probe.what == "float32" else measured

    class Prober(Scripted):
        def _true_rate(self, probe):
            return super()._true_rate(probe._replace(what="network") if probe.what == "float32" else probe)

    found = search(host(BIG, precision="float16"), Prober(BIG, change))
    assert found.credit["precision"] == pytest.approx(1.5)


def test_a_host_on_which_nothing_fits_is_an_error():
    small = twin(gpu_memory_mb=205)
    with pytest.raises(ConfigError, match="must hold one image each, but a batch of 2 does not fit"):
        search(host(small), Scripted(small))


def test_noise_is_told():
    noisy = BIG.model_copy(update={"noise": 0.2})
    assert search(host(noisy), TwinProber(noisy, 1, 600.0)).noisy
    assert not search(host(BIG), TwinProber(BIG, 1, 600.0)).noisy


def test_threads_only_keeps_the_batch_and_takes_the_fewest():
    prober = Scripted(BIG, budget_seconds=300)
    found = tune_threads(host(BIG, batch=64, threads=4), prober)
    assert (found.batch_size, found.largest_batch, found.proven) == (64, None, False)
    assert BIG.throughput(64, found.decode_threads) >= 0.98 * BIG.throughput(64, 16)
    assert found.decode_threads <= 8
    assert {probe.batch for probe in prober.asked} == {64}


def test_threads_only_in_a_short_time_is_the_best_of_what_was_tried():
    prober = Scripted(BIG, budget_seconds=55)
    found = tune_threads(host(BIG, batch=64, threads=4), prober)
    assert found.decode_threads == 8
    assert "the time budget ended before everything was measured" in found.notes

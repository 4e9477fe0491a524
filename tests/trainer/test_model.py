"""Networks: their size, their names, their first values, and what is refused."""

import mxnet as mx
import numpy as np
import pytest

from trainer.config import Config
from trainer.errors import ConfigError, DataError
from trainer.learn.export import write_symbol_and_params
from trainer.learn.model import build_network, initialise_network, set_weight_decay

CPU = [mx.cpu()]


def config(tmp_path, **changes) -> Config:
    values = {
        "run_directory": tmp_path, "data_train": "train.rec", "num_classes": 10, "epochs": 3, "batch_size": 4,
        "learning_rate": 0.1, "num_layers": 8, "image_shape": (3, 28, 28),
    }
    return Config.model_validate(values | changes)


def initialised(configuration: Config):
    network = build_network(configuration)
    initialise_network(network, configuration, CPU)
    return network


def zoo(tmp_path, name: str, pixels: int, **changes) -> Config:
    return config(tmp_path, network=name, num_layers=None, image_shape=(3, pixels, pixels), **changes)


# Large: the counts that torchvision publishes for the same networks. Small: He et al. 2015, table 6.
@pytest.mark.parametrize(
    ("layers", "pixels", "classes", "millions"),
    [
        (18, 224, 1000, 11.689512), (34, 224, 1000, 21.797672), (50, 224, 1000, 25.557032),
        (101, 224, 1000, 44.549160), (152, 224, 1000, 60.192808),
        (20, 32, 10, 0.27), (56, 32, 10, 0.85), (110, 32, 10, 1.73),
    ],
)
def test_resnets_have_as_many_parameters_as_published(tmp_path, layers, pixels, classes, millions):
    network = build_network(
        config(tmp_path, num_layers=layers, image_shape=(3, pixels, pixels), num_classes=classes)
    )
    trained = [p for p in network.collect_params().values() if p.grad_req != "null"]
    tolerance = 1e-9 if classes == 1000 else 0.02
    assert sum(np.prod(p.shape) for p in trained) / 1e6 == pytest.approx(millions, rel=tolerance)


@pytest.mark.parametrize(
    ("network", "layers", "pixels"),
    [
        ("resnet", 8, 28), ("resnet", 18, 48), ("resnet", 50, 48), ("mobilenet0.25", None, 28),
        ("squeezenet1.1", None, 224),
    ],
)
def test_networks_give_one_moderate_number_a_class(tmp_path, network, layers, pixels):
    made = initialised(config(tmp_path, network=network, num_layers=layers, image_shape=(3, pixels, pixels)))
    made.hybridize(static_alloc=True, static_shape=True)
    outputs = made(mx.nd.random.normal(shape=(2, 3, pixels, pixels))).asnumpy()
    assert outputs.shape == (2, 10)
    assert np.abs(outputs).max() < 30


def test_two_networks_of_one_process_name_their_parameters_alike(tmp_path):
    first, second = build_network(config(tmp_path)), build_network(config(tmp_path))
    assert list(first.collect_params()) == list(second.collect_params())


def test_each_residual_block_starts_as_its_shortcut(tmp_path):
    network = initialised(config(tmp_path, num_layers=20))
    gammas = {name: p.data().asnumpy() for name, p in network.collect_params(".*gamma").items()}
    zero = [name for name, gamma in gammas.items() if not gamma.any()]
    assert len(zero) == 9
    block = network.features[3]
    images = mx.nd.random.uniform(shape=(1, 16, 28, 28))
    assert np.array_equal(block(images).asnumpy(), images.asnumpy())


def test_weight_decay_spares_batch_norm_and_biases(tmp_path):
    network = build_network(config(tmp_path))
    set_weight_decay(network)
    for name, parameter in network.collect_params().items():
        if parameter.grad_req != "null":
            assert parameter.wd_mult == (1.0 if name.endswith("weight") else 0.0), name


@pytest.mark.parametrize(
    ("name", "pixels", "message"),
    [
        ("mobilnet0.25", 224, r'network must be "resnet" or a name .*near: mobilenet0.25.*got "mobilnet0.25"'),
        ("qqq", 224, r"near: resnet, alexnet, .*vgg19"),
        ("inceptionv3", 224, r'image_shape must be \[3, 299, 299\] .*"inceptionv3", got \[3, 224, 224\]'),
        ("densenet121", 28, r"image_shape must be \[3, 224, 224\]"),
        ("squeezenet1.0", 448, r"image_shape must be \[3, 224, 224\]"),
        ("alexnet", 28, r"image_shape must be \[3, 64, 64\]"),
    ],
)
def test_impossible_networks_are_refused_in_words(tmp_path, capfd, name, pixels, message):
    with pytest.raises(ConfigError, match=message):
        build_network(zoo(tmp_path, name, pixels))
    assert capfd.readouterr().out == ""


def save_exported(network, path):
    write_symbol_and_params(network, path, 0)
    return path.with_name(f"{path.name}-0000.params")


def save_structural(network, path):
    network.save_parameters(str(path))
    return path


def save_without_prefix(network, path):
    network.collect_params().save(str(path), strip_prefix=network.prefix)
    return path


def save_with_another_prefix(network, path):
    parameters = network.collect_params().items()
    mx.nd.save(str(path), {name.replace("network_", "resnetv10_"): p.data() for name, p in parameters})
    return path


@pytest.mark.parametrize("save", [save_exported, save_structural, save_without_prefix, save_with_another_prefix])
@pytest.mark.parametrize("contexts", [CPU, [mx.cpu(0), mx.cpu(1)]])
def test_fine_tuning_takes_all_but_the_last_layer(tmp_path, save, contexts):
    source = initialised(config(tmp_path))
    path = save(source, tmp_path / "source")
    fine = config(tmp_path, num_classes=3, init_from=path)
    network = build_network(fine)
    taken = initialise_network(network, fine, contexts)
    assert taken["taken"] == len(source.collect_params().keys()) - 2
    assert len(taken["new"]) == 2
    assert taken["unused"] == []
    assert taken["file"] == str(path)
    for mine, theirs in zip(network.collect_params().values(), source.collect_params().values(), strict=True):
        for array in mine.list_data():
            assert "dense" in mine.name or np.array_equal(array.asnumpy(), theirs.data().asnumpy())
    assert network.output.weight.shape == (3, 64)
    assert network.output.weight.data(contexts[0]).asnumpy().any()


def test_with_the_same_classes_everything_is_taken(tmp_path):
    source = initialised(config(tmp_path))
    same = config(tmp_path, init_from=save_exported(source, tmp_path / "source"))
    network = build_network(same)
    assert initialise_network(network, same, CPU)["new"] == []
    images = mx.nd.random.normal(shape=(1, 3, 28, 28))
    assert np.array_equal(network(images).asnumpy(), source(images).asnumpy())


def test_parameters_of_another_kind_of_network_are_refused(tmp_path):
    other = zoo(tmp_path, "mobilenet0.25", 28)
    path = save_exported(initialised(other), tmp_path / "other")
    wrong = config(tmp_path, init_from=path)
    with pytest.raises(ConfigError, match=r"other-0000.params: must hold the parameters of this network, but only"):
        initialise_network(build_network(wrong), wrong, CPU)


def test_a_missing_parameter_file_is_told(tmp_path):
    wrong = config(tmp_path, init_from=tmp_path / "none.params")
    with pytest.raises(ConfigError, match=r"init_from must be a parameter file that exists, got .*none.params"):
        initialise_network(build_network(wrong), wrong, CPU)


@pytest.mark.parametrize("damage", ["empty", "garbage", "half", "last byte", "no names", "a bad name"])
def test_damaged_parameter_files_are_refused(tmp_path, damage):
    path = tmp_path / "damaged.params"
    mx.nd.save(str(path), {"arg:a_weight": mx.nd.ones((3, 4)), "aux:b": mx.nd.ones((2,))})
    whole = path.read_bytes()
    if damage == "no names":
        mx.nd.save(str(path), [mx.nd.ones((3, 4))])
    else:
        path.write_bytes({
            "empty": b"", "garbage": b"garbage" * 100, "half": whole[: len(whole) // 2], "last byte": whole[:-1],
            "a bad name": whole[:-1] + b"\xff",
        }[damage])
    wrong = config(tmp_path, init_from=path)
    with pytest.raises(DataError, match=r"damaged.params: must be a parameter file of MXNet") as caught:
        initialise_network(build_network(wrong), wrong, CPU)
    assert "\n" not in str(caught.value)


def test_load_epoch_continues_a_prefix_and_takes_everything(tmp_path):
    source = initialised(config(tmp_path))
    prefix = tmp_path / "deep" / "model"
    write_symbol_and_params(source, prefix, 2)
    later = config(tmp_path, model_prefix=prefix, load_epoch=2)
    network = build_network(later)
    assert initialise_network(network, later, CPU) is None
    images = mx.nd.random.normal(shape=(1, 3, 28, 28))
    assert np.array_equal(network(images).asnumpy(), source(images).asnumpy())
    other = config(tmp_path, model_prefix=prefix, load_epoch=2, num_classes=3)
    with pytest.raises(ConfigError, match=r"model-0002.params: must hold .* but only \d+ of \d+ fit.*dense0"):
        initialise_network(build_network(other), other, CPU)
    missing = config(tmp_path, model_prefix=prefix, load_epoch=1)
    with pytest.raises(ConfigError, match=r"load_epoch must be a parameter file that exists, got .*model-0001.params"):
        initialise_network(build_network(missing), missing, CPU)

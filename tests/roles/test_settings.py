"""Argument specifications, defaults and the trainer's own configuration say the same."""

import re
import subprocess
import sys

import pytest
import yaml
from playing import PROJECT, ROLES, TOOLS, environment

from trainer.config import Config

sys.path.insert(0, str(ROLES / "trainer" / "filter_plugins"))
from trainer_settings import trainer_settings  # noqa: E402

ROLE_NAMES = sorted(path.name for path in ROLES.iterdir())
FROM_DATA = {"run_directory", "data_train", "data_val", "tuning"}


def read(role, name):
    return yaml.safe_load((ROLES / role / name).read_text())


def options(role):
    """Of all entry points: they share one file of defaults."""
    points = read(role, "meta/argument_specs.yml")["argument_specs"].values()
    return {name: option for point in points for name, option in point.get("options", {}).items()}


def is_computed(value):
    return isinstance(value, str) and "{{" in value


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_defaults_and_specification_agree(role):
    defaults = read(role, "defaults/main.yml")
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert {name: value for name, value in defaults.items() if not is_computed(value)} == specified
    assert set(defaults) <= set(options(role))


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_required_settings_have_no_default_but_a_line_in_defaults(role):
    text = (ROLES / role / "defaults/main.yml").read_text()
    for name, option in options(role).items():
        if option.get("required"):
            assert f"# {name}:" in text


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_names_carry_the_role(role):
    assert all(name.startswith(f"{role}_") for name in options(role))


@pytest.mark.parametrize("role", ROLE_NAMES)
def test_readme_is_short(role):
    assert len((ROLES / role / "README.md").read_text().splitlines()) <= 40


def test_every_key_of_the_configuration_is_a_setting():
    own = set(read("trainer", "vars/main.yml")["__trainer_own_options"])
    assert own <= set(options("trainer"))
    assert set(options("trainer")) - own == {f"trainer_{key}" for key in set(Config.model_fields) - FROM_DATA}


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        ({"epochs": "3", "batch_size": "64"}, {"epochs": 3.0, "batch_size": 64}),
        ({"image_shape": "3,32,32"}, {"image_shape": [3, 32, 32]}),
        ({"weight_decay": "1e-4", "network": "resnet"}, {"weight_decay": 1e-4, "network": "resnet"}),
        ({"num_layers": "", "mean": None, "seed": 0}, {"seed": 0}),
        ({"devices": "cpu(0),cpu(1)"}, {"devices": ["cpu(0)", "cpu(1)"]}),
        ({"epochs": "many"}, {"epochs": "many"}),
        ({"checkpoint_interval": "auto"}, {"checkpoint_interval": "auto"}),
        ({"checkpoint_interval": "30"}, {"checkpoint_interval": 30.0}),
    ],
)
def test_text_from_the_command_line_gets_its_type(given, typed):
    assert trainer_settings(given, options("trainer")) == typed


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("trainer_dataset=/photos", "photos"),
        ("trainer_dataset=/photos/", "photos"),
        ("trainer_dataset=.", "called from here"),
        ("trainer_dataset=birds//", "birds"),
        ("trainer_dataset=/photos/v1.5", "v1.5"),
        ("trainer_dataset=fashion-mnist", "fashion-mnist"),
        ("trainer_data_train=/packed/birds.rec", "birds"),
        ("trainer_data_train=birds.rec/", "birds"),
    ],
)
def test_a_run_is_called_as_the_data(tmp_path, given, name):
    folder = tmp_path / "called from here"
    folder.mkdir()
    assert evaluate("{{ __trainer_name }}", given, folder) == name.replace(" ", "-")


def test_a_folder_is_one_data_set_however_it_is_typed(tmp_path):
    typed = ("trainer_dataset=photos", "trainer_dataset=./photos/", f"trainer_dataset={tmp_path}/photos")
    assert {evaluate("{{ __trainer_dataset }}", given, tmp_path) for given in typed} == {f"{tmp_path}/photos"}


def evaluate(expression, setting, folder):
    """What an expression gives in the role, with one setting, when the command is called in that folder."""
    command = [
        TOOLS / "ansible", "localhost", "-m", "debug", "-a", f"msg='{expression}'", "-e", "trainer_data_train=",
        "-e", f"@{ROLES}/trainer/vars/main.yml", "-e", setting,
    ]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=True)
    return yaml.safe_load(done.stdout.partition("=>")[2])["msg"]


def pins(name="requirements.txt"):
    lines = (PROJECT / name).read_text().splitlines()
    return [re.match(r"[\w.-]+", line).group() for line in lines if line and not line.startswith("#")]


def test_every_package_is_pinned_once_for_each_python():
    lines = (PROJECT / "requirements.txt").read_text().splitlines()
    stated = [line.split("#")[0].strip() for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r'[\w.-]+==[\w.]+(; python_version (<|>=) "3\.12")?', line) for line in stated)
    assert len({re.sub("==[^;]*", "", line) for line in stated}) == len(stated)


def test_the_two_environments_take_every_pin_and_nothing_else():
    control = re.search(r"need_control\(\) \{.*requirements.txt\" (.*); \}", (PROJECT / "kit").read_text()).group(1)
    mxnet = [re.match(r"[\w.-]+", line).group() for line in read("mxnet_runtime", "defaults/main.yml")[
        "mxnet_runtime_packages"]]
    assert set(control.split()) | set(mxnet) | {"uv"} == set(pins())

"""train.yml from the first run to the last: real roles, the real trainer, a tiny data set."""

import json
import os
import signal
import subprocess
import tomllib

import pytest
from playing import PROJECT, TOOLS, environment, play_command

from trainer.config import load


def changed(done):
    """The number of changed tasks in a play's recap."""
    return int(done.stdout.split("changed=")[1].split()[0])


def files_below(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    "playbook", ["train.yml", *(f"playbooks/{path.name}" for path in sorted((PROJECT / "playbooks").glob("*.yml")))]
)
def test_syntax(playbook):
    command = [TOOLS / "ansible-playbook", "--syntax-check", PROJECT / playbook]
    subprocess.run(command, env=environment(), check=True, capture_output=True)


def test_a_folder_of_pictures_becomes_a_finished_run(finished_run):
    folder, _, printed = finished_run
    report = json.loads((folder / "run/colours/report.json").read_text())
    assert report["finished"]
    assert report["epochs"] == 1
    assert f"{folder}/run/colours/report.html" in printed
    assert f"top-1 {report['top1']:.4f}" in printed


def test_progress_is_shown_while_the_task_runs(finished_run):
    _, _, printed = finished_run
    training = printed.split("TASK [trainer : Train")[1]
    assert training.index("starting") < training.index("training resnet8") < training.index("top-1")


def test_the_configuration_holds_what_was_asked_for_and_what_the_data_says(finished_run):
    folder, _, _ = finished_run
    path = folder / "run/colours/config.toml"
    values = tomllib.loads(path.read_text())
    assert (values["epochs"], values["batch_size"], values["num_classes"]) == (1, 12, 3)
    assert values["data_train"].startswith(f"{folder}/data/colours-")
    assert "mean" not in values
    assert load(path).run_directory == folder / "run/colours"


def test_a_second_run_changes_nothing_and_prints_the_result_again(finished_run):
    folder, arguments, _ = finished_run
    done = subprocess.run(play_command(folder, *arguments), env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert changed(done) == 0
    assert f"{folder}/run/colours/report.html" in done.stdout


def test_check_mode_on_a_finished_run_changes_and_announces_nothing(finished_run):
    folder, arguments, _ = finished_run
    before = files_below(folder)
    command = play_command(folder, *arguments, "--check")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert changed(done) == 0
    assert files_below(folder) == before


def test_check_mode_on_a_fresh_machine_changes_nothing(play, pictures, tmp_path):
    done = play("--check", "-e", f"trainer_dataset={pictures}", "-e", f"mxnet_runtime_venv={tmp_path}/mxnet")
    assert done.returncode == 0, done.stdout
    assert changed(done) >= 2
    assert files_below(tmp_path) == []


def test_paths_start_where_the_command_was_typed(finished_run):
    folder, _, _ = finished_run
    data = next((folder / "data").glob("colours-*"))
    (folder / "own-\N{OWL}").symlink_to(data)  # a character that TOML cannot have as JSON writes it
    arguments = ["trainer_data_train=own-\N{OWL}/train.rec", "trainer_data_val=own-\N{OWL}/val.rec",
                 "trainer_num_classes=3",
                 "trainer_epochs=1", "trainer_warmup_epochs=0", "trainer_run_name=records"]
    command = play_command(folder, *(part for value in arguments for part in ("-e", value)))
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert json.loads((folder / "run/records/report.json").read_text())["finished"]
    values = tomllib.loads((folder / "run/records/config.toml").read_text())
    assert values["data_train"] == f"{folder}/own-\N{OWL}/train.rec"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trainer_dataset=nowhere"], "{folder}/nowhere"),
        (["trainer_dataset=.", "trainer_python=/none"], "No such file or directory: b'/none'"),
        (["trainer_dataset="], "trainer_dataset must be a folder"),
        (["trainer_data_val=val.rec"], "trainer_dataset must be a folder"),
        (["trainer_epoch=3"], "Unknown settings: trainer_epoch"),
        (["trainer_epochs=many", "trainer_batch_size=few"], "trainer_epochs"),
        (["trainer_run_name=../elsewhere"], "trainer_run_name must be made of letters"),
        (["trainer_data_train=none.rec", "trainer_num_classes=3"], "{folder}/none.rec"),
        (["trainer_data_train=none.rec", "trainer_num_classes=1"], "num_classes must be a whole number from 2"),
        (["mxnet_runtime_venv=/mxnet"], "mxnet_runtime_venv must be"),
        (["trainer_power_off=true"], "trainer_power_off must be false unless trainer_service is true"),
        (['{"trainer_power_off": true, "trainer_service": true}'], "and trainer_checkpoint_mirror names a second"),
        (['{"trainer_price": {"zone": "us-west-2a"}}'], "trainer_price must have all of the keys"),
    ],
)
def test_bad_input_is_an_error_in_words(play, tmp_path, arguments, message):
    done = play(*(part for value in arguments for part in ("-e", value)))
    assert done.returncode == 2, done.stdout
    assert message.format(folder=tmp_path) in " ".join((done.stdout + done.stderr).split())


def test_all_settings_of_a_wrong_type_are_named_at_once(play):
    done = play("-e", "trainer_epochs=many", "-e", "trainer_batch_size=few")
    assert "trainer_epochs" in done.stdout
    assert "trainer_batch_size" in done.stdout


def test_a_picture_that_cannot_be_read_is_named_and_the_rest_is_packed(play, pictures, tmp_path):
    folder = tmp_path / "some"
    for name in ("blue", "green"):
        (folder / name).mkdir(parents=True)
        for picture in sorted((pictures / name).iterdir())[:20]:
            os.link(picture, folder / name / picture.name)
    (folder / "green" / "broken.jpg").write_bytes(b"no picture")
    done = play("-e", "trainer_dataset=some", "-e", "trainer_batch_size=8", "-e", "trainer_epochs=1",
                "-e", "trainer_warmup_epochs=0")
    assert done.returncode == 0, done.stdout
    assert "broken.jpg" in done.stdout


def start_play(folder, arguments):
    return subprocess.Popen(
        play_command(folder, *arguments), cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )


def train_until(folder, arguments, text):
    """Starts a play, sends its process group Ctrl-C twice at once when it prints `text`; its output and exit code."""
    running = start_play(folder, arguments)
    printed = ""
    for line in running.stdout:
        printed += line
        if text in line:
            os.killpg(running.pid, signal.SIGINT)
            os.killpg(running.pid, signal.SIGINT)
            break
    printed += running.stdout.read()
    return printed, running.wait()


def test_ctrl_c_leaves_a_checkpoint_and_the_same_command_continues(pictures, tmp_path):
    arguments = ["-e", f"trainer_dataset={pictures}", "-e", "trainer_epochs=5000", "-e", "trainer_batch_size=12"]
    printed, code = train_until(tmp_path, arguments, "validation after epoch")
    run = tmp_path / "run/colours"
    step = json.loads((run / "report.json").read_text())["steps"]
    assert code == 2
    assert f"Stopped at step {step}; its checkpoint is on disk" in " ".join(printed.split())
    assert (run / "checkpoints" / (run / "LATEST").read_text().strip()).is_dir()
    subprocess.run(["flock", "--nonblock", run / "lease.json", "true"], check=True)

    printed, _ = train_until(tmp_path, arguments, f"continuing at step {step}")
    assert json.loads((run / "report.json").read_text())["steps"] >= step


def test_a_second_play_finds_the_trainer_and_both_show_how_it_ends(pictures, tmp_path):
    arguments = ["-e", f"trainer_dataset={pictures}", "-e", "trainer_epochs=5000", "-e", "trainer_batch_size=12"]
    first = start_play(tmp_path, arguments)
    assert any("training resnet8" in line for line in first.stdout)
    printed, code = train_until(tmp_path, arguments, "validation after epoch")
    assert "already training (process" in printed
    first_printed, _ = first.communicate(timeout=60)
    assert code == first.returncode == 2
    step = json.loads((tmp_path / "run/colours/report.json").read_text())["steps"]
    for text in (printed, first_printed):
        assert f"Stopped at step {step}; its checkpoint is on disk" in " ".join(text.split())
    log = (tmp_path / "run/colours/trainer.log").read_text()
    assert log.count("training resnet8") == 1

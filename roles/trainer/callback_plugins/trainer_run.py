"""Ctrl-C while the trainer runs: lets the task stop it in order, where Ansible would drop the task and return.

A callback plugin, because only those run in ansible-playbook's own process, which is the one that gets the signal.
"""

import multiprocessing
import os
import signal
import sys

from ansible.plugins.callback import CallbackBase

SIGNALS = (signal.SIGINT, signal.SIGTERM)

DOCUMENTATION = """
name: trainer_run
type: aggregate
short_description: Hands Ctrl-C to the task that runs the trainer
description: While a C(trainer_run) task runs, SIGINT and SIGTERM go to it, once or as often as they come.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "trainer_run"

    def __init__(self):
        super().__init__()
        self._before = {}
        # Progress must be seen when it happens, in a log as on a terminal.
        sys.stdout.reconfigure(line_buffering=True)

    def v2_playbook_on_task_start(self, task, is_conditional):
        self._restore()
        if task.action == "trainer_run":
            self._before = {number: signal.signal(number, _hand_on) for number in SIGNALS}

    def v2_playbook_on_stats(self, stats):
        self._restore()

    def _restore(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


def _hand_on(number, _frame):
    for worker in multiprocessing.active_children():
        os.kill(worker.pid, number)

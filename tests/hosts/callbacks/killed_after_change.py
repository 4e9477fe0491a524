"""The controller dies once a task has changed something: what the next play must not be hurt by."""

import os
import sys

from ansible.plugins.callback import CallbackBase

EXIT_CODE = 9


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "killed_after_change"

    def v2_runner_on_ok(self, result):
        if result.is_changed():
            sys.stdout.flush()
            os._exit(EXIT_CODE)

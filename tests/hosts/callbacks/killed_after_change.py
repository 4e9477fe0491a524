"""The controller dies once KILLED_AFTER_CHANGES tasks have changed something, which must not hurt the next play."""

import os
import sys

from ansible.plugins.callback import CallbackBase

EXIT_CODE = 9


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "killed_after_change"

    def __init__(self):
        super().__init__()
        self.left = int(os.environ["KILLED_AFTER_CHANGES"])

    def v2_runner_on_ok(self, result):
        self.left -= result.is_changed()
        if self.left == 0:
            sys.stdout.flush()
            os._exit(EXIT_CODE)

"""Takes a step at AWS and waits for it: calls a module again and again, and shows what it waits for.

The module looks once, does what can be done now and returns at once: `waiting_for` in words while there is more to
come, and `next`, the arguments that the next look needs to know. A task that waits in a module shows nothing.
"""

import time

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

display = Display()


class ActionModule(ActionBase):
    """Arguments: module, arguments, attempt (in words), timeout_seconds, poll_seconds."""

    _VALID_ARGS = frozenset(("module", "arguments", "attempt", "timeout_seconds", "poll_seconds"))

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self._task_vars = task_vars
        step, arguments, changed, shown = self._task.args, dict(self._task.args["arguments"]), False, None
        deadline = time.monotonic() + float(step["timeout_seconds"])
        while True:
            look = self._look(arguments)
            changed = changed or look.get("changed", False)
            waiting = look.get("waiting_for")
            if look.get("failed") or not waiting or self._task.check_mode:
                return result | look | {"changed": changed}
            if waiting != shown:
                display.display(f"  {task_vars['inventory_hostname']}: {waiting}")
            shown = waiting
            if time.monotonic() >= deadline:
                message = f"Failed to {step['attempt']}: waited {step['timeout_seconds']} s; {waiting}"
                return result | look | {"changed": changed, "failed": True, "msg": message}
            arguments |= look.get("next", {})
            time.sleep(float(step["poll_seconds"]))

    def _look(self, arguments):
        return self._execute_module(
            module_name=self._task.args["module"], module_args=arguments, task_vars=self._task_vars
        )

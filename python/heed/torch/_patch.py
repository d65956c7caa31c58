"""heed's kernels in the place of torch's."""
import contextlib
import pathlib
import warnings
from typing import NamedTuple

import torch  # type: ignore[import-not-found,unused-ignore]

from .. import _heed

_LIBRARY = str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")
_patches = 0


class Calls(NamedTuple):
    """Calls that ran in heed's kernels, since the process began."""

    forward: int
    backward: int


class Patch:
    """What patch() returns: leaving its with block takes the patch back."""

    def __enter__(self) -> "Patch":
        return self

    def __exit__(self, *_: object) -> None:
        unpatch()


def use_torch_threads() -> None:
    """Lets heed compute torch's tensors on torch's threads from now on, so that no second pool competes with them.

    A torch without them in its C interface leaves them to heed's.
    """
    with contextlib.suppress(_heed.UsageError):
        _heed.torch_use_threads(_LIBRARY)


def patch() -> Patch:
    """Lets torch's scaled_dot_product_attention on the CPU run in heed's kernels, forward and backward.

        with heed.torch.patch():
            model(x).loss.backward()

    or patch() and later unpatch(). Replaced are the two kernels of aten that torch chooses for query, key and value of
    four dimensions with equal head sizes and no dropout, eagerly and under torch.compile, in the whole process and all
    its threads. They run on torch's threads. Patches nest: the last one to go takes the kernels out, and torch's own
    are as they were. Needs torch 2.10 or newer: raises RuntimeError on others.
    """
    global _patches
    if _patches == 0:
        _install()
    _patches += 1
    return Patch()


def _install() -> None:
    """Without torch's warning, once in a process, that a kernel is replaced, which is what was asked for. torch prints
    it unless Python's warnings are in force, and these are in force inside a method of a tensor."""
    def install(x: float) -> float:
        _heed.torch_install(_LIBRARY)
        return x
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.zeros(1, device="cpu").apply_(install)


def unpatch() -> None:
    """Takes one patch() back. Raises RuntimeError where there is none."""
    global _patches
    if _patches == 0:
        raise RuntimeError("unpatch: there is no patch; call patch() before")
    _patches -= 1
    if _patches == 0:
        _heed.torch_uninstall()


def patched_calls() -> Calls:
    """How many calls ran in heed's kernels, since the process began."""
    return Calls(*_heed.torch_calls())

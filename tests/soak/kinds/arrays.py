"""Array dictionaries and DLPack capsules with wrong values: refused with an error, never a crash."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.soak import mutate
from tests.soak.unit import ROOT, Kind, Unit

CUDA_FAKE = ROOT / "build" / "dev" / "tests" / "fakes" / "cuda" / "libcuda_fake.so"

# Errors that an importer may raise for what somebody else's object says. MemoryError and SystemError are none.
REFUSALS = (
    TypeError,
    ValueError,
    BufferError,
    AttributeError,
    NotImplementedError,
    OverflowError,
    LookupError,
    OSError,
)


class _Raises:
    def __index__(self) -> int:
        raise ValueError("no index today")

    __int__ = __float__ = __len__ = __iter__ = __bool__ = __index__  # type: ignore[assignment]


class _Tuple(tuple):
    """Another length each time it is asked."""

    def __len__(self) -> int:
        return random.randrange(4)


def _odd_value(draws: random.Random, depth: int = 0) -> Any:
    simple: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: True,
        lambda: mutate.number(draws),
        lambda: -mutate.number(draws),
        lambda: 1 << 200,
        lambda: draws.choice((0.5, float("nan"), float("inf"))),
        lambda: draws.choice(("", "<f4", ">f8", "|V8", "<U3", "|O", "<f3", "<i16", "\0", "x" * 5000, "\ud800", "<b1")),
        lambda: draws.choice((b"", b"<f4", bytearray(8), memoryview(b"abc"))),
        lambda: np.int64(draws.randrange(8)),
        lambda: np.zeros(3),
        _Raises,
        object,
        lambda: Ellipsis,
    )
    if depth < 3 and draws.random() < 0.35:
        items = [_odd_value(draws, depth + 1) for _ in range(draws.randrange(5))]
        return draws.choice((tuple, list, _Tuple, lambda items: dict(enumerate(items))))(items)
    return draws.choice(simple)()


def _changed(draws: random.Random, original: dict[str, Any]) -> dict[Any, Any]:
    """The dictionary with one or two members changed a little or replaced, left out, or others put in."""
    told: dict[Any, Any] = dict(original)
    for _ in range(draws.choice((1, 1, 2))):
        name = draws.choice([*original, "descr", "mask", "stream", "offset", "strides", "unknown"])
        draw = draws.random()
        if draw < 0.1:
            told.pop(name, None)
        elif draw < 0.5 and type(told.get(name)) is tuple and told[name]:
            items = list(told[name])
            items[draws.randrange(len(items))] = _odd_value(draws)
            told[name] = tuple(items)
        else:
            told[name] = _odd_value(draws)
    return told


def _look_at(tensor: Any) -> None:
    """What it says, and what it says to others; its elements stay untouched, for nobody knows where they are."""
    _ = tensor.shape, tensor.strides, tensor.dtype, tensor.device
    for name in ("__array_interface__", "__cuda_array_interface__", "__sycl_usm_array_interface__"):
        with contextlib.suppress(*REFUSALS):
            getattr(tensor, name)
    with contextlib.suppress(*REFUSALS):
        tensor.__dlpack__(max_version=(1, 1))


def _try(unit: Unit, take: Callable[[], Any]) -> None:
    unit.count("objects")
    try:
        tensor = take()
    except REFUSALS:
        unit.count("refused by name")
        return
    except Exception as error:
        unit.finding(f"{type(error).__name__} for an object with wrong values: {error}")
        return
    unit.count("taken")
    _look_at(tensor)


def _take_right(unit: Unit, what: str, take: Callable[[], Any]) -> None:
    """One that nothing was changed in: were it refused, the changed ones would be refused for another reason."""
    try:
        shape = take().shape
    except Exception as error:
        unit.finding(f"{type(error).__name__} for a right {what}: {error}")
        return
    if shape != (2, 3):
        unit.finding(f"a right {what} was taken with shape {shape}")
    unit.count("right ones taken")


def _double_missing() -> str | None:
    return None if CUDA_FAKE.exists() else f"{CUDA_FAKE.relative_to(ROOT)} isn't built"


def _memory_of_the_double(size: int) -> int:
    """The address of memory of the fake's first device."""
    from tests.cuda_fake_cases.cuda_array import Cuda

    address = ctypes.c_void_p()
    Cuda().on(0, "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
    assert address.value is not None
    return address.value


def dictionaries(unit: Unit) -> None:
    os.environ["CROSSDOCK_CUDA_LIBRARY"] = str(CUDA_FAKE)
    from tests.exporter_samples import usm

    import crossdock as xd

    memory = np.arange(4096, dtype="f4")
    base = {"shape": (2, 3), "typestr": "<f4", "data": (memory.ctypes.data, False), "version": 3, "strides": (12, 4)}
    cuda = {**base, "stream": None, "data": (_memory_of_the_double(memory.nbytes), False)}
    names: tuple[tuple[str, dict[str, Any]], ...] = (
        ("__array_interface__", base),
        ("__cuda_array_interface__", cuda),
        ("__sycl_usm_array_interface__", {**base, "strides": (3, 1), "version": 1, "offset": 0, "syclobj": usm.CPU}),
    )
    for name, original in names[:2]:  # SYCL's needs a run time
        thing = type("Thing", (), {name: original})()
        _take_right(unit, name, lambda thing=thing: xd.asarray(thing))  # type: ignore[misc]
    for _ in unit.rounds("refused by name", "taken"):
        for _ in range(200):
            name, original = unit.random.choice(names)
            told = _changed(unit.random, original)
            if unit.random.random() < 0.05:
                told = _odd_value(unit.random)
            thing = type("Thing", (), {name: told})()
            ways: list[Callable[[], Any]] = [lambda thing=thing: xd.asarray(thing)]
            if name == "__cuda_array_interface__":
                ways.append(lambda told=told: xd.from_cuda_array_interface(told))
            if name == "__sycl_usm_array_interface__":
                ways.append(lambda told=told: xd.from_sycl_usm_array_interface(told))
            _try(unit, unit.random.choice(ways))


def dlpack(unit: Unit) -> None:
    from tests.exporter_samples import capsules, tensors

    import crossdock as xd

    draws = unit.random

    class Mutated(tensors.Tensor):
        """Long lists of lengths and steps behind it, so that a wrong `ndim` leads to memory of ours."""

        def tensor(self, raw: Any) -> None:
            lengths, steps = (ctypes.c_int64 * 128)(2, 3), (ctypes.c_int64 * 128)(3, 1)
            self.keep = lengths, steps
            raw.shape, raw.strides = ctypes.addressof(lengths), ctypes.addressof(steps)
            for _ in range(draws.choice((1, 1, 2))):
                self.change(raw, lengths, steps)

        def change(self, raw: Any, lengths: Any, steps: Any) -> None:
            what = draws.choice(
                ("ndim", "code", "bits", "lanes", "device", "offset", "length", "step", "shape", "data")
            )
            if what == "ndim":
                raw.ndim = draws.choice((-1, 0, 1, 3, 31, 32, 33, 64, 65, 127, -(1 << 31)))
            elif what in ("code", "bits", "lanes"):
                setattr(raw, what, draws.randrange(300))
            elif what == "device":
                raw.device_type, raw.device_id = draws.randrange(-1, 20), draws.choice((0, 1, -1, 1 << 30))
            elif what == "offset":
                raw.byte_offset = mutate.number(draws)
            elif what in ("length", "step"):
                value = ctypes.c_int64(mutate.number(draws)).value
                (lengths if what == "length" else steps)[draws.randrange(3)] = value
            elif what == "shape":
                raw.shape = draws.choice((None, raw.shape))
                raw.strides = None
            else:
                raw.data = draws.choice((None, 1, 8, (1 << 64) - 8))

        def managed(self, raw: Any) -> None:
            if draws.random() < 0.1 and hasattr(raw, "major"):
                raw.major, raw.minor = draws.randrange(4), draws.getrandbits(32)
            if draws.random() < 0.1 and hasattr(raw, "flags"):
                raw.flags = draws.getrandbits(64)

    def mutated() -> Any:
        one = Mutated()
        if draws.random() < 0.1:
            one.names = (draws.choice((b"dltensor", b"used_dltensor", b"x")), b"dltensor_versioned")
        if draws.random() < 0.1:
            one.device = _odd_value(draws)
        return one

    _take_right(unit, "capsule", lambda: xd.from_dlpack(tensors.Tensor()))
    for _ in unit.rounds("refused by name", "taken"):
        for _ in range(100):
            one = mutated()
            _try(unit, draws.choice((lambda one=one: xd.from_dlpack(one), lambda one=one: xd.asarray(one))))
        capsules.ALIVE.clear()


WORKS = ("objects", "refused by name", "taken", "right ones taken")
KINDS = [
    Kind("dictionaries", "mutated array dictionaries of NumPy, CUDA and SYCL", dictionaries, WORKS, _double_missing),
    Kind("dlpack", "DLPack capsules with wrong values", dlpack, WORKS),
]

"""Classes in Python that borrow from C types: descriptors, tables of C functions, names. Each test runs in a process of
its own, as a C function that is called with the wrong object crashes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

PRELUDE = """
import numpy as np
import crossdock as xd

class Proxy:
    def __init__(self, of):
        self.of = of
    def __dlpack__(self, **keywords):
        return self.of.__dlpack__(**keywords)
    def __dlpack_device__(self):
        return self.of.__dlpack_device__()

def outcome(call, *arguments):
    try:
        call(*arguments)
    except (TypeError, ValueError, BufferError) as error:
        return type(error).__name__, "doesn't apply" in str(error)
    return "taken"
"""


def printed(script: Any, body: str) -> list[str]:
    out: str = script(PRELUDE + body).finish()
    return out.splitlines()


@pytest.mark.long
def test_a_borrowed_method_is_called_by_python(script: Any) -> None:
    said = printed(
        script,
        """
import torch
for name, method in [
    ("is_neg", torch.Tensor.is_neg),
    ("is_conj", torch.Tensor.is_conj),
    ("is_neg", bytes.isdigit),
    ("is_conj", dict.keys),
]:
    borrower = type("Borrower", (Proxy,), {name: method})
    for consumer in (xd.asarray, xd.from_dlpack):
        print(outcome(consumer, borrower(np.zeros(3, "c16"))))
""",
    )
    assert said == ["('TypeError', True)"] * 8


@pytest.mark.long
def test_a_borrowed_attribute_is_read_by_python(script: Any) -> None:
    said = printed(
        script,
        """
import torch
for attribute in (torch.Tensor.requires_grad, np.ndarray.T, type.__dict__["__dict__"]):
    for table in (torch.Tensor, xd.Tensor):
        entries = {"requires_grad": attribute, "__dlpack_c_exchange_api__": table.__dlpack_c_exchange_api__}
        print(outcome(xd.asarray, type("Borrower", (Proxy,), entries)(np.zeros(3))))
""",
    )
    assert said == ["('TypeError', True)"] * 6


@pytest.mark.long
def test_a_borrowed_table_refuses(script: Any) -> None:
    said = printed(
        script,
        """
import torch
for table in (torch.Tensor, xd.Tensor):
    entries = {"__dlpack_c_exchange_api__": table.__dlpack_c_exchange_api__}
    print(outcome(xd.asarray, type("Borrower", (Proxy,), entries)(np.zeros(3))))
""",
    )
    assert said == ["('ExportError', False)", "('TypeError', False)"]


def test_a_proxy_that_answers_for_itself_is_taken(script: Any) -> None:
    said = printed(
        script,
        """
Proxy.is_neg = lambda self: False
Proxy.requires_grad = property(lambda self: False)
print(xd.asarray(Proxy(np.arange(3.0))).tolist())
""",
    )
    assert said == ["[0.0, 1.0, 2.0]"]


@pytest.mark.long
def test_a_torch_class_made_in_python_is_taken(script: Any) -> None:
    said = printed(
        script,
        """
import torch
class Named(torch.Tensor):
    pass
source = torch.arange(3.0).as_subclass(Named)
tensor = xd.asarray(source)
print(tensor.tolist(), tensor.pointer == source.data_ptr())
print(outcome(xd.asarray, torch._neg_view(torch.arange(3.0)).as_subclass(Named)))
print(outcome(xd.asarray, torch.zeros(3, requires_grad=True).as_subclass(Named)))
""",
    )
    assert said == ["[0.0, 1.0, 2.0] True", "('ExportError', False)", "('ExportError', False)"]


def test_a_class_that_is_being_made(script: Any) -> None:
    """While a metaclass's mro() runs the class has no order of its bases."""
    said = printed(
        script,
        """
class Meta(type):
    def mro(cls):
        print(outcome(xd.DType, cls), outcome(xd.empty, 3, cls))
        return super().mro()
class Made(metaclass=Meta):
    pass
""",
    )
    assert said == ["('InvalidArgumentError', False) ('InvalidArgumentError', False)"]


# ---- SYCL's objects ------------------------------------------------------------------------------------------------

SYCL = """
import dpctl
import dpctl.memory as dpm
"""


@pytest.fixture
def sycl(script: Any) -> Any:
    dpctl = pytest.importorskip("dpctl")
    if not dpctl.get_devices():
        pytest.skip("SYCL has no devices here")
    return lambda body: printed(script, SYCL + body)


def test_a_class_that_has_the_name_alone(sycl: Any) -> None:
    said = sycl("""
for module, name in [("_sycl_queue", "SyclQueue"), ("_sycl_context", "SyclContext"), ("_sycl_device", "SyclDevice")]:
    for prefix in ("", "_"):
        entries = {"addressof_ref": lambda self: 4096, "parent_device": object()}
        fake = type(f"dpctl.{module}.{prefix}{name}", (), entries)()
        class Exporter:
            __sycl_usm_array_interface__ = {
                "data": (4096, False), "shape": (1,), "typestr": "|u1", "version": 1, "syclobj": fake,
            }
        print(outcome(xd.Queue, fake)[0], outcome(xd.asarray, Exporter())[0])
""")
    assert said == ["TypeError InvalidDataError"] * 6


def test_an_address_that_a_derived_class_says_isnt_believed(sycl: Any) -> None:
    said = sycl("""
def lies(base):
    return type("Lies", (base,), {"addressof_ref": lambda self: 4096})
device = dpctl.SyclDevice()
for one in (lies(dpctl.SyclQueue)(device), lies(dpctl.SyclContext)(device), lies(dpctl.SyclDevice)()):
    queue = xd.Queue(one)
    print(xd.empty(2, "u1", queue=queue).queue == queue)
""")
    assert said == ["True"] * 3


@pytest.mark.parametrize("module_there", [True, False])
def test_a_class_that_has_the_name_of_dpnps_array(sycl: Any, module_there: bool) -> None:
    pytest.importorskip("dpnp")
    said = sycl(f"""
import sys, types
import dpnp.tensor._usmarray as real
size = real.usm_ndarray.__basicsize__
slots = ["a%d" % i for i in range((size - object.__basicsize__) // 8)]
Fake = type("dpnp.tensor._usmarray.usm_ndarray", (), {{"__slots__": slots}})
assert Fake.__basicsize__ == size
if {module_there!r}:
    module = types.ModuleType("dpnp.tensor._usmarray")
    module.usm_ndarray = Fake
    module.__pyx_capi__ = real.__pyx_capi__
    sys.modules[module.__name__] = module
fake = Fake()
for slot in slots:
    setattr(fake, slot, dpm.MemoryUSMShared(64))
print(outcome(xd.asarray, fake)[0])
""")
    assert said == ["UnsupportedTypeError"]

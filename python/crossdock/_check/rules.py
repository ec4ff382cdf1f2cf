"""All rules of the checker: name, severity, section of the specification, and a line that says what the rule demands.

docs/how-to/check.md shows this table, and a test ensures that both are the same.
"""

from __future__ import annotations

from typing import NamedTuple

from crossdock._check.report import Severity


class Rule(NamedTuple):
    section: str
    asks: str
    severity: Severity = "error"


_C = "Arrow C data interface"
_S = "Arrow C stream interface"
_D = "Arrow C Device data interface"
_P = "Arrow PyCapsule interface"
_DL = "DLPack 1.3, dlpack.h"
_DA = "Python array API standard, __dlpack__"
_X = "DLPack 1.3, DLPackExchangeAPI"
_CAI = "CUDA Array Interface 3"
_AI = "NumPy array interface 3"
_USM = "SYCL USM array interface"
_B = "Python buffer protocol"
_ONE = "Crossdock, one array in every protocol"
_BEYOND = "Crossdock, read-only in every protocol"

RULES: dict[str, Rule] = {
    # ---- Arrow: capsules and calls
    "arrow-raises": Rule(f"{_P}: Export Protocol", "each method accepts the arguments of the specification"),
    "arrow-refuses": Rule(
        f"{_P}: Export Protocol", "the method exports the data; data of a method that raises isn't checked", "note"
    ),
    "arrow-capsule-type": Rule(f"{_P}: PyCapsule Standard", "methods return PyCapsules, in the specified number"),
    "arrow-capsule-name": Rule(f"{_P}: PyCapsule Standard", "each capsule has the name of its structure"),
    "arrow-capsule-released": Rule(f"{_C}: Released structure", "an exported structure isn't released yet"),
    "arrow-capsule-leaks": Rule(f"{_P}: Lifetime Semantics", "an unused capsule releases its structure"),
    "arrow-capsule-releases-moved": Rule(
        f"{_P}: Lifetime Semantics", "a capsule whose structure was consumed releases nothing"
    ),
    "arrow-released-twice": Rule(f"{_C}: Release callback semantics", "release is called once"),
    "arrow-requested-schema": Rule(
        f"{_P}: Schema Requests", "requested_schema is accepted; the object's own schema can always be requested"
    ),
    "arrow-unknown-keyword": Rule(
        f"{_P}: Device Support", "an unknown keyword that isn't None raises NotImplementedError; None is accepted"
    ),
    "arrow-struct-memory": Rule(f"{_C}: Structure definitions", "structures, and the arrays in them, can be read"),
    # ---- Arrow: ArrowSchema
    "arrow-schema-format": Rule(
        f"{_C}: Data type description", "format is one of the format strings in the specification"
    ),
    "arrow-schema-name": Rule(f"{_C}: ArrowSchema.name", "name is null or UTF-8"),
    "arrow-schema-metadata": Rule(
        f"{_C}: ArrowSchema.metadata",
        "metadata is the number of pairs; then, for each pair, "
        "the key's length, the key, the value's length and the value",
    ),
    "arrow-schema-flags": Rule(
        f"{_C}: ArrowSchema.flags", "flags are the three in the specification, each on its type", "warning"
    ),
    "arrow-schema-children": Rule(
        f"{_C}: ArrowSchema.n_children",
        "a type has as many children as it must; a schema has 65,536 fields in 64 levels at most",
    ),
    "arrow-schema-dictionary": Rule(f"{_C}: ArrowSchema.dictionary", "the format of a dictionary's indices is integer"),
    "arrow-schema-differs": Rule(f"{_P}: Export Protocol", "every method of an object has the same schema"),
    # ---- Arrow: ArrowArray
    "arrow-array-length": Rule(f"{_C}: ArrowArray.length", "length and offset are not negative and don't overflow"),
    "arrow-array-null-count": Rule(f"{_C}: ArrowArray.null_count", "null_count is -1 or agrees with the bitmap"),
    "arrow-array-n-buffers": Rule(f"{_C}: ArrowArray.n_buffers", "n_buffers is the number of buffers of the type"),
    "arrow-array-children": Rule(f"{_C}: ArrowArray.n_children", "children are those of the schema, and long enough"),
    "arrow-array-dictionary": Rule(
        f"{_C}: ArrowArray.dictionary", "a dictionary is present exactly where the schema has one"
    ),
    "arrow-child-released": Rule(f"{_C}: Released structure", "no child is released when its parent is exported"),
    "arrow-buffer-null": Rule(
        f"{_C}: ArrowArray.buffers", "a buffer is null only as a bitmap without nulls, or where it has no bytes"
    ),
    "arrow-buffer-memory": Rule(f"{_C}: ArrowArray.buffers", "buffers of the CPU are as large as their lengths say"),
    "arrow-buffer-alignment": Rule(f"{_C}: ArrowArray.buffers", "buffers are aligned for their type", "note"),
    "arrow-offsets": Rule(
        "Arrow columnar format: Variable-size layouts", "offsets rise from 0 on, and end within the child"
    ),
    "arrow-type-ids": Rule("Arrow columnar format: Union layout", "type ids are those of the format string"),
    "arrow-run-ends": Rule("Arrow columnar format: Run-End Encoded layout", "run ends rise and reach the length"),
    "arrow-views": Rule("Arrow columnar format: View layouts", "views are inside their buffers"),
    "arrow-dictionary-index": Rule(
        "Arrow columnar format: Dictionary-encoded layout", "indices are inside the dictionary"
    ),
    # ---- Arrow: release
    "arrow-release-unmarked": Rule(
        f"{_C}: Release callback semantics",
        "release sets the release member to null, also after the structure was moved",
    ),
    "arrow-release-children": Rule(
        f"{_C}: Release callback semantics", "release calls the children's release, and that of the dictionary"
    ),
    "arrow-relocatable": Rule(f"{_C}: Moving an array", "no pointer of a structure points into the structure"),
    "arrow-moved-child": Rule(f"{_C}: Moving child arrays", "a child moved out outlives its parent's release"),
    "arrow-lifetime": Rule(f"{_C}: Memory management", "exported memory doesn't change when the object is destroyed"),
    # ---- Arrow: streams
    "arrow-stream-callbacks": Rule(f"{_S}: Structure definition", "all four callbacks are present"),
    "arrow-stream-error": Rule(f"{_S}: get_next", "the stream can be read", "warning"),
    "arrow-stream-error-code": Rule(f"{_S}: Error handling", "an error's code is a positive errno"),
    "arrow-stream-error-text": Rule(f"{_S}: get_last_error", "the text of an error is null or a UTF-8 string"),
    "arrow-stream-batch-lifetime": Rule(f"{_S}: Result lifetimes", "batches outlive their stream's release"),
    "arrow-stream-consumed": Rule(
        f"{_P}: ArrowStream Export",
        "the object can be read again after one stream was read; else pass a factory to the checker",
        "note",
    ),
    # ---- Arrow: devices
    "arrow-device-type": Rule(f"{_D}: ArrowDeviceType", "device_type is a number in the specification, or in DLPack's"),
    "arrow-device-id": Rule(f"{_D}: ArrowDeviceArray.device_id", "device_id of the CPU is -1", "note"),
    "arrow-device-event": Rule(f"{_D}: ArrowDeviceArray.sync_event", "sync_event is null for the CPU"),
    "arrow-device-event-memory": Rule(
        f"{_D}: ArrowDeviceArray.sync_event", "sync_event points to an event, or is null"
    ),
    "arrow-device-event-handle": Rule(
        f"{_D}: ArrowDeviceArray.sync_event", "the library of the device accepts the event"
    ),
    "arrow-device-reserved": Rule(f"{_D}: ArrowDeviceArray.reserved", "the reserved bytes are zero"),
    "arrow-device-stream-type": Rule(
        f"{_D}: ArrowDeviceArrayStream.device_type", "all arrays are of the stream's device"
    ),
    "arrow-cpu-method": Rule(
        f"{_P}: Device Support", "__arrow_c_array__ and __arrow_c_stream__ export memory of the CPU, or raise"
    ),
    # ---- DLPack
    "dlpack-methods": Rule(
        f"{_DA}: Syntax for data interchange", "an object has both __dlpack__ and __dlpack_device__, or neither"
    ),
    "dlpack-raises": Rule(f"{_DA}: Raises", "__dlpack__ without arguments exports, or raises BufferError"),
    "dlpack-error-kind": Rule(f"{_DA}: Raises", "an array that can't be exported raises BufferError", "warning"),
    "dlpack-device-result": Rule("Python array API standard, __dlpack_device__", "it gives a tuple of two integers"),
    "dlpack-device-number": Rule(f"{_DL}: DLDeviceType", "the device's type is one in the specification"),
    "dlpack-device-id": Rule(
        f"{_DL}: DLDevice.device_id", "device_id is 0 for memory of the CPU, pinned and managed memory"
    ),
    "dlpack-device-differs": Rule(f"{_DL}: DLTensor.device", "the tensor's device is that of __dlpack_device__"),
    "dlpack-keywords": Rule(f"{_DA}: Parameters", "stream, max_version, dl_device and copy are accepted", "warning"),
    "dlpack-capsule-type": Rule("DLPack, Python Specification", "__dlpack__ gives a PyCapsule"),
    "dlpack-capsule-name": Rule("DLPack, Python Specification", "it is named dltensor or dltensor_versioned"),
    "dlpack-max-version": Rule(
        f"{_DA}: max_version", "without max_version, or below 1.0, no versioned tensor is given"
    ),
    "dlpack-versioned": Rule(f"{_DA}: max_version", "a request for 1.0 or later gives a versioned tensor", "warning"),
    "dlpack-version": Rule(f"{_DL}: DLPackVersion", "the version of a versioned tensor is 1.x"),
    "dlpack-struct-memory": Rule(f"{_DL}: DLManagedTensor", "the structure, its shape and its strides can be read"),
    "dlpack-capsule-leaks": Rule("DLPack, Python Specification", "an unused capsule calls the deleter, once"),
    "dlpack-capsule-deletes-used": Rule(
        "DLPack, Python Specification", "a capsule that was renamed to used_... calls no deleter"
    ),
    "dlpack-capsule-shared": Rule("DLPack, Python Specification", "each call gives a tensor of its own"),
    "dlpack-ndim": Rule(f"{_DL}: DLTensor.ndim", "ndim is not negative"),
    "dlpack-shape": Rule(f"{_DL}: DLTensor.shape", "shape is present, not negative, and doesn't overflow"),
    "dlpack-strides-null": Rule(f"{_DL}: DLTensor.strides", "strides are not null since 1.2"),
    "dlpack-strides-null-before": Rule(
        f"{_DL}: DLTensor.strides", "strides should not be null before 1.2, too", "note"
    ),
    "dlpack-dtype": Rule(f"{_DL}: DLDataType", "code, bits and lanes fit together"),
    "dlpack-null-data": Rule(f"{_DL}: DLTensor.data", "data is null only for size zero"),
    "dlpack-zero-size": Rule(f"{_DL}: DLTensor.data", "data is null for size zero", "warning"),
    "dlpack-extent": Rule(f"{_DL}: DLTensor.byte_offset", "the first and the last byte have addresses"),
    "dlpack-memory": Rule(f"{_DL}: DLTensor.data", "memory of the CPU can be read"),
    "dlpack-flags": Rule(
        f"{_DL}: DLManagedTensorVersioned.flags", "flags are those in the specification, where they are allowed"
    ),
    "dlpack-copied-flag": Rule(f"{_DA}: copy", "the copied flag is set for copies, and for nothing else"),
    "dlpack-copy-true": Rule(f"{_DA}: copy", "copy=True gives other memory each time"),
    "dlpack-copy-false": Rule(f"{_DA}: copy", "copy=False shares the memory, or raises BufferError"),
    "dlpack-dl-device": Rule(f"{_DA}: dl_device", "the tensor is on the requested device"),
    "dlpack-dl-device-error": Rule(f"{_DA}: dl_device", "a device that isn't available raises BufferError"),
    "dlpack-dl-device-own": Rule(f"{_DA}: dl_device", "its own device, that of __dlpack_device__, can be requested"),
    "dlpack-stream-zero": Rule(f"{_DA}: stream", "0 is refused for CUDA; 1 and 2 for ROCm"),
    "dlpack-stream-negative": Rule(f"{_DA}: stream", "a number below -1 is refused"),
    "dlpack-stream-taken": Rule(f"{_DA}: stream", "None and -1 are accepted, and 1 and 2 for CUDA"),
    "dlpack-stream-cpu": Rule(f"{_DA}: stream", "a device without streams accepts only None", "warning"),
    "dlpack-legacy-readonly": Rule(
        "DLPack 1.0, DLPACK_FLAG_BITMASK_READ_ONLY",
        "read-only memory is exported as a versioned tensor only, because the unversioned one has no read-only flag",
    ),
    "dlpack-lifetime": Rule(f"{_DL}: DLManagedTensor", "exported memory doesn't change when the object is destroyed"),
    # ---- DLPack's C exchange API
    "exchange-on-type": Rule(f"{_X}", "the attribute is on the type, the same for every object"),
    "exchange-capsule": Rule(f"{_X}", "it is a PyCapsule named dlpack_exchange_api"),
    "exchange-version": Rule(f"{_X}Header.version", "the version is 1.x, and 1.3 or later"),
    "exchange-functions": Rule(f"{_X}", "all functions except dltensor_from_py_object_no_sync are present"),
    "exchange-tensor": Rule(f"{_X}: managed_tensor_from_py_object_no_sync", "it gives the tensor of __dlpack__"),
    "exchange-dltensor": Rule(f"{_X}: dltensor_from_py_object_no_sync", "it gives the tensor of __dlpack__"),
    "exchange-stream": Rule(f"{_X}: current_work_stream", "it returns 0; for the CPU it gives no stream"),
    "exchange-allocator": Rule(f"{_X}: managed_tensor_allocator", "it gives a tensor like its prototype"),
    "exchange-to-object": Rule(f"{_X}: managed_tensor_to_py_object_no_sync", "it gives an object of the right type"),
    # ---- CUDA Array Interface
    "cai-raises": Rule(f"{_CAI}: Python Interface Specification", "the attribute can be read"),
    "cai-dict": Rule(f"{_CAI}: Python Interface Specification", "the attribute is a dict"),
    "cai-missing": Rule(f"{_CAI}: Python Interface Specification", "shape, typestr, data and version are present"),
    "cai-shape": Rule(f"{_CAI}: shape", "shape is a tuple of 64 integers at most, none of them negative"),
    "cai-typestr": Rule(
        f"{_CAI}: typestr",
        "typestr is byte order (< or >, a bar for none), kind and size in bytes, as in <f4; no Python objects",
    ),
    "cai-data": Rule(f"{_CAI}: data", "data is a tuple of the address, an int, and the read-only flag, a bool"),
    "cai-version": Rule(f"{_CAI}: version", "version is an integer from 0 to 3"),
    "cai-strides": Rule(f"{_CAI}: strides", "strides are None or a tuple of as many integers as shape has"),
    "cai-strides-contiguous": Rule(f"{_CAI}: strides", "from version 2 on, strides of a C-contiguous array are None"),
    "cai-zero-size": Rule(f"{_CAI}: data", "from version 2 on, the pointer is 0 for size zero"),
    "cai-null-pointer": Rule(f"{_CAI}: data", "the pointer is 0 only for size zero"),
    "cai-extent": Rule(f"{_CAI}: strides", "the first and the last byte have addresses"),
    "cai-stream-zero": Rule(f"{_CAI}: stream", "stream is not 0"),
    "cai-stream": Rule(f"{_CAI}: stream", "stream is None or a positive integer"),
    "cai-descr": Rule(
        f"{_CAI}: descr", "descr is a list of (name, type[, shape]) of the size of typestr, with fields for kind V only"
    ),
    "cai-mask": Rule(f"{_CAI}: mask", "mask is None, or exports the interface itself, in a shape that fits"),
    # ---- NumPy array interface
    "array-raises": Rule(f"{_AI}: __array_interface__", "the attribute can be read"),
    "array-dict": Rule(f"{_AI}: __array_interface__", "the attribute is a dict"),
    "array-missing": Rule(f"{_AI}: __array_interface__", "shape, typestr and version are present"),
    "array-shape": Rule(f"{_AI}: shape", "shape is a tuple of 64 integers at most, none of them negative"),
    "array-typestr": Rule(
        f"{_AI}: typestr", "typestr is byte order (< or >, a bar for none), kind and size in bytes, as in <f4"
    ),
    "array-data": Rule(
        f"{_AI}: data",
        "data is a tuple of the address, an int, and the read-only flag, a bool, or has the buffer protocol",
    ),
    "array-version": Rule(f"{_AI}: version", "version is 3"),
    "array-strides": Rule(f"{_AI}: strides", "strides are None or a tuple of as many integers as shape has"),
    "array-null-pointer": Rule(f"{_AI}: data", "the pointer is 0 only for size zero"),
    "array-extent": Rule(f"{_AI}: strides", "the first and the last byte have addresses"),
    "array-memory": Rule(f"{_AI}: data", "the memory can be read"),
    "array-descr": Rule(
        f"{_AI}: descr", "descr is a list of (name, type[, shape]) of the size of typestr, with fields for kind V only"
    ),
    "array-mask": Rule(f"{_AI}: mask", "mask is None, or exports an array, in a shape that fits"),
    # ---- SYCL USM array interface
    "usm-raises": Rule(f"{_USM}: __sycl_usm_array_interface__", "the attribute can be read"),
    "usm-dict": Rule(f"{_USM}: __sycl_usm_array_interface__", "the attribute is a dict"),
    "usm-missing": Rule(
        f"{_USM}: __sycl_usm_array_interface__", "shape, typestr, version and syclobj are present, and data or a buffer"
    ),
    "usm-version": Rule(f"{_USM}: version", "version is 1"),
    "usm-shape": Rule(f"{_USM}: shape", "shape is a tuple of 64 integers at most, none of them negative"),
    "usm-typestr": Rule(
        f"{_USM}: typestr",
        "typestr is byte order (< or >, a bar for none), kind and size in bytes, as in <f4; no Python objects",
    ),
    "usm-typestr-order": Rule(
        f"{_USM}: keys align with __array_interface__",
        "typestr has the byte order of elements of several bytes, as in <f4",
        "warning",
    ),
    "usm-typedescr": Rule(
        f"{_USM}: typedescr",
        "typedescr is a list of (name, type[, shape]) of the size of typestr, with fields for kind V only",
    ),
    "usm-strides": Rule(
        f"{_USM}: strides", "strides are None or a tuple of as many integers as shape has, in elements"
    ),
    "usm-offset": Rule(f"{_USM}: offset", "offset is an integer, in elements"),
    "usm-data": Rule(
        f"{_USM}: data",
        "data is a tuple of the address, an int, and the read-only flag, a bool; without data the key is absent",
    ),
    "usm-null-pointer": Rule(f"{_USM}: data", "the pointer is 0 only for size zero"),
    "usm-extent": Rule(f"{_USM}: strides and offset", "the first and the last byte have addresses"),
    "usm-buffer": Rule(f"{_USM}: buffer interface", "the buffer instead of data has the bytes of all elements"),
    "usm-syclobj": Rule(
        f"{_USM}: syclobj", "syclobj is a filter string, SyclContext, SyclQueue, a capsule, or has _get_capsule()"
    ),
    "usm-filter": Rule(
        f"{_USM}: syclobj, filter selector string", "it is backend:device_type:number, of an existing device"
    ),
    "usm-get-capsule": Rule(f"{_USM}: syclobj, _get_capsule()", "_get_capsule() can be called, and gives a capsule"),
    "usm-capsule-name": Rule(f"{_USM}: syclobj, named capsule", "it is named SyclContextRef or SyclQueueRef"),
    "usm-capsule-used": Rule("Crossdock, a capsule is for one consumer", "the capsule wasn't used before"),
    "usm-capsule-shared": Rule(
        "Crossdock, a capsule is for one consumer", "each access, and each _get_capsule(), gives a new capsule"
    ),
    "usm-capsule-memory": Rule(f"{_USM}: syclobj, named capsule", "it points to a context or a queue"),
    "usm-read-only-unsure": Rule(
        "dpctl.memory: __sycl_usm_array_interface__", "dpctl.memory marks writable memory as read-only", "note"
    ),
    "usm-pointer": Rule(f"{_USM}: data", "the pointer is a USM pointer of the context that syclobj stands for"),
    "usm-pointer-unchecked": Rule(
        f"{_USM}: data", "pointers are checked by the SYCL run time, if dpctl was imported", "note"
    ),
    "usm-bounds": Rule(f"{_USM}: strides and offset", "all elements are in USM memory of that context"),
    "usm-device-buffer": Rule(
        f"{_USM}: buffer interface", "memory of kind device, which the host can't read, has no buffer"
    ),
    # ---- buffer protocol
    "buffer-raises": Rule(f"{_B}: PyBUF_FULL_RO", "the most general request is granted, or raises BufferError"),
    "buffer-obj": Rule(f"{_B}: Py_buffer.obj", "obj is a reference to the exporter"),
    "buffer-null": Rule(f"{_B}: Py_buffer.buf", "buf is null only for length zero"),
    "buffer-itemsize": Rule(f"{_B}: Py_buffer.itemsize", "itemsize is positive, and that of format"),
    "buffer-ndim": Rule(f"{_B}: Py_buffer.ndim", "ndim is 0 to 64"),
    "buffer-shape": Rule(f"{_B}: Py_buffer.shape", "shape is present if it is requested, and not negative"),
    "buffer-strides": Rule(f"{_B}: Py_buffer.strides", "strides are present if they are requested"),
    "buffer-len": Rule(f"{_B}: Py_buffer.len", "len is the product of shape times itemsize"),
    "buffer-memory": Rule(f"{_B}: Py_buffer.buf", "the memory can be read"),
    "buffer-writable": Rule(f"{_B}: PyBUF_WRITABLE", "a writable buffer is given, or BufferError raised"),
    "buffer-readonly-varies": Rule(f"{_B}: Py_buffer.readonly", "readonly is the same for all consumers"),
    "buffer-simple": Rule(f"{_B}: PyBUF_SIMPLE", "memory that isn't contiguous isn't exported without strides"),
    "buffer-lifetime": Rule(f"{_B}: Py_buffer.obj", "the memory doesn't change while a buffer is held"),
    # ---- several protocols of one object
    "across-pointer": Rule(_ONE, "all protocols export the same memory"),
    "across-shape": Rule(_ONE, "all protocols have the same shape"),
    "across-strides": Rule(_ONE, "all protocols have the same strides"),
    "across-itemsize": Rule(_ONE, "all protocols have the same size of elements"),
    "across-device": Rule(_ONE, "memory of the CPU in one protocol isn't memory of a GPU in another"),
    "across-readonly": Rule(_BEYOND, "memory that is read-only in one protocol is read-only in all"),
    # ---- every protocol
    "values-raise": Rule(
        "Crossdock, exports can be inspected",
        "comparing, counting or iterating over the exported values raises nothing",
    ),
}

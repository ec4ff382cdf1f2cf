// Gets the table "weather" from another process, and reads it where it lies.
//
//	get_table URI
//
// where c_serve_table of examples/c or python examples/serve_table.py prints the URI.
package main

/*
#cgo pkg-config: crossdock_c
#include <crossdock/crossdock.h>
#include <stdlib.h>

// Go can't call a function pointer.
static void release_schema(struct ArrowSchema* schema) { schema->release(schema); }
static void release_array(struct ArrowArray* array) { array->release(array); }

// Go's garbage collector doesn't let C keep pointers to Go's memory: these lie on C's stack for one call.
static crossdock_status get(crossdock_client* client, crossdock_reader** reader, crossdock_error** error) {
  const crossdock_string columns[] = {crossdock_str("station"), crossdock_str("celsius")};
  // printBatch follows offsets that the server wrote. By default those of a process of this user aren't checked.
  const crossdock_get_options options = {
      .size = sizeof options, .columns = columns, .n_columns = 2, .validation = CROSSDOCK_VALIDATION_FULL};
  return crossdock_client_get(client, crossdock_str("weather"), &options, reader, error);
}
*/
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

// failure turns the error of a call into Go's, and frees it.
func failure(status C.crossdock_status, failed *C.crossdock_error) error {
	defer C.crossdock_error_release(&failed)
	return fmt.Errorf("%s: %s", C.GoString(C.crossdock_status_name(status)), C.GoString(C.crossdock_error_message(failed)))
}

// column returns a column of a batch.
func column(batch *C.struct_ArrowArray, index int) *C.struct_ArrowArray {
	return unsafe.Slice(batch.children, batch.n_children)[index]
}

// buffer returns a buffer of a column.
func buffer(array *C.struct_ArrowArray, index int) unsafe.Pointer {
	return unsafe.Slice(array.buffers, array.n_buffers)[index]
}

func printBatch(batch *C.struct_ArrowArray) {
	if batch.length == 0 {
		return
	}
	station, celsius := column(batch, 0), column(batch, 1)
	offsets := unsafe.Slice((*int32)(buffer(station, 1)), station.offset+station.length+1)[station.offset:]
	values := unsafe.Slice((*float64)(buffer(celsius, 1)), celsius.offset+celsius.length)[celsius.offset:]
	for row, value := range values {
		begin, end := offsets[row], offsets[row+1]
		text := C.GoStringN((*C.char)(unsafe.Add(buffer(station, 2), begin)), C.int(end-begin))
		fmt.Println(text, value)
	}
}

func printTable(uri string) error {
	var failed *C.crossdock_error
	text := C.CString(uri)
	defer C.free(unsafe.Pointer(text))

	var client *C.crossdock_client
	if status := C.crossdock_connect(C.crossdock_str(text), nil, &client, &failed); status != C.CROSSDOCK_OK {
		return failure(status, failed)
	}
	defer C.crossdock_client_release(&client)
	var reader *C.crossdock_reader
	if status := C.get(client, &reader, &failed); status != C.CROSSDOCK_OK {
		return failure(status, failed)
	}
	defer C.crossdock_reader_release(&reader)

	var schema C.struct_ArrowSchema
	if status := C.crossdock_reader_schema(reader, &schema, &failed); status != C.CROSSDOCK_OK {
		return failure(status, failed)
	}
	defer C.release_schema(&schema)
	// The columns are the server's word.
	types := unsafe.Slice(schema.children, schema.n_children)
	if len(types) != 2 || C.GoString(types[0].format) != "u" || C.GoString(types[1].format) != "g" {
		return fmt.Errorf("the columns aren't a text and a float64")
	}
	for {
		var batch C.struct_ArrowArray
		if status := C.crossdock_reader_next(reader, &batch, &failed); status != C.CROSSDOCK_OK {
			return failure(status, failed)
		}
		if batch.release == nil {
			return nil
		}
		printBatch(&batch)
		C.release_array(&batch)
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: get_table URI, where a program that serves prints the URI")
		os.Exit(2)
	}
	if err := printTable(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

/* Gets the table "weather" from another process, and reads it where it lies.
 *
 *     c_get_table URI
 *
 * where c_serve_table, or python examples/serve_table.py, prints the URI. */
#include <crossdock/crossdock.h>
#include <stdio.h>
#include <string.h>

/* Whether the server sends what this program reads: the columns are the server's word. */
static int is_weather(const struct ArrowSchema* schema) {
  return schema->n_children == 2 && strcmp(schema->children[0]->format, "u") == 0 &&
         strcmp(schema->children[1]->format, "g") == 0;
}

static int is_null(const struct ArrowArray* column, int64_t row) {
  const uint8_t* validity = column->buffers[0];
  const int64_t bit = row + column->offset;
  return validity != NULL && (validity[bit / 8] >> (bit % 8) & 1) == 0;
}

static void print(const struct ArrowArray* batch) {
  const struct ArrowArray* station = batch->children[0];
  const struct ArrowArray* celsius = batch->children[1];
  const int32_t* offsets = (const int32_t*)station->buffers[1] + station->offset;
  const char* bytes = station->buffers[2];
  const double* values = (const double*)celsius->buffers[1] + celsius->offset;
  int64_t row;
  for (row = 0; row < batch->length; ++row) {
    if (is_null(station, row)) {
      printf("null ");
    } else {
      printf("%.*s ", (int)(offsets[row + 1] - offsets[row]), bytes + offsets[row]);
    }
    if (is_null(celsius, row)) {
      printf("null\n");
    } else {
      printf("%g\n", values[row]);
    }
  }
}

static crossdock_status get(const char* uri, crossdock_error** error) {
  const crossdock_string columns[] = {crossdock_str("station"), crossdock_str("celsius")};
  /* print() follows the offsets of "station" into memory that the server wrote. By default the library checks the
   * elements of what comes from another user, but not of what a process of this user sends. */
  const crossdock_get_options options = {
      .size = sizeof options, .columns = columns, .n_columns = 2, .validation = CROSSDOCK_VALIDATION_FULL};
  crossdock_client* client = NULL;
  crossdock_reader* reader = NULL;
  struct ArrowSchema schema = {.release = NULL};
  struct ArrowArray batch = {.release = NULL};

  crossdock_status status = crossdock_connect(crossdock_str(uri), NULL, &client, error);
  if (status == CROSSDOCK_OK) {
    status = crossdock_client_get(client, crossdock_str("weather"), &options, &reader, error);
  }
  if (status == CROSSDOCK_OK) status = crossdock_reader_schema(reader, &schema, error);
  if (status == CROSSDOCK_OK && !is_weather(&schema)) {
    status = crossdock_error_set(error, CROSSDOCK_ERROR_UNSUPPORTED_TYPE,
                                 crossdock_str("the columns aren't a text and a float64"));
  }
  while (status == CROSSDOCK_OK) {
    status = crossdock_reader_next(reader, &batch, error);
    if (status != CROSSDOCK_OK || batch.release == NULL) break; /* an error, or the end */
    print(&batch);
    batch.release(&batch);
  }
  if (schema.release != NULL) schema.release(&schema);
  crossdock_reader_release(&reader);
  crossdock_client_release(&client);
  return status;
}

int main(int argc, char** argv) {
  crossdock_error* error = NULL;
  crossdock_status status;
  if (argc != 2) {
    fprintf(stderr, "usage: c_get_table URI, where c_serve_table prints the URI\n");
    return 2;
  }
  status = get(argv[1], &error);
  if (status != CROSSDOCK_OK) {
    fprintf(stderr, "%s: %s\n", crossdock_status_name(status), crossdock_error_message(error));
  }
  crossdock_error_release(&error);
  return status == CROSSDOCK_OK ? 0 : 1;
}

/* Serves a table from this process until Enter is pressed.
 *
 *     c_serve_table
 *
 * It prints the URI. Then, in another terminal: c_get_table URI, or python examples/get_table.py URI weather */
#include <crossdock/crossdock.h>
#include <stdio.h>

/* The columns lie in memory of the program, as Arrow lays them out: validity (none: no value is null), and values; of
 * texts offsets, one more than there are, and bytes. */
static const int32_t station_offsets[] = {0, 3, 6, 9};
static const char station_bytes[] = "JFKLGAEWR";
static const double celsius[] = {11.5, 12.0, 10.25};

/* This memory lives as long as the program, so there is nothing to free. A release function marks that it was called.
 */
static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }
static void release_array(struct ArrowArray* array) { array->release = NULL; }

static crossdock_status weather(crossdock_source** source, crossdock_error** error) {
  static const void* station_buffers[] = {NULL, station_offsets, station_bytes};
  static const void* celsius_buffers[] = {NULL, celsius};
  static const void* no_buffers[] = {NULL};

  struct ArrowSchema station_type = {.format = "u", .name = "station", .release = release_schema};
  struct ArrowSchema celsius_type = {.format = "g", .name = "celsius", .release = release_schema};
  struct ArrowSchema* types[] = {&station_type, &celsius_type};
  struct ArrowSchema schema = {.format = "+s", .n_children = 2, .children = types, .release = release_schema};

  /* The library takes the arrays over, so they outlive this function. */
  static struct ArrowArray columns[2];
  static struct ArrowArray* children[] = {&columns[0], &columns[1]};
  struct ArrowArray batch = {.length = 3,
                             .n_buffers = 1,
                             .buffers = no_buffers,
                             .n_children = 2,
                             .children = children,
                             .release = release_array};
  columns[0] = (struct ArrowArray){.length = 3, .n_buffers = 3, .buffers = station_buffers, .release = release_array};
  columns[1] = (struct ArrowArray){.length = 3, .n_buffers = 2, .buffers = celsius_buffers, .release = release_array};
  return crossdock_source_batches(&schema, &batch, 1, source, error);
}

int main(void) {
  crossdock_error* error = NULL;
  crossdock_server* server = NULL;
  crossdock_source* source = NULL;
  int failed = 1;

  if (crossdock_serve(NULL, &server, &error) == CROSSDOCK_OK && weather(&source, &error) == CROSSDOCK_OK &&
      /* Copies the table once into shared memory; consumers map that memory and copy nothing. */
      crossdock_server_publish(server, crossdock_str("weather"), &source, NULL, &error) == CROSSDOCK_OK) {
    printf("%s\n", crossdock_server_uri(server, 0));
    fflush(stdout);
    getchar();
    failed = 0;
  } else {
    fprintf(stderr, "%s: %s\n", crossdock_error_call(error), crossdock_error_message(error));
  }
  crossdock_source_release(&source);
  crossdock_server_release(&server);
  crossdock_error_release(&error);
  return failed;
}

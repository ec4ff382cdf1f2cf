/* A server in one process and a client in another, in C99 alone. */
#define _POSIX_C_SOURCE 200809L

#include <crossdock/crossdock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "numbers.h"

static crossdock_error* error = NULL;

static void fail(int line, const char* what) {
  fprintf(stderr, "two_processes.c:%d: %s\n%s: %s: %s\n", line, what, crossdock_error_call(error),
          crossdock_status_name(crossdock_error_status(error)), crossdock_error_message(error));
  exit(1);
}
#define CHECK(condition) ((condition) ? (void)0 : fail(__LINE__, #condition))
#define OK(call) CHECK((call) == CROSSDOCK_OK)

/* Publishes 0 to 4 as "numbers", writes its URI to `out`, and ends when nobody can write to `in` any more. */
static void serve(int in, int out) {
  crossdock_server_options options = {.size = sizeof options};
  crossdock_server* server = NULL;
  crossdock_source* source = NULL;
  struct ArrowSchema schema;
  struct ArrowArray batches[2];
  const char* uri;
  char nothing;

  OK(crossdock_serve(&options, &server, &error));
  make_schema("number", &schema);
  CHECK(make_batch(0, 3, &batches[0]) == 0);
  CHECK(make_batch(3, 2, &batches[1]) == 0);
  OK(crossdock_source_batches(&schema, batches, 2, &source, &error));
  CHECK(batches[0].release == NULL && batches[1].release == NULL);
  schema.release(&schema);
  OK(crossdock_server_publish(server, crossdock_str("numbers"), &source, NULL, &error));
  CHECK(source == NULL);

  uri = crossdock_server_uri(server, 0);
  CHECK(write(out, uri, strlen(uri) + 1) == (ssize_t)strlen(uri) + 1);
  CHECK(read(in, &nothing, 1) == 0);
  crossdock_server_release(&server);
}

static int64_t sum_of(crossdock_client* client) {
  crossdock_get_options options = {.size = sizeof options};
  crossdock_reader* reader = NULL;
  struct ArrowArray batch;
  int64_t sum = 0;
  int64_t i;
  OK(crossdock_client_get(client, crossdock_str("numbers"), &options, &reader, &error));
  for (;;) {
    OK(crossdock_reader_next(reader, &batch, &error));
    if (batch.release == NULL) break;
    for (i = 0; i < batch.length; ++i) sum += ((const int64_t*)batch.children[0]->buffers[1])[i];
    batch.release(&batch);
  }
  crossdock_reader_release(&reader);
  return sum;
}

static void get(const char* uri) {
  crossdock_client* client = NULL;
  crossdock_reader* reader = NULL;
  crossdock_catalog* catalog = NULL;
  crossdock_entry entry = {.size = sizeof entry};

  OK(crossdock_connect(crossdock_str(uri), NULL, &client, &error));
  OK(crossdock_client_list(client, &catalog, &error));
  CHECK(crossdock_catalog_size(catalog) == 1);
  OK(crossdock_catalog_entry(catalog, 0, &entry, &error));
  CHECK(entry.rows == 5 && entry.name.size == 7 && memcmp(entry.name.data, "numbers", 7) == 0);
  crossdock_catalog_release(&catalog);

  CHECK(sum_of(client) == 10);
  CHECK(crossdock_client_get(client, crossdock_str("nothing"), NULL, &reader, &error) == CROSSDOCK_ERROR_NOT_FOUND);
  CHECK(strstr(crossdock_error_message(error), "numbers") != NULL);
  crossdock_client_release(&client);
}

int main(void) {
  int to_server[2];
  int to_client[2];
  char uri[256];
  ssize_t length;
  int status = 0;
  pid_t server;

  CHECK(pipe(to_server) == 0 && pipe(to_client) == 0);
  server = fork();
  CHECK(server >= 0);
  if (server == 0) {
    close(to_server[1]);
    close(to_client[0]);
    serve(to_server[0], to_client[1]);
    crossdock_error_release(&error);
    return 0;
  }
  close(to_server[0]);
  close(to_client[1]);
  length = read(to_client[0], uri, sizeof uri);
  CHECK(length > 1 && uri[length - 1] == '\0');
  get(uri);
  close(to_server[1]);
  CHECK(waitpid(server, &status, 0) == server && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  crossdock_error_release(&error);
  return 0;
}

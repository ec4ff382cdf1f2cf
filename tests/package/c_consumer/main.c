/* Serves nothing, and finds that there is nothing: enough to need each part of the library. */
#include <crossdock/crossdock.h>
#include <stdio.h>

int main(void) {
  crossdock_error* error = NULL;
  crossdock_server* server = NULL;
  crossdock_client* client = NULL;
  crossdock_catalog* catalog = NULL;
  size_t tables = 1;
  if (crossdock_serve(NULL, &server, &error) == CROSSDOCK_OK &&
      crossdock_connect(crossdock_str(crossdock_server_uri(server, 0)), NULL, &client, &error) == CROSSDOCK_OK &&
      crossdock_client_list(client, &catalog, &error) == CROSSDOCK_OK) {
    tables = crossdock_catalog_size(catalog);
  }
  if (error != NULL) fprintf(stderr, "%s: %s\n", crossdock_error_call(error), crossdock_error_message(error));
  crossdock_catalog_release(&catalog);
  crossdock_client_release(&client);
  crossdock_server_release(&server);
  crossdock_error_release(&error);
  printf("crossdock %s\n", crossdock_version());
  return tables == 0 ? 0 : 1;
}

#include <crossdock/crossdock.h>
#include <stdio.h>

int main(void) {
  crossdock_server* server = NULL;
  crossdock_error* error = NULL;
  if (crossdock_serve(NULL, &server, &error) == CROSSDOCK_OK) {
    printf("the C interface of crossdock %s serves at %s\n", crossdock_version(), crossdock_server_uri(server, 0));
  } else {
    fprintf(stderr, "%s\n", crossdock_error_message(error));
  }
  const int status = server == NULL;
  crossdock_server_release(&server);
  crossdock_error_release(&error);
  return status;
}

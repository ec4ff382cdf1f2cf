/* A column of numbers, as a C program builds one without a library for Arrow. */
#ifndef CROSSDOCK_TESTS_NUMBERS_H
#define CROSSDOCK_TESTS_NUMBERS_H

#include <crossdock/crossdock.h>

/* Makes the schema of a table with one column of int64. The caller releases it. */
void make_schema(const char* column, struct ArrowSchema* schema);

/* Makes a batch of it: `n` numbers from `first` on. Returns 0, or -1 if there is no memory. */
int make_batch(int64_t first, int64_t n, struct ArrowArray* batch);

#endif

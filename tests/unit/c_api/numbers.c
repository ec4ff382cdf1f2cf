#include "numbers.h"

#include <stdlib.h>

struct schema_parts {
  struct ArrowSchema column;
  struct ArrowSchema* columns[1];
};

static void release_column_schema(struct ArrowSchema* schema) { schema->release = NULL; }

static void release_schema(struct ArrowSchema* schema) {
  struct schema_parts* parts = schema->private_data;
  if (parts->column.release != NULL) parts->column.release(&parts->column);
  free(parts);
  schema->release = NULL;
}

void make_schema(const char* column, struct ArrowSchema* schema) {
  struct schema_parts* parts = calloc(1, sizeof *parts);
  memset(schema, 0, sizeof *schema);
  if (parts == NULL) return; /* a released schema */
  parts->column.format = "l";
  parts->column.name = column;
  parts->column.release = release_column_schema;
  parts->columns[0] = &parts->column;
  schema->format = "+s";
  schema->n_children = 1;
  schema->children = parts->columns;
  schema->private_data = parts;
  schema->release = release_schema;
}

struct batch_parts {
  struct ArrowArray column;
  struct ArrowArray* columns[1];
  const void* no_validity[1];
  const void* column_buffers[2];
  int64_t values[];
};

static void release_column(struct ArrowArray* array) { array->release = NULL; }

static void release_batch(struct ArrowArray* array) {
  struct batch_parts* parts = array->private_data;
  if (parts->column.release != NULL) parts->column.release(&parts->column);
  free(parts);
  array->release = NULL;
}

int make_batch(int64_t first, int64_t n, struct ArrowArray* batch) {
  struct batch_parts* parts = calloc(1, sizeof *parts + (size_t)n * sizeof(int64_t));
  int64_t i;
  if (parts == NULL) return -1;
  for (i = 0; i < n; ++i) parts->values[i] = first + i;
  parts->column_buffers[1] = parts->values;
  parts->column.length = n;
  parts->column.n_buffers = 2;
  parts->column.buffers = parts->column_buffers;
  parts->column.release = release_column;
  parts->columns[0] = &parts->column;
  memset(batch, 0, sizeof *batch);
  batch->length = n;
  batch->n_buffers = 1;
  batch->buffers = parts->no_validity;
  batch->n_children = 1;
  batch->children = parts->columns;
  batch->private_data = parts;
  batch->release = release_batch;
  return 0;
}

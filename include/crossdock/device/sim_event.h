/* The struct that the `sync_event` of the simulated device's arrays points to, and the way to wait for it.
 *
 * Arrow's C Device data interface leaves the meaning of `sync_event` to the device; for the simulated device (EXT_DEV,
 * ARROW_DEVICE_EXT_DEV = 12) it is a pointer to this struct. It is plain C, self-contained, and meant to be read
 * without Crossdock's headers too, for example with Python's ctypes:
 *
 *   check `magic`, and that `size` is at least the size that you know; then call wait(event) and check its result.
 *
 * The struct belongs to the producer. It is valid until the array that it came with is released, and keeps its address.
 * Every function may be called on any thread, and by several threads at once. A NULL sync_event is a complete event. */
#ifndef CROSSDOCK_SIM_EVENT_H
#define CROSSDOCK_SIM_EVENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** "xd-event" in the bytes of a little-endian machine. */
#define CROSSDOCK_SIM_EVENT_MAGIC UINT64_C(0x746e6576652d6478)
#define CROSSDOCK_SIM_EVENT_VERSION 1u

/** An event of a simulated device: the `sync_event` of its arrays points to one. */
struct crossdock_sim_event {
  uint64_t magic;   /**< CROSSDOCK_SIM_EVENT_MAGIC */
  uint32_t version; /**< CROSSDOCK_SIM_EVENT_VERSION; a later one only adds members at the end */
  uint32_t size;    /**< bytes of the producer's struct, this header's or a later one's */

  /** Returns whether the work before the event is done. 1: yes. 0: not yet. Below 0: it failed, and is done. No wait.
   */
  int32_t (*query)(struct crossdock_sim_event* self);
  /** Waits, in the calling thread, until the work is done. 0: it is done. Below 0: it failed. */
  int32_t (*wait)(struct crossdock_sim_event* self);
  /** Returns why a call on this event failed, in UTF-8; NULL if none failed. The text is valid as long as the event. */
  const char* (*last_error)(struct crossdock_sim_event* self);
};

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_SIM_EVENT_H */

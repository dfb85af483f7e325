// Calls into libnvidia-ml through a table of its functions. All functions return the library's code, 0 for success.
#ifndef MILLSTREAM_NVML_H
#define MILLSTREAM_NVML_H

#include <stdint.h>

typedef struct nvml_library nvml_library;

// nvml_open opens a library and initializes it. It returns NULL, and a text in message, if that fails.
nvml_library *nvml_open(const char *path, char *message, int size);
// nvml_close shuts the library down. The table stays valid: later calls return the library's error.
int nvml_close(nvml_library *l);
const char *nvml_text(nvml_library *l, int code);

int nvml_count(nvml_library *l, unsigned *n);
int nvml_by_index(nvml_library *l, unsigned i, uint64_t *device);
int nvml_by_uuid(nvml_library *l, const char *uuid, uint64_t *device);
int nvml_uuid(nvml_library *l, uint64_t device, char *out, unsigned size);
int nvml_name(nvml_library *l, uint64_t device, char *out, unsigned size);
int nvml_address(nvml_library *l, uint64_t device, char *out, unsigned size);
int nvml_memory(nvml_library *l, uint64_t device, uint64_t *used, uint64_t *total);
int nvml_utilization(nvml_library *l, uint64_t device, unsigned *percent);
int nvml_link(nvml_library *l, uint64_t device, unsigned i, unsigned *active);
int nvml_mig_mode(nvml_library *l, uint64_t device, unsigned *enabled);
int nvml_mig_count(nvml_library *l, uint64_t device, unsigned *n);
int nvml_mig_device(nvml_library *l, uint64_t device, unsigned i, uint64_t *part);
int nvml_mig_ids(nvml_library *l, uint64_t device, unsigned *gpu, unsigned *compute);

#endif

// Kernels of Lloyd's algorithm on columns: see lloyd.c.
#ifndef MILLSTREAM_LLOYD_H
#define MILLSTREAM_LLOYD_H

#include <stdint.h>

int ms_lloyd_level(void);

// One pass: computes new labels and updates sums and counts. Returns -1 if out of memory.
long ms_lloyd_pass_f64(int level, const double *const *columns, long n, int d, int k, const double *centers, const double *shift, int32_t *labels, double *sums, int64_t *counts);
long ms_lloyd_pass_f32(int level, const float *const *columns, long n, int d, int k, const float *centers, const float *shift, int32_t *labels, double *sums, int64_t *counts);

// Sums the squared distances to the centers of the labels; centers are stored feature by feature. Returns -1 if out of memory.
double ms_lloyd_inertia_f64(int level, const double *const *columns, long n, int d, int k, const double *byfeature, const int32_t *labels);
double ms_lloyd_inertia_f32(int level, const float *const *columns, long n, int d, int k, const float *byfeature, const int32_t *labels);

// Computes the squared distances to a point. Returns -1 if out of memory.
int ms_lloyd_distances_f64(int level, const double *const *columns, long n, int d, const double *c, double *out);
int ms_lloyd_distances_f32(int level, const float *const *columns, long n, int d, const float *c, double *out);

#endif

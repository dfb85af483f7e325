// Kernels of Lloyd's algorithm on columns: see lloyd.c.
#ifndef MILLSTREAM_LLOYD_H
#define MILLSTREAM_LLOYD_H

#include <stdint.h>

int ms_lloyd_level(void);

// One pass: new labels, and sums and counts brought up to them. -1: no memory.
long ms_lloyd_pass_f64(int level, const double *const *columns, long n, int d, int k, const double *centers, const double *shift, int32_t *labels, double *sums, int64_t *counts);
long ms_lloyd_pass_f32(int level, const float *const *columns, long n, int d, int k, const float *centers, const float *shift, int32_t *labels, double *sums, int64_t *counts);

// The sum of the squared distances to the labels' centers, which stand feature by feature. -1: no memory.
double ms_lloyd_inertia_f64(int level, const double *const *columns, long n, int d, int k, const double *byfeature, const int32_t *labels);
double ms_lloyd_inertia_f32(int level, const float *const *columns, long n, int d, int k, const float *byfeature, const int32_t *labels);

// The squared distances to a point. -1: no memory.
int ms_lloyd_distances_f64(int level, const double *const *columns, long n, int d, const double *c, double *out);
int ms_lloyd_distances_f32(int level, const float *const *columns, long n, int d, const float *c, double *out);

#endif

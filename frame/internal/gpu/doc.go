// Package gpu runs the verbs of frames on tables in the memory of a GPU: partitioning by hash, gathering, filtering,
// hash join, hash group-by and sort, for columns of numbers, dates, times and booleans. Results are those of packages
// join, group and order, except for the order of rows that these do not specify either, and for the last bits of sums
// of floats.
//
// The kernels are in internal/device/kernels/table_*.cu. An Engine enqueues them on one stream; it waits only where the
// host needs a number, such as that of the rows of a result.
package gpu

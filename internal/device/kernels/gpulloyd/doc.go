// Package gpulloyd has what package lloyd does on the CPU for rows in memory of a GPU: the
// nearest centre of every row, the sums of the rows of each centre, distances. Labels are those
// of lloyd for the same centres, bit by bit; sums differ in their last bits, also from run to
// run, as they are added in the order that threads come.
//
// Kernels are in internal/device/kernels/kmeans.cu. Everything runs on one stream; the host waits,
// by asking an event, only where it needs a number.
package gpulloyd

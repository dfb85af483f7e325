// Package gpulloyd implements package lloyd for rows in GPU memory: the nearest center of every row, the sums of the
// rows of each center, distances. Labels are identical to those of lloyd for the same centers; sums differ in their
// last bits, also from run to run, as they are added in the order of the threads.
//
// The kernels are in internal/device/kernels/kmeans.cu. Everything runs on one stream; the host waits, by polling an
// event, only where it needs a number.
package gpulloyd

// Package learn runs the algorithms of frames on arrays of the ranks of a communicator, in host or device memory:
// k-means, and the reduction of tall tables for principal components and linear models.
package learn

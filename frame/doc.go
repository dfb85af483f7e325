// Package frame has distributed frames: tables of Arrow in partitions on the workers of a
// cluster.
package frame

// Package tall reduces the columns of a frame to a tsqr.Summary, on the workers that have the partitions, and
// multiplies the rows of a frame with vectors. Packages pca and linear are built on it.
package tall

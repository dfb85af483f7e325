// Package kmeansbench is the engine of `millstream bench kmeans`: k-means of a local cluster
// and scikit-learn's on the same numbers, in alternating rounds, with results that must agree.
package kmeansbench

// Package kmeansbench implements `millstream bench kmeans`: k-means of a local cluster and of scikit-learn with the
// same data, in alternating rounds, with results that must agree.
package kmeansbench

// Package lloydfit fits k-means to rows that are spread over ranks: Lloyd's algorithm with the steps of scikit-learn,
// on the kernels of packages lloyd and gpulloyd, with an all-reduce of the sums of the groups in each iteration. It is
// used by frame/kmeans and by the C library.
package lloydfit

// Package kmeans divides the rows of a distributed frame into k groups around k centers, with Lloyd's algorithm on the
// partitions where they are, and a collective all-reduce of the sums of the groups in each iteration.
//
//	m, err := kmeans.Fit(ctx, f, kmeans.Options{K: 8})
//	labels, err := m.Predict(ctx, f) // a frame of one column, label
//
// Results are those of scikit-learn's KMeans with algorithm="lloyd" on the same data: with the same initial centers, or
// the same seed of k-means++, the labels are the same and the inertia agrees to many digits.
package kmeans

// Package pca finds the directions of a distributed frame along which its rows vary most: principal component analysis,
// and the singular value decomposition of the rows themselves, of frames with many rows and few columns.
//
//	m, err := pca.Fit(ctx, f, pca.Options{Components: 2})
//	xy, err := m.Transform(ctx, f) // a frame of two columns, pc0 and pc1
//
// Results are those of PCA(svd_solver="full") and TruncatedSVD(algorithm="arpack") of scikit-learn on the same data,
// with the same signs. docs/adr/0038-tall-tables.md has the method.
package pca

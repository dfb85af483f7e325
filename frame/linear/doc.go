// Package linear fits linear models to distributed frames: ordinary least squares and ridge regression of frames with
// many rows and few columns.
//
//	m, err := linear.Fit(ctx, f, linear.Options{Target: "price"})
//	p, err := m.Predict(ctx, g) // a frame of one column, prediction
//
// Results are those of LinearRegression and Ridge of scikit-learn on the same data. docs/adr/0038-tall-tables.md has
// the method.
package linear

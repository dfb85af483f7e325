// Package downstream runs tests of packages that are built on Dask (xarray, joblib, dask-ml, lightgbm, xgboost) on
// Dask's scheduler and on Millstream's, with Dask's workers and with Go workers, and compares: see run.py. The test of
// this package is the short form; `make downstream` runs all.
package downstream

// Package dask has a Dask program that runs on a Millstream cluster, see README.md.
package dask

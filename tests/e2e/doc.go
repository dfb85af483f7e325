// Package e2e runs the command lines and programs that the guides of Dask-CUDA and
// distributed-ucxx print, with only the names changed, as a user would type them.
package e2e

// Package operator has a manifest that deploys a Millstream cluster with the Dask operator for Kubernetes, see
// README.md.
package operator

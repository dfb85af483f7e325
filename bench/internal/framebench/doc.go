// Package framebench measures queries of distributed frames on a local cluster: joins, group-bys, sorts, exchanges and
// TPC-H. Peers, which are DuckDB and Dask, run the same queries on the same data in alternating rounds, and their
// results are compared.
package framebench

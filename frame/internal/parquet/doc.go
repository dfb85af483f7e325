// Package parquet reads and writes Parquet files as Arrow record batches. It knows bytes and batches only: files,
// folders and splits are those of package scan.
//
// Reading supports all encodings and the codecs snappy, gzip, zstd and lz4, flat and nested columns, and statistics of
// row groups for pruning. Files are hostile: sizes that a file claims are checked against its length before memory is
// allocated for them, and a damaged file is an error, never a panic.
//
// Metadata is in the compact protocol of Thrift, of which thrift.go has the parts that Parquet uses.
package parquet

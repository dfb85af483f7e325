// Package arrowipc lets messages carry Arrow tables and record batches, as Dask does for pyarrow: in a separate frame
// that is an Arrow IPC stream. Importing it is sufficient, as for the formats of package image:
//
//	import _ "go.millstream.dev/internal/wire/arrowipc"
//
// Package task imports it, and so do clients, workers and frames. In programs that only use comm or rpc and do not
// import it, tables arrive as *wire.Object.
//
// Streams are considered hostile: allocations of the reader are bounded by the length of the stream, and every batch is
// validated.
package arrowipc

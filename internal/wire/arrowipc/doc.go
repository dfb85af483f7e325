// Package arrowipc lets messages carry tables and record batches of Arrow, as Dask's do for pyarrow: in a frame of
// their own that is an Arrow IPC stream. Importing it is enough, as for the formats of package image:
//
//	import _ "go.millstream.dev/internal/wire/arrowipc"
//
// Package task imports it, and with it clients, workers and frames. In programs that use comm or rpc alone and do not
// import it, tables arrive as *wire.Object.
//
// Streams are taken to come from an enemy: what one makes its reader allocate is bounded by its length, and every batch
// is validated.
package arrowipc

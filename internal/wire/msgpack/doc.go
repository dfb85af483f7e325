// Package msgpack reads and writes the dialect of MessagePack that Dask's processes speak:
// str and bin are distinct, a map's keys may be numbers, bytes and arrays as well as
// strings, map order is kept, and there are no extension types.
//
// There are three ways in and out:
//
//   - Reader walks over encoded bytes and allocates nothing: for messages whose shape is
//     known.
//   - Decode builds a tree of values: nil, bool, int64, uint64 (only above int64's
//     range), float64, string, []byte, []any and Map.
//   - the Append functions write, and Append and Encoder write whole trees.
//
// Bytes are taken to come from an enemy: nothing is allocated for what a header promises
// beyond what the bytes that are there can hold, and nesting is bounded.
package msgpack

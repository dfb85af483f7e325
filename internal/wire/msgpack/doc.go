// Package msgpack encodes and decodes Dask's dialect of MessagePack: str and bin are distinct, a map's keys may be
// numbers, bytes and arrays as well as strings, map order is preserved, and there are no extension types.
//
// There are three interfaces:
//
//   - Reader iterates over encoded bytes without allocating: for messages of known structure.
//   - Decode returns a tree of values: nil, bool, int64, uint64 (only above int64's range), float64, string, []byte,
//     []any and Map.
//   - The Append functions encode single values, Append and Encoder whole trees.
//
// Input is considered hostile: allocations never exceed what the received bytes can hold, and nesting is bounded.
package msgpack

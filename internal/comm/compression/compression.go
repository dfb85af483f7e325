// Package compression reads the setting distributed.comm.compression.
package compression

import "fmt"

// Parse returns the compression that a setting names, "" for none: auto is lz4.
func Parse(name string) (string, error) {
	switch name {
	case "auto":
		return "lz4", nil
	case "false", "none", "False", "None":
		return "", nil
	case "", "lz4", "zstd", "snappy", "zlib":
		return name, nil
	}
	return "", fmt.Errorf("comm: compression %q is not known: use auto, lz4, zstd, snappy, zlib or nothing "+
		"(distributed.comm.compression)", name)
}

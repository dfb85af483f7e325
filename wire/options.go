package wire

import (
	"slices"

	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/pickle"
)

// EncodeOptions specify how a message is encoded. The zero value works with every peer.
type EncodeOptions struct {
	// Compression is the negotiated compression of frames: "lz4", "zstd", "snappy" or "zlib"; "auto" is lz4 (default
	// none, distributed.comm.compression).
	Compression string
	// ZstdLevel is 1 to 22 (default 3, distributed.comm.zstd.level).
	ZstdLevel int
	// PickleProtocol is the negotiated protocol, 4 or 5 (default 5). Protocol 5 sends arrays within pickles without a
	// copy.
	PickleProtocol int
	// ShardSize is the length in bytes above which frames are split (default 64 MiB,
	// distributed.comm.shard).
	ShardSize int
	// ErrorAsMessage sends a value without a Python form as Dask does: in family "error", which the receiver raises. By
	// default Encode returns an error.
	ErrorAsMessage bool
}

// Defaults of DecodeOptions.
const (
	// defaultMaxDecompressed bounds the decompressed size of a message, in bytes, if memory allows.
	defaultMaxDecompressed = 4 << 30
	// decompressedRatio allows more for large messages: lz4's best ratio.
	decompressedRatio = 256
	// decompressedBase is the decompressed size that a message may have whatever its length, if the ratio is bounded.
	decompressedBase = 64 << 20
	// maxCollectionDepth bounds nested collections, near Python's own recursion limit.
	maxCollectionDepth = 256
	// maxFrames is the largest number of frames of a message.
	maxFrames = 1 << 20
)

// ErrDecompress is returned for frames whose compression is invalid or that become too large.
var ErrDecompress = compress.Err

// DecodeOptions specify how a message is decoded. The zero value decodes everything that Go supports.
type DecodeOptions struct {
	// Keep keeps values that were sent as Serialize encoded: they become *Serialized and can be sent on as they are. It
	// is Dask's deserialize=False, for schedulers.
	Keep bool
	// KeepPickled keeps values that were sent as ToPickle encoded: they become *Pickled.
	KeepPickled bool
	// Deserializers, if not nil, are the only families that are decoded: "dask", "pickle", "msgpack", "error", "cuda".
	// Others are an error, as in Dask.
	Deserializers []string
	// MaxDecompressed bounds the total decompressed size of the compressed frames of a message, in bytes (default 4
	// GiB, or 256 times the received size if that is more; half of the memory that the process may use if that is
	// less).
	MaxDecompressed int64
	// MaxRatio, if not 0, bounds the decompressed size to 64 MiB plus that many times the received bytes. It is for
	// servers with untrusted peers: values between workers may be all zeros, which zstd makes 32,000 times smaller.
	MaxRatio int64
	// Pickle bounds the cost of pickles.
	Pickle pickle.Limits
}

// budget returns the decompressed size that a message of received bytes may have.
func (o DecodeOptions) budget(received int64) int64 {
	if o.MaxDecompressed > 0 {
		return o.MaxDecompressed
	}
	n := min(max(defaultMaxDecompressed, decompressedRatio*received), sysmem.Limit()/2)
	if o.MaxRatio > 0 {
		n = min(n, decompressedBase+o.MaxRatio*received)
	}
	return n
}

func (o DecodeOptions) allows(family string) bool {
	return o.Deserializers == nil || slices.Contains(o.Deserializers, family)
}

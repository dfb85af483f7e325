package wire

import (
	"slices"

	"go.millstream.dev/internal/proc/sysmem"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/internal/wire/pickle"
)

// EncodeOptions say how a message is written. The zero value suits every peer.
type EncodeOptions struct {
	// Compression of frames that the handshake agreed on: "lz4", "zstd", "snappy" or "zlib";
	// "auto" is lz4 (default none, distributed.comm.compression).
	Compression string
	// ZstdLevel is 1 to 22 (default 3, distributed.comm.zstd.level).
	ZstdLevel int
	// PickleProtocol that the handshake agreed on, 4 or 5 (default 5). Protocol 5 sends
	// arrays within pickles without a copy.
	PickleProtocol int
	// ShardSize is the length in bytes above which frames are split (default 64 MiB,
	// distributed.comm.shard).
	ShardSize int
	// ErrorAsMessage sends a value that has no form in Python as Dask does: in family
	// "error", which the receiver raises. By default Encode returns an error.
	ErrorAsMessage bool
}

// Defaults of DecodeOptions.
const (
	// defaultMaxDecompressed is what a message may become, in bytes, where memory allows.
	defaultMaxDecompressed = 4 << 30
	// decompressedRatio lets honest large messages become more: lz4's best.
	decompressedRatio = 256
	// decompressedBase is what a message may become whatever its length, where the ratio is
	// bounded.
	decompressedBase = 64 << 20
	// maxCollectionDepth bounds collections in collections. Python's own recursion ends
	// near it.
	maxCollectionDepth = 256
	// maxFrames is the largest number of frames of a message.
	maxFrames = 1 << 20
)

// ErrDecompress is returned for frames that are compressed wrongly or become too large.
var ErrDecompress = compress.Err

// DecodeOptions say how a message is read. The zero value opens everything that Go knows.
type DecodeOptions struct {
	// Keep leaves values that were sent as Serialize unopened: they become *Serialized
	// and can be sent on as they are. Dask's deserialize=False, for schedulers.
	Keep bool
	// KeepPickled leaves values that were sent as ToPickle unopened: they become *Pickled.
	KeepPickled bool
	// Deserializers, if not nil, are the only families that are opened: "dask", "pickle",
	// "msgpack", "error", "cuda". Others are an error, as in Dask.
	Deserializers []string
	// MaxDecompressed bounds what compressed frames of a message become together, in
	// bytes (default 4 GiB, or 256 times what was received if that is more; half of the
	// memory that the process may use if that is less).
	MaxDecompressed int64
	// MaxRatio, if not 0, bounds what compressed frames become to 64 MiB and so many times
	// the bytes received. It is for servers of peers that they do not trust: values
	// between workers may be all zeros, which zstd makes 32,000 times smaller.
	MaxRatio int64
	// Pickle bounds what pickles may cost.
	Pickle pickle.Limits
}

// budget is what a message of so many bytes may become.
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

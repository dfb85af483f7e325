package ucxxwire

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
)

// AMID is the active-message id of all messages of UCXX and UCX-Py.
const AMID = 0

// MaxAMOwnerLen is the longest owner name of a receiver callback, in bytes.
const MaxAMOwnerLen = 63

const (
	formatAM      = "AM header"
	amOwnerSize   = MaxAMOwnerLen + 1
	amLegacySize  = 4
	amMinimalSize = amLegacySize + 1
	amCallback    = amOwnerSize + 8
	amTail        = 1 + 8
)

// AMPolicy specifies what the receiver of a rendezvous active message does without an allocator for the sender's memory
// type.
type AMPolicy uint8

const (
	// AMFallbackToHost receives into host memory. It is the default.
	AMFallbackToHost AMPolicy = 0
	// AMErrorOnUnsupported fails the receive.
	AMErrorOnUnsupported AMPolicy = 1
)

// AMHeader is the header of UCXX's active messages:
//
//	int32 memory type | u8 has callback | [64 B owner | u64 id] | u8 policy | u64 user length | user bytes
//
// The zero value describes a plain message in host memory.
type AMHeader struct {
	// MemoryType is the sender's ucs_memory_type_t of the payload: 0 host, 1 CUDA,
	// 2 CUDA managed. Values above those depend on the sender's UCX version.
	MemoryType int32
	// HasCallback reports whether the message is for the receiver callback identified by Owner and ID and not for the
	// endpoint's queue of active messages.
	HasCallback bool
	// Owner names the application that registered the callback, at most
	// MaxAMOwnerLen bytes without a zero byte. UCXX reserves "ucxx".
	Owner string
	// ID is the callback's number among those of its owner.
	ID uint64
	// Policy is the policy without an allocator for MemoryType.
	Policy AMPolicy
	// User is the application's own header. After decoding it is a part of the decoded slice, not a copy.
	User []byte
	// Legacy reports whether a decoded header has UCX-Py's form (only the memory type). Headers with Legacy set are
	// encoded in that form.
	Legacy bool
}

// Size returns the number of bytes that Append adds. The sender compares it with the largest header of the UCX worker:
// a larger one ends UCXX's process.
func (h *AMHeader) Size() int {
	if h.Legacy {
		return amLegacySize
	}
	n := amMinimalSize + amTail + len(h.User)
	if h.HasCallback {
		n += amCallback
	}
	return n
}

// Append appends the encoded header to dst. It returns an error for a header that receivers could not decode.
func (h *AMHeader) Append(dst []byte) ([]byte, error) {
	if err := h.validate(); err != nil {
		return dst, err
	}
	dst = binary.NativeEndian.AppendUint32(dst, uint32(h.MemoryType))
	if h.Legacy {
		return dst, nil
	}
	if h.HasCallback {
		dst = append(dst, 1)
		dst = append(dst, h.Owner...)
		dst = append(dst, make([]byte, amOwnerSize-len(h.Owner))...)
		dst = binary.NativeEndian.AppendUint64(dst, h.ID)
	} else {
		dst = append(dst, 0)
	}
	dst = append(dst, byte(h.Policy))
	dst = binary.NativeEndian.AppendUint64(dst, uint64(len(h.User)))
	return append(dst, h.User...), nil
}

func (h *AMHeader) validate() error {
	if h.MemoryType < 0 {
		return fieldErr(formatAM, "memory type", "%d is negative", h.MemoryType)
	}
	if h.Legacy && (h.HasCallback || h.Policy != 0 || len(h.User) != 0) {
		return fieldErr(formatAM, "length", "UCX-Py's form carries no callback, policy or user header")
	}
	if !h.HasCallback && (h.Owner != "" || h.ID != 0) {
		return fieldErr(formatAM, "owner", "%q with id %d set but HasCallback is false", h.Owner, h.ID)
	}
	if len(h.Owner) > MaxAMOwnerLen {
		return fieldErr(formatAM, "owner", "%d bytes, at most %d", len(h.Owner), MaxAMOwnerLen)
	}
	if strings.IndexByte(h.Owner, 0) >= 0 {
		return fieldErr(formatAM, "owner", "%q contains a zero byte", h.Owner)
	}
	if h.Policy > AMErrorOnUnsupported {
		return fieldErr(formatAM, "policy", "%d, know 0 (fall back to host) and 1 (error)", h.Policy)
	}
	return nil
}

// DecodeAMHeader decodes the header of an active message. Older senders end the header after the callback or after the
// policy, and UCX-Py after the memory type; missing fields then have their zero value. Bytes after the user header are
// skipped, since the format was extended at its end before. A truncated field is an error (UCXX itself reads past the
// end or drops the user header).
func DecodeAMHeader(b []byte) (AMHeader, error) {
	var h AMHeader
	if len(b) < amLegacySize {
		return AMHeader{}, fieldErr(formatAM, "memory type", "header has %d bytes, need 4", len(b))
	}
	h.MemoryType = int32(binary.NativeEndian.Uint32(b))
	if h.MemoryType < 0 {
		return AMHeader{}, fieldErr(formatAM, "memory type", "%d is negative", h.MemoryType)
	}
	b = b[amLegacySize:]
	if len(b) == 0 {
		h.Legacy = true
		return h, nil
	}
	switch b[0] {
	case 0:
	case 1:
		h.HasCallback = true
	default:
		return AMHeader{}, fieldErr(formatAM, "has callback", "byte %d, want 0 or 1", b[0])
	}
	b = b[1:]
	if h.HasCallback {
		var err error
		if h.Owner, err = decodeOwner(b); err != nil {
			return AMHeader{}, err
		}
		if len(b) < amCallback {
			return AMHeader{}, fieldErr(formatAM, "callback id", "%d bytes left, need 8", len(b)-amOwnerSize)
		}
		h.ID = binary.NativeEndian.Uint64(b[amOwnerSize:])
		b = b[amCallback:]
	}
	if len(b) == 0 {
		return h, nil
	}
	h.Policy = AMPolicy(b[0])
	if h.Policy > AMErrorOnUnsupported {
		return AMHeader{}, fieldErr(formatAM, "policy", "%d, know 0 (fall back to host) and 1 (error)", h.Policy)
	}
	b = b[1:]
	if len(b) == 0 {
		return h, nil
	}
	if len(b) < 8 {
		return AMHeader{}, fieldErr(formatAM, "user length", "%d bytes left, need 8", len(b))
	}
	n := binary.NativeEndian.Uint64(b)
	b = b[8:]
	if n > math.MaxInt || n > uint64(len(b)) {
		return AMHeader{}, fieldErr(formatAM, "user header", "%d bytes announced, %d left", n, len(b))
	}
	h.User = b[:n:n]
	return h, nil
}

func decodeOwner(b []byte) (string, error) {
	if len(b) < amOwnerSize {
		return "", fieldErr(formatAM, "owner", "%d bytes left, need %d", len(b), amOwnerSize)
	}
	b = b[:amOwnerSize]
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return "", fieldErr(formatAM, "owner", "no zero byte within %d bytes", amOwnerSize)
	}
	// UCXX compares all 64 bytes, so a name followed by other bytes would identify another callback there than here.
	for i, c := range b[end:] {
		if c != 0 {
			return "", fieldErr(formatAM, "owner", "byte %d behind the name %q is not zero", end+i, b[:end])
		}
	}
	return string(b[:end]), nil
}

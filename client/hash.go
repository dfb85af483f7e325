package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"go.millstream.dev/wire"
)

// hashSerialized is a hash of a value in its frames.
func hashSerialized(s *wire.Serialized) (string, error) {
	h := sha256.New()
	h.Write(s.Header)
	for _, f := range s.Frames {
		if f.OnDevice() {
			return "", fmt.Errorf("client: memory of a GPU cannot be hashed: set ScatterOptions.Unhashed")
		}
		h.Write(f.Bytes())
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

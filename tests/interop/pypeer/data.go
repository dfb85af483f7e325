package pypeer

import (
	"crypto/sha256"
	"encoding/hex"
)

// Pattern fills b with the test data of a seed, as the peers make it from
// {"size": len(b), "seed": seed}.
func Pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(seed + 7*i + i>>8)
	}
}

// NewPattern returns size bytes of Pattern.
func NewPattern(size, seed int) []byte {
	b := make([]byte, size)
	Pattern(b, seed)
	return b
}

// Data names the data of a seed in a command.
func Data(size, seed int) map[string]int {
	return map[string]int{"size": size, "seed": seed}
}

// Sum returns the sha256 that an answer has for b.
func Sum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

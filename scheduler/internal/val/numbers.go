package val

import (
	"math"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// Seconds returns a time in seconds since 1970, like Python's time().
func Seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Field reads the integer under a name; 0 for none.
func Field(m msgpack.Map, name string) int64 {
	v, _ := m.Get(name)
	n, _ := Integer(v)
	return n
}

// OrText returns text, or otherwise if text is empty.
func OrText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// Integer reads a number that Python may have encoded as a float.
func Integer(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v >= 0 && v < math.MaxInt64 {
			return int64(v), true
		}
	}
	return 0, false
}

// Number reads a number.
func Number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

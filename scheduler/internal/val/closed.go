package val

import (
	"go.millstream.dev/wire"
)

// Closed returns a value that outlives its message, still serialized; nil for nil.
func Closed(v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	if c, ok := v.(*wire.Serialized); ok {
		return ClosedValue(c), nil
	}
	return wire.EncodeValue(wire.Clone(v), wire.EncodeOptions{})
}

// ClosedValue returns a value that outlives its message; a serialized value stays serialized.
func ClosedValue(v any) any {
	c, ok := v.(*wire.Serialized)
	if !ok {
		return wire.Clone(v)
	}
	c = c.Retain()
	c.Header = append([]byte(nil), c.Header...)
	return detach(c)
}

// detach copies frames of counted memory to the heap: exceptions are small and long-lived.
func detach(c *wire.Serialized) *wire.Serialized {
	for i, f := range c.Frames {
		if f.OnDevice() {
			continue
		}
		c.Frames[i] = wire.HeapFrame(append([]byte(nil), f.Bytes()...))
		f.Release()
	}
	return c
}

// Untrusted are the options for data that clients have compressed.
var Untrusted = wire.DecodeOptions{MaxRatio: 256}

// KeepClosed are the options for messages whose values the scheduler forwards without decoding.
var KeepClosed = wire.DecodeOptions{Keep: true, KeepPickled: true, MaxRatio: 256}

package mem

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is an amount of memory in a configuration: a number of bytes, or a fraction of a device. The zero value is "not
// set".
type Size struct {
	bytes    int64
	fraction float64
	set      bool
}

// SizeBytes returns a Size of n bytes.
func SizeBytes(n int64) Size { return Size{bytes: n, set: true} }

// SizeFraction returns a Size that is a fraction of the device: 0.8 is four fifths of it.
func SizeFraction(f float64) Size { return Size{fraction: f, set: true} }

var sizeUnits = map[string]float64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12, "p": 1e15, "pb": 1e15,
	"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30,
	"ti": 1 << 40, "tib": 1 << 40, "pi": 1 << 50, "pib": 1 << 50,
}

// ParseSize parses a size like Dask-CUDA: "12GB" and "1.5 GiB" are bytes (GB are powers of ten, GiB of two), a number
// without a unit is bytes if it is above 1 and otherwise a fraction of the device, "auto" is the whole device. "", "0"
// and "none" are not set.
func ParseSize(text string) (Size, error) {
	const hint = `write a number of bytes such as 12GB or 1.5GiB, a fraction of the device such as 0.8, or "auto"`
	word := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(text), " ", ""))
	switch word {
	case "", "0", "none", "null":
		return Size{}, nil
	case "auto":
		return SizeFraction(1), nil
	}
	end := strings.LastIndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) + 1
	number, unit := word[:end], word[end:]
	factor, ok := sizeUnits[unit]
	if !ok {
		return Size{}, fmt.Errorf("mem: invalid size %.60q: unknown unit %.20q; %s", text, unit, hint)
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || strings.ContainsAny(number, "xp_") {
		return Size{}, fmt.Errorf("mem: invalid size %.60q; %s", text, hint)
	}
	switch n *= factor; {
	case n < 0:
		return Size{}, fmt.Errorf("mem: invalid size %.60q: negative; %s", text, hint)
	case n == 0:
		return Size{}, nil
	case unit == "" && n <= 1:
		return SizeFraction(n), nil
	case n >= math.MaxInt64:
		return Size{}, fmt.Errorf("mem: invalid size %.60q: too large; %s", text, hint)
	case n < 1:
		return Size{}, fmt.Errorf("mem: invalid size %.60q: less than a byte; %s", text, hint)
	}
	return SizeBytes(int64(n)), nil
}

// IsSet reports whether a size is set.
func (s Size) IsSet() bool { return s.set }

// Of returns the size in bytes for a device of total bytes, rounded down to a multiple of 256: the size of a pool. It
// returns an error if the size exceeds the device, or is less than 256 bytes. A size that is not set is 0.
func (s Size) Of(total int64) (int64, error) {
	if !s.set {
		return 0, nil
	}
	n := s.bytes
	if s.fraction != 0 {
		if !(s.fraction > 0 && s.fraction <= 1) {
			return 0, fmt.Errorf("mem: invalid fraction %v of a device: want above 0 and at most 1", s.fraction)
		}
		n = int64(s.fraction * float64(total))
	}
	if n > total {
		return 0, fmt.Errorf("%w: %v exceeds the %d bytes of the device: use less, or a fraction "+
			"such as 0.9", ErrOutOfMemory, s, total)
	}
	if n &^= 255; n <= 0 {
		return 0, fmt.Errorf("mem: %v of a device of %d bytes is less than 256 bytes: use more", s, total)
	}
	return n, nil
}

// String returns the size as text.
func (s Size) String() string {
	switch {
	case !s.set:
		return "not set"
	case s.fraction != 0:
		return strconv.FormatFloat(s.fraction, 'g', -1, 64) + " of the device"
	}
	return strconv.FormatInt(s.bytes, 10) + " bytes"
}

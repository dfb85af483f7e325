package config

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// The units of bytes and of time of dask.utils, in lower case.
var (
	byteUnits = map[string]float64{
		"": 1, "b": 1,
		"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
		"k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15,
		"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "pib": 1 << 50,
		"ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30, "ti": 1 << 40, "pi": 1 << 50,
	}
	timeUnits = map[string]float64{
		"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "m": 60, "h": 3600, "d": 86400, "w": 604800,
		"second": 1, "millisecond": 1e-3, "microsecond": 1e-6, "nanosecond": 1e-9, "minute": 60, "hour": 3600,
		"day": 86400, "week": 604800,
	}
)

// ParseBytes parses a number of bytes like dask.utils.parse_bytes: "12GB", "1.5 MiB", "1e6". GB are powers of ten, GiB
// powers of two.
func ParseBytes(text string) (int64, error) {
	number, unit := splitUnit(text, strings.ContainsFunc(text, unicode.IsDigit))
	factor, ok := byteUnits[unit]
	if !ok {
		return 0, fmt.Errorf("%q is not a number of bytes: unknown unit %q; write for example 500MB, 1GB or 1GiB",
			clip(text), clip(unit))
	}
	n, err := pythonFloat(number)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of bytes; write for example 500MB, 1GB or 1GiB", clip(text))
	}
	n = math.Trunc(n * factor)
	if math.IsNaN(n) || n >= math.MaxInt64 || n < math.MinInt64 {
		return 0, fmt.Errorf("%q bytes are too many", clip(text))
	}
	return int64(n), nil
}

// ParseDuration parses a duration like dask.utils.parse_timedelta: "30s", "1.5 minutes", "100ms". A number without a
// unit is seconds.
func ParseDuration(text string) (time.Duration, error) {
	compact := strings.ReplaceAll(text, " ", "")
	number, unit := splitUnit(text, compact != "" && unicode.IsDigit(rune(compact[0])))
	if unit == "" {
		unit = "s"
	}
	factor, ok := timeUnits[unit]
	if singular, plural := strings.CutSuffix(unit, "s"); !ok && plural && len(singular) > 2 {
		factor, ok = timeUnits[singular]
	}
	n, err := pythonFloat(number)
	if compact == "" || !ok || err != nil {
		return 0, fmt.Errorf("%q is not a time; write for example 30s, 500ms or 5 minutes", clip(text))
	}
	n *= factor * 1e9
	if math.IsNaN(n) || n >= math.MaxInt64 || n < math.MinInt64 {
		return 0, fmt.Errorf("%q is too long a time", clip(text))
	}
	return time.Duration(math.Round(n)), nil
}

// splitUnit cuts the unit off the end. A unit alone means one of it.
func splitUnit(text string, hasNumber bool) (number, unit string) {
	text = strings.ReplaceAll(text, " ", "")
	if !hasNumber {
		text = "1" + text
	}
	end := strings.LastIndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		return "", strings.ToLower(text)
	}
	for end++; end < len(text) && text[end]&0xC0 == 0x80; end++ { // to the end of the character
	}
	return text[:end], strings.ToLower(text[end:])
}

// pythonFloat is Python's float of a text that does not end with a letter: underscores are allowed between digits, and
// spaces around them.
func pythonFloat(text string) (float64, error) {
	text = strings.TrimSpace(text)
	if strings.Contains(text, "_") {
		if !literalFloat.MatchString(text) && literalDigits.FindString(text) != text {
			return 0, fmt.Errorf("%q is not a number", clip(text))
		}
		text = strings.ReplaceAll(text, "_", "")
	}
	return parseFloat(text)
}

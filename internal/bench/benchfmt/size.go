package benchfmt

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// suffixes are those of ParseSize, longest first. A single letter is binary, as in ucx_perftest and dd; "kB" and "MB"
// are decimal.
var suffixes = []struct {
	name  string
	bytes int64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1},
}

// ParseSize parses a number of bytes: "8", "64B", "1KiB", "1k" (binary), "1kB" (decimal), "8MiB", "1.5MiB". Case is
// ignored.
func ParseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	unit := int64(1)
	for _, suf := range suffixes {
		if rest, ok := strings.CutSuffix(text, suf.name); ok {
			text, unit = strings.TrimSpace(rest), suf.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return 0, fmt.Errorf("size %q is negative", s)
		}
		if n > math.MaxInt64/unit {
			return 0, fmt.Errorf("size %q does not fit in 63 bits", s)
		}
		return n * unit, nil
	}
	// Hexadecimal numbers, exponents and infinity are not accepted.
	if strings.Trim(text, "0123456789.") != "" {
		return 0, badSize(s)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, badSize(s)
	}
	bytes := f * float64(unit)
	if bytes >= math.MaxInt64 {
		return 0, fmt.Errorf("size %q does not fit in 63 bits", s)
	}
	if bytes != math.Trunc(bytes) {
		return 0, fmt.Errorf("size %q is not a whole number of bytes", s)
	}
	return int64(bytes), nil
}

func badSize(s string) error {
	return fmt.Errorf("size %q: want a number of bytes such as 8, 1KiB or 8MiB", s)
}

// maxSizes bounds a list, so that mistakes such as "0-1TiB*1" do not run without end.
const maxSizes = 256

// ParseSizes parses a list of sizes and ranges: "8,1KiB-1MiB" is 8, 1 KiB, 2 KiB, … 1 MiB. A range grows by the factor
// after "*", by default 2 ("1KiB-1MiB*4"), and ends with its upper bound. The result is sorted and has no duplicates.
func ParseSizes(list string) ([]int64, error) {
	var sizes []int64
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			return nil, fmt.Errorf("size list %q has an empty item", list)
		}
		lo, hi, isRange := strings.Cut(item, "-")
		if !isRange {
			n, err := ParseSize(item)
			if err != nil {
				return nil, err
			}
			sizes = append(sizes, n)
			continue
		}
		span, err := parseRange(item, lo, hi)
		if err != nil {
			return nil, err
		}
		sizes = append(sizes, span...)
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	if len(sizes) > maxSizes {
		return nil, fmt.Errorf("size list %q has %d sizes; the maximum is %d", list, len(sizes), maxSizes)
	}
	return sizes, nil
}

func parseRange(item, lo, hi string) ([]int64, error) {
	factor := int64(2)
	if h, f, ok := strings.Cut(hi, "*"); ok {
		n, err := strconv.ParseInt(strings.TrimSpace(f), 10, 64)
		if err != nil || n < 2 {
			return nil, fmt.Errorf("size range %q: the factor after * must be an integer of at least 2", item)
		}
		hi, factor = h, n
	}
	from, err := ParseSize(lo)
	if err != nil {
		return nil, err
	}
	to, err := ParseSize(hi)
	if err != nil {
		return nil, err
	}
	if from == 0 {
		return nil, fmt.Errorf("size range %q starts at 0, which does not grow; write 0 as a separate item", item)
	}
	if from > to {
		return nil, fmt.Errorf("size range %q is not ascending", item)
	}
	var sizes []int64
	for n := from; n < to; n *= factor {
		sizes = append(sizes, n)
		if n > to/factor {
			break
		}
	}
	return append(sizes, to), nil
}

// FormatSize formats a size: "8 B", "1 KiB", "1.5 MiB".
func FormatSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, u := float64(n), 0
	for v >= 1024 && u < len(units)-1 {
		v, u = v/1024, u+1
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + " " + units[u]
}

package benchfmt

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "8": 8, " 8 ": 8, "64B": 64, "1KiB": 1024, "1kib": 1024, "1K": 1024, "1k": 1024, "1kB": 1000,
		"8MiB": 8 << 20, "8 MiB": 8 << 20, "2MB": 2e6, "1.5MiB": 3 << 19, "1GiB": 1 << 30, "2g": 2 << 30,
		"1TiB":                1 << 40,
		"9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseSize(in); err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "want a number", "x": "want a number", "-1": "negative", "1XiB": "want a number", "1e3": "want a number",
		"0x10": "want a number", "inf": "want a number", "1.5": "whole number", "1.2.3": "want a number",
		"9223372036854775807KiB": "63 bits", "99999999999999999999TiB": "63 bits", "KiB": "want a number",
		".": "want a number",
	} {
		if got, err := ParseSize(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSize(%q) = %d, %v; want error with %q", in, got, err, want)
		}
	}
}

func TestParseSizes(t *testing.T) {
	for in, want := range map[string][]int64{
		"8":                {8},
		"8,1KiB":           {8, 1024},
		"1KiB, 8":          {8, 1024},
		"8,8,8B":           {8},
		"1KiB-8KiB":        {1024, 2048, 4096, 8192},
		"8,1KiB-4KiB,1MiB": {8, 1024, 2048, 4096, 1 << 20},
		"1KiB-64KiB*8":     {1024, 8192, 65536},
		"1KiB-100KiB*8":    {1024, 8192, 65536, 102400},
		"3-10":             {3, 6, 10},
		"8-8":              {8},
		"1-2":              {1, 2},
		"4611686018427387904-9223372036854775807": {1 << 62, 1<<63 - 1},
	} {
		if got, err := ParseSizes(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseSizes(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		"": "empty item", "8,": "empty item", "8,,9": "empty item", "8-4": "not ascending", "0-8": "starts at 0",
		"1-8*1": "factor", "1-8*x": "factor", "1-": "want a number", "-8": "want a number", "8,x": "want a number",
	} {
		if got, err := ParseSizes(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseSizes(%q) = %v, %v; want error with %q", in, got, err, want)
		}
	}
	many := "1"
	for i := 2; i <= maxSizes+1; i++ {
		many += "," + strconv.Itoa(i)
	}
	if _, err := ParseSizes(many); err == nil || !strings.Contains(err.Error(), "the maximum is 256") {
		t.Errorf("a list of 257 sizes: %v", err)
	}
}

func TestFormatSize(t *testing.T) {
	for in, want := range map[int64]string{
		0: "0 B", 8: "8 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 8 << 20: "8 MiB",
		1 << 30: "1 GiB",
		1 << 40: "1 TiB", 1 << 50: "1024 TiB",
	} {
		if got := FormatSize(in); got != want {
			t.Errorf("FormatSize(%d) = %q, want %q", in, got, want)
		}
	}
}

// What FormatSize writes, ParseSize reads back (up to its two decimals).
func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{"8", "1KiB-1MiB", "8,1KiB-64KiB*8", "1.5MiB", "-", "1-*", "999999999999TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sizes, err := ParseSizes(s)
		if err != nil {
			return
		}
		if len(sizes) == 0 || len(sizes) > maxSizes || !slices.IsSorted(sizes) || sizes[0] < 0 {
			t.Fatalf("ParseSizes(%q) = %v", s, sizes)
		}
		for _, n := range sizes {
			if n%1024 == 0 && n < 1<<20 {
				if back, err := ParseSize(FormatSize(n)); err != nil || back != n {
					t.Fatalf("%d -> %q -> %d, %v", n, FormatSize(n), back, err)
				}
			}
		}
	})
}

package mem_test

import (
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

func TestParseSize(t *testing.T) {
	const device = 80 << 30
	for text, want := range map[string]int64{
		"12GB": 12_000_000_000, "12 gb": 12_000_000_000, "1.5GiB": 3 << 29, "1e9": 1_000_000_000 &^ 255, "4096": 4096,
		"5000M": 5_000_000_000 &^ 255,
		"0.5":   40 << 30, "1": device, "1.0": device, "auto": device, ".25": 20 << 30, "1B": -1, "2": -1, "256": 256,
		"80GiB": device,
		"":      0, "0": 0, "0.0": 0, "None": 0, "0GB": 0,
		"81GiB": -2, "1PB": -2, "12XB": -3, "GB": -3, "-1GB": -3, "-0.5": -3, "nan": -3, "inf": -3, "0x10": -3,
		"1_000": -3, "1e400": -3, "99999999PB": -3, "0.1B": -3, "1..5GB": -3, "12GB!": -3,
	} {
		s, err := mem.ParseSize(text)
		if want == -3 {
			if err == nil || !strings.Contains(err.Error(), "12GB or 1.5GiB") {
				t.Errorf("%q: %v, %v", text, s, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		n, err := s.Of(device)
		switch {
		case want == -1:
			if err == nil || !strings.Contains(err.Error(), "less than 256 bytes") {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		case want == -2:
			if !errors.Is(err, mem.ErrOutOfMemory) || !strings.Contains(err.Error(), "bytes of the device") {
				t.Errorf("%q: %d, %v", text, n, err)
			}
		case err != nil || n != want&^255 || s.IsSet() != (want != 0):
			t.Errorf("%q (%v): %d, want %d: %v", text, s, n, want, err)
		}
	}
	for s, want := range map[mem.Size]string{{}: "not set", mem.SizeBytes(4096): "4096 bytes",
		mem.SizeFraction(0.8): "0.8 of the device"} {
		if s.String() != want {
			t.Errorf("%q, want %q", s, want)
		}
	}
	if _, err := mem.SizeFraction(1.5).Of(device); err == nil || !strings.Contains(err.Error(), "at most 1") {
		t.Errorf("more than a device: %v", err)
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"12GB", "0.8", "auto", "1e9", "-1", "9999999999999999PB", " 1.5 GiB "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := mem.ParseSize(text)
		if err != nil {
			if len(err.Error()) > 400 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		const device = 1 << 36
		if n, err := s.Of(device); err == nil && (n < 0 || n > device || n%256 != 0 || n == 0 == s.IsSet()) {
			t.Errorf("%q is %v, %d bytes", text, s, n)
		}
	})
}

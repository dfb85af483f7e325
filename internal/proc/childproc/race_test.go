package childproc

import (
	"os"
	"testing"
)

func TestNoRaceSleep(t *testing.T) {
	for before, want := range map[string]string{
		"": "atexit_sleep_ms=0", "halt_on_error=1": "halt_on_error=1 atexit_sleep_ms=0",
		"atexit_sleep_ms=7": "atexit_sleep_ms=7",
	} {
		t.Setenv("GORACE", before)
		if NoRaceSleep(); os.Getenv("GORACE") != want {
			t.Errorf("%q became %q, want %q", before, os.Getenv("GORACE"), want)
		}
	}
}

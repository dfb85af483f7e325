package childproc

import (
	"os"
	"strings"
)

// NoRaceSleep spares children that are built with the race detector the second that they otherwise sleep at their end,
// so that goroutines may still be caught. What the user says about it stays. It is for the TestMain of tests that start
// many of them.
func NoRaceSleep() {
	race := os.Getenv("GORACE")
	if !strings.Contains(race, "atexit_sleep_ms") {
		_ = os.Setenv("GORACE", strings.TrimSpace(race+" atexit_sleep_ms=0"))
	}
}

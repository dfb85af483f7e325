package childproc

import (
	"os"
	"strings"
)

// NoRaceSleep saves children that are built with the race detector the second that they otherwise sleep at their end to
// catch late races. Settings of the user are kept. It is for TestMain of tests that start many children.
func NoRaceSleep() {
	race := os.Getenv("GORACE")
	if !strings.Contains(race, "atexit_sleep_ms") {
		_ = os.Setenv("GORACE", strings.TrimSpace(race+" atexit_sleep_ms=0"))
	}
}

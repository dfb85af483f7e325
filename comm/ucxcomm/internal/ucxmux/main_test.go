package ucxmux

import (
	"fmt"
	"os"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

// sleeperVariable makes the test binary a process that only waits to be killed.
const sleeperVariable = "MILLSTREAM_UCXDOOR_TEST_SLEEPER"

func TestMain(m *testing.M) {
	if os.Getenv(sleeperVariable) != "" {
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	os.Exit(leak.Main(m))
}

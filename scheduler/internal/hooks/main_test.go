package hooks

import (
	"os"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

package outbox

import (
	"os"
	"testing"

	_ "go.millstream.dev/comm/tcp"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

package downstream

import (
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

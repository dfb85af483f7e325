package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/proc/childproc"
)

// The test binary is the millstream command too: scripts and the children of
// bench and demo run it.
func TestMain(m *testing.M) {
	cluster.Main() // workers of tests that run commands in this process
	childproc.NoRaceSleep()
	testscript.Main(m, map[string]func(){"millstream": func() { os.Exit(Main()) }})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			repository, err := filepath.Abs("..") // where the programs of the peers are
			if err != nil {
				return err
			}
			env.Setenv("REPOSITORY", repository)
			for _, name := range []string{"MILLSTREAM_UCX_LIBRARY", "MILLSTREAM_PERFTEST", "LD_LIBRARY_PATH",
				"GORACE"} {
				if v, ok := os.LookupEnv(name); ok {
					env.Setenv(name, v)
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "gpu" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			gpus, _ := findGPUs()
			return len(gpus) > 0, nil
		},
	})
}

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"go.millstream.dev"
	"go.millstream.dev/cli"
	"go.millstream.dev/cluster"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/proc/childproc"
)

var square = millstream.Func("e2e.square", func(_ context.Context, x int) (int, error) { return x * x, nil })

// The test binary is the millstream command, with a function of its own, and the programs.
func TestMain(m *testing.M) {
	cluster.Main()
	childproc.NoRaceSleep()
	program := func(f func(context.Context, []string) error) func() {
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
			defer cancel()
			if err := f(ctx, os.Args[1:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	testscript.Main(m, map[string]func(){
		"millstream":   func() { os.Exit(cli.Main()) },
		"client":       program(clientProgram),
		"local-cuda":   program(localCUDAProgram),
		"client-by-go": program(clientByGo),
		"serve-file":   program(serveByFile),
		"call-file":    program(callByFile),
		"serve-socket": program(serveBySocket),
		"call-socket":  program(callBySocket),
	})
}

// clientProgram is the client of the guide: the environment says everything.
func clientProgram(ctx context.Context, args []string) error {
	client, err := millstream.Connect(ctx, args[0])
	return squareOf12(ctx, client, err)
}

func squareOf12(ctx context.Context, client *millstream.Client, err error) error {
	if err != nil {
		return err
	}
	defer client.Close()
	got, err := square.Submit(ctx, client, millstream.Val(12)).Result(ctx)
	if err != nil {
		return err
	}
	fmt.Println("12 squared is", got)
	return nil
}

// clientByGo is the same with options of its own: cluster.NewNetwork.
func clientByGo(ctx context.Context, args []string) error {
	n, err := cluster.NewNetwork(cluster.NetworkConfig{Overrides: config.Overrides{UCX: config.UCX{TCP: config.On}}})
	if err != nil {
		return err
	}
	defer n.Close()
	fmt.Println("UCX_TLS", n.Settings().Options["TLS"])
	client, err := millstream.ConnectWith(ctx, millstream.ConnectOptions{Address: args[0], Network: n})
	return squareOf12(ctx, client, err)
}

// localCUDAProgram is the guide's LocalCUDACluster with all that UCX can do.
func localCUDAProgram(ctx context.Context, args []string) error {
	c, err := cluster.LocalCUDA(ctx, cluster.CUDAConfig{
		Protocol:  "ucx",
		Interface: args[0], // used for the scheduler
		UCX:       config.UCX{TCP: config.On, NVLink: config.On, InfiniBand: config.On, NetDevices: "auto"},
		RMM:       cluster.RMMConfig{PoolSize: "24GB"},
	}, cluster.Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	client, err := c.Client(ctx)
	if err != nil {
		return err
	}
	return client.Close()
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Condition: func(name string) (bool, error) {
			if name != "gpu" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return cuda.Available() == nil, nil
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			for _, name := range []string{"MILLSTREAM_UCX_LIBRARY", "LD_LIBRARY_PATH", "GORACE"} {
				if v, ok := os.LookupEnv(name); ok {
					env.Setenv(name, v)
				}
			}
			return os.WriteFile(filepath.Join(env.WorkDir, "lib.sh"), []byte(helpers), 0o600)
		},
	})
}

// helpers is the shell that the scripts share.
const helpers = `wait_for() { # FILE PATTERN
	n=0
	until grep -q "$2" "$1" 2>/dev/null || [ $n -gt 900 ]; do sleep 0.1; n=$((n+1)); done
	[ $n -le 900 ] || { echo "no $2 in $1"; cat "$1" *.err; exit 1; }
}
address() { sed -n 's/^scheduler at //p' "$1"; }
`

package commpeer

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// TestMain is also the Go process of a pair.
func TestMain(m *testing.M) {
	if os.Getenv("MILLSTREAM_COMMPEER") != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}

func goStarter(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(cmd.Environ(), "MILLSTREAM_COMMPEER=1")
	return cmd
}

// Two processes connect and exchange messages of every kind.
func TestPair(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := Start(ctx, goStarter, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	client, err := Start(ctx, goStarter, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Stop()
	a, err := server.Do(ctx, Command{Do: "listen", Address: "tcp://127.0.0.1:0"})
	if err != nil || !strings.HasPrefix(a.Address, "tcp://127.0.0.1:") {
		t.Fatalf("listen: got %+v, %v; want an address", a, err)
	}
	for _, c := range []Command{
		{Do: "connect", Address: a.Address}, {Do: "rtt", N: 3}, {Do: "echo", N: 2, Size: 1 << 20},
		{Do: "idle", Address: a.Address, N: 2},
	} {
		got, err := client.Do(ctx, c)
		if err != nil || c.Size > 0 && got.Seconds <= 0 {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}

// A process replies with the error of a failed command.
func TestErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := Start(ctx, goStarter, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	for c, want := range map[Command]string{
		{Do: "dance"}:                            `unknown command "dance"`,
		{Do: "rtt", N: 1}:                        "not connected",
		{Do: "listen", Address: "pigeon://coop"}: "pigeon",
	} {
		if _, err := p.Do(ctx, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", c, err, want)
		}
	}
}

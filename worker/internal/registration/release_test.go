package registration

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// daskComm is a comm whose peer is a Dask process.
type daskComm struct{ comm.Comm }

func (c daskComm) Info() comm.Info {
	i := c.Comm.Info()
	i.Millstream = nil
	return i
}

// A worker checks the release of a Dask scheduler: old releases are rejected with an error, and so is a reply without a
// release.
func TestSchedulerRelease(t *testing.T) {
	for _, tc := range []struct{ release, want string }{
		{"2026.8.0", ""}, {"2025.4.1", ""}, {"2031.1.0", ""}, {"", ""}, {"2025.3.1", "2025.4.1 to"},
		{"2022.12.0", "2025.4.1 to"},
	} {
		t.Run(tc.release, func(t *testing.T) {
			l, err := comm.Default.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
			if err != nil {
				t.Fatal(err)
			}
			s := rpc.NewServer(rpc.Config{Type: "Scheduler"})
			s.Handle("versions", func(context.Context, *rpc.Request) (any, error) {
				return msgpack.MapOf("packages", msgpack.MapOf("distributed", tc.release)), nil
			})
			served := make(chan struct{})
			go func() { defer close(served); _ = s.Serve(context.Background(), l) }()
			defer func() { _ = s.Close(); <-served }()
			conn, err := comm.Default.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Abort()
			c := &Client{cfg: Config{Scheduler: l.ContactAddr()}, log: slog.New(slog.DiscardHandler)}
			err = c.checkRelease(t.Context(), daskComm{conn})
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v", err)
			}
		})
	}
}

package guide

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/proc/docfiles"
)

// DefaultPort is the port of the command.
const DefaultPort = 8790

const long = `Serves the guide on a local port, from the binary: rendered pages, an index and a
search. It needs no network and no browser script, and ends with Ctrl-C.`

// Command returns the command docs.
func Command(group string) *cobra.Command {
	host, port := httpguard.Loopback, DefaultPort
	cmd := &cobra.Command{
		Use:     "docs",
		Short:   "Serve the guide in the browser",
		GroupID: group,
		Long:    long,
		Example: "  millstream docs\n  millstream docs --port 0    any free port",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if docfiles.Files == nil {
				return errors.New("docs: this binary contains no documents; use bin/millstream, or import " +
					"go.millstream.dev/docs in the program")
			}
			return serve(cmd.Context(), net.JoinHostPort(host, strconv.Itoa(port)), func(address string) {
				fmt.Fprintf(cmd.OutOrStdout(), "guide at http://%s/\n", address)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&host, "host", host, "address to listen on")
	fs.IntVar(&port, "port", port, "port to listen on; 0 for any free port")
	return cmd
}

// serve serves the documents of the binary until ctx ends. It calls ready with the address.
func serve(ctx context.Context, address string, ready func(string)) error {
	handler, err := New(docfiles.Files)
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("docs: %w; choose another port with --port", err)
	}
	host, _, _ := net.SplitHostPort(address)
	ready(httpguard.Reachable(l.Addr().String(), host))
	server := &http.Server{Handler: httpguard.Guard(handler, host), ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("docs: %w", err)
	}
	return nil
}

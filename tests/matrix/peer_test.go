package matrix

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"go.millstream.dev/ucx"
)

// roleVariable makes this test binary act as one end of a conversation. Each end is
// a process of its own because a process can load only one libucp.
const roleVariable = "MILLSTREAM_MATRIX_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		ctx, cancel := context.WithTimeout(context.Background(), talkTimeout)
		go func() { // the parent's end is ours
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
		err := talk(ctx, role, os.Getenv("MILLSTREAM_MATRIX_SOCKET"))
		cancel()
		if err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// sizes cross the borders between inline, eager and rendezvous.
var sizes = []int{0, 1, 8, 1024, 1025, 8192, 65536, 1 << 20, 4<<20 + 3}

// talkTimeout bounds a conversation: releases that do not understand each other hang.
const talkTimeout = 15 * time.Second

const (
	echoTag = 7
	amID    = 9
)

// talk is one whole conversation: tag and active messages, both ways, all sizes.
func talk(ctx context.Context, role, socket string) error {
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.OpenAM(amID); err != nil {
		return err
	}
	if role == "server" {
		return serve(ctx, w, socket)
	}
	ep, err := w.Dial(ctx, socket)
	if err != nil {
		return err
	}
	if err := client(ctx, w, ep); err != nil {
		return err
	}
	transports, err := ep.Transports()
	if err != nil {
		return err
	}
	fmt.Printf("%s %v\n", c.Info().Library.Version, transports)
	return ep.Close()
}

func serve(ctx context.Context, w *ucx.Worker, socket string) error {
	l, err := w.Listen(ctx, socket)
	if err != nil {
		return err
	}
	defer l.Close()
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "listening")
	if err := out.Flush(); err != nil {
		return err
	}
	ep, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	buf := make([]byte, sizes[len(sizes)-1])
	for range sizes {
		info, err := ep.Recv(ctx, ucx.Bytes(buf), echoTag, ucx.FullMask)
		if err != nil {
			return err
		}
		if err := ep.Send(ctx, ucx.Bytes(buf[:info.Len]), echoTag+1); err != nil {
			return err
		}
		m, err := w.RecvAM(ctx, amID)
		if err != nil {
			return err
		}
		data, err := m.Bytes(ctx, len(buf))
		if err != nil {
			return err
		}
		if err := ep.SendAM(ctx, amID, m.Header, ucx.AMOptions{}, ucx.Bytes(data)); err != nil {
			return err
		}
	}
	select {
	case <-ep.Done(): // the client closes first
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func client(ctx context.Context, w *ucx.Worker, ep *ucx.Endpoint) error {
	random := rand.NewChaCha8([32]byte{1})
	for _, n := range sizes {
		msg := make([]byte, n)
		_, _ = random.Read(msg)
		got := make([]byte, n)
		if err := ep.Send(ctx, ucx.Bytes(msg), echoTag); err != nil {
			return err
		}
		info, err := ep.Recv(ctx, ucx.Bytes(got), echoTag+1, ucx.FullMask)
		if err != nil {
			return err
		}
		if info.Len != n || !bytes.Equal(msg, got) {
			return fmt.Errorf("tag message of %d bytes came back as %d, equal %v", n, info.Len, bytes.Equal(msg, got))
		}
		header := fmt.Appendf(nil, "size %d", n)
		if err := ep.SendAM(ctx, amID, header, ucx.AMOptions{}, ucx.Bytes(msg)); err != nil {
			return err
		}
		m, err := w.RecvAM(ctx, amID)
		if err != nil {
			return err
		}
		data, err := m.Bytes(ctx, n)
		if err != nil {
			return err
		}
		if !bytes.Equal(m.Header, header) || !bytes.Equal(data, msg) {
			return fmt.Errorf("active message of %d bytes came back as %d with header %q", n, len(data), m.Header)
		}
	}
	return nil
}

package tcp

import (
	"context"
	"net"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"golang.org/x/sys/unix"
)

func TestKeepAlive(t *testing.T) {
	// Pairs of what Dask's set_tcp_timeout computes.
	for timeout, want := range map[time.Duration][2]int{0: {10, 2}, 30 * time.Second: {10, 2}, 11 * time.Second: {1, 1},
		100 * time.Second: {30, 7}, time.Hour: {900, 270}} {
		got, err := keepAlive(timeout)
		if err != nil || got.Count != 10 || got.Idle != time.Duration(want[0])*time.Second ||
			got.Interval != time.Duration(want[1])*time.Second {
			t.Errorf("%v: %+v, %v", timeout, got, err)
		}
	}
	if _, err := keepAlive(10 * time.Second); err == nil {
		t.Error("ten seconds are enough for ten probes")
	}
}

// The options are on the sockets of both ends.
func TestSocketOptions(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l, err := comm.Listen(ctx, "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := comm.Dial(ctx, l.ContactAddr(), comm.DialConfig{TCPTimeout: 100 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for c, want := range map[comm.Comm][6]int{a: {1, 1, 10, 30, 7, 100_000}, b: {1, 1, 10, 10, 2, 30_000}} {
		got := options(t, c.(*conn).raw)
		if got != want {
			t.Errorf("nodelay, keepalive, count, idle, interval, user timeout are %v, want %v", got, want)
		}
	}
}

func options(t *testing.T, c *net.TCPConn) (got [6]int) {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = rc.Control(func(fd uintptr) {
		for i, o := range [][2]int{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
			{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT},
		} {
			if got[i], err = unix.GetsockoptInt(int(fd), o[0], o[1]); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
	return got
}

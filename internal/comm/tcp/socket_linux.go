package tcp

import (
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// defaultTimeout is distributed.comm.timeouts.tcp.
const defaultTimeout = 30 * time.Second

// probes is how many keepalive probes may remain unanswered, as in Dask.
const probes = 10

// keepAlive divides a timeout into idle time and probes, like Dask's set_tcp_timeout.
func keepAlive(timeout time.Duration) (net.KeepAliveConfig, error) {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	s := int(timeout / time.Second)
	if s < probes+1 {
		return net.KeepAliveConfig{}, fmt.Errorf("comm: tcp timeout of %v is too low: want at least %d s "+
			"(distributed.comm.timeouts.tcp)", timeout, probes+1)
	}
	interval := max(1, (s-max(2, s/4))/probes)
	return net.KeepAliveConfig{
		Enable: true, Count: probes,
		Idle: time.Duration(s-interval*probes) * time.Second, Interval: time.Duration(interval) * time.Second,
	}, nil
}

// control returns a function that sets TCP_USER_TIMEOUT on a new socket; accepted ones inherit it from the listening
// one.
func control(timeout time.Duration) func(network, address string, rc syscall.RawConn) error {
	if timeout == 0 {
		timeout = defaultTimeout
	}
	return func(_, _ string, rc syscall.RawConn) error {
		var failed error
		err := rc.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout/time.Millisecond))
		})
		if err == nil {
			err = failed
		}
		return err
	}
}

// unacknowledged returns the number of written bytes that the peer has not acknowledged.
func unacknowledged(c *net.TCPConn) (n int, err error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	if e := rc.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCOUTQ) }); e != nil {
		err = e
	}
	return n, err
}

// drain discards received data that was not read.
func drain(c *net.TCPConn) {
	rc, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		scratch := make([]byte, 64<<10)
		for range 64 { // bounded, for a peer that floods
			n, _, err := unix.Recvfrom(int(fd), scratch, unix.MSG_DONTWAIT)
			if n <= 0 || err != nil {
				return
			}
		}
	})
}

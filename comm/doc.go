// Package comm connects processes with whole messages, like Dask's distributed.comm: tcp://, tls://, inproc://, ucx://
// and ucxx:// addresses behind one interface.
//
// A backend registers its schemes when its package is imported. Packages client, scheduler and worker import that of
// tcp:// and tls://; a program without them imports comm/ucxcomm, which registers all schemes:
//
//	import (
//		"go.millstream.dev/comm"
//		_ "go.millstream.dev/comm/ucxcomm" // tcp://, tls://, ucx:// and ucxx://
//	)
//
//	l, err := comm.Listen(ctx, "tcp://0.0.0.0:8786", comm.ListenConfig{})
//	for {
//		c, err := l.Accept(ctx) // its handshake is done
//		go serve(ctx, c)
//	}
//
//	c, err := comm.Dial(ctx, "tcp://scheduler:8786", comm.DialConfig{})
//	defer c.Close()
//	err = c.Write(ctx, msg)
//	reply, err := c.Read(ctx)
//	defer reply.Release()
//
// Dial retries, with pauses, until its timeout; then errors.Is(err, os.ErrDeadlineExceeded) is true, and the error has
// the cause of the last attempts. Every operation on a comm that has ended, on either side, returns an error that
// matches ErrClosed with errors.Is. Done reports the end also without a Read or Write.
//
// Messages of a peer are bounded before memory is allocated for them: see Limits.
package comm

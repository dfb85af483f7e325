// Package comm connects processes with whole messages, as Dask's distributed.comm does:
// tcp://, tls://, inproc://, ucx:// and ucxx:// addresses behind one interface.
//
// A backend registers its schemes when its package is imported. Packages client, scheduler and worker import that of
// tcp:// and tls://; a program that has none of them imports comm/ucxcomm, which registers all schemes:
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
// Dial tries again, with pauses, until its time is over; errors.Is(err,
// os.ErrDeadlineExceeded) tells that, and the error carries what the attempts met. Every
// operation on a comm that has ended, on either side, returns an error in which errors.Is
// finds ErrClosed. Done tells of the end also to those who neither read nor write.
//
// What a peer sends is bounded before it is believed: see Limits.
package comm

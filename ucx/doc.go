// Package ucx moves host and GPU memory between processes over the fastest lanes
// there are: shared memory, CUDA IPC, InfiniBand, TCP. It is a binding to UCX
// (https://openucx.org), whose library libucp it opens at run time: no header and no
// library is needed to build, and one binary works with UCX 1.13 to 1.22.
//
// # From zero to a message
//
// A [Context] is a choice of transports, a [Worker] a set of connections that make
// progress together, an [Endpoint] one connection. Two processes on one host:
//
//	// both
//	c, err := ucx.NewContext(ucx.Config{})
//	w, err := c.NewWorker(ucx.WorkerConfig{})
//
//	// server
//	l, err := w.Listen(ctx, "127.0.0.1:7300")
//	ep, err := l.Accept(ctx)
//	info, err := ep.Recv(ctx, ucx.Bytes(buf), 42, ucx.FullMask)
//
//	// client
//	ep, err := w.Dial(ctx, "127.0.0.1:7300")
//	err = ep.Send(ctx, ucx.Bytes(msg), 42)
//	err = ep.Close()
//
// The address is only where the two meet. Data goes over shared memory here, and
// over whatever UCX finds best elsewhere; [Endpoint.Transports] tells.
//
// # Three ways to connect
//
//   - [Worker.Dial] and [Worker.Listen], between Millstream programs: the socket stays
//     open as a lifeline, so that a peer's death is noticed within milliseconds and a
//     close loses nothing.
//   - [Worker.DialSocket] and [Worker.ListenSocket]: UCX's own client and server
//     connections, for other UCX programs. [Worker.DialUCXX] and [Worker.ListenUCXX]
//     speak the protocol of Python's UCXX on top.
//   - [Worker.Connect] with a [WorkerAddress], exchanged by file, DNS or anything else:
//     no IP address at all.
//
// # What can be sent, and how
//
// Tagged messages ([Endpoint.Send], [Endpoint.Recv]), active messages with header and
// id ([Endpoint.SendAM], [Worker.RecvAM]), many buffers as one message
// ([Endpoint.SendFrames]), byte streams ([Endpoint.SendStream]), remote memory
// ([Endpoint.Put], [Endpoint.Get], [AtomicAt], [NewRemoteFile]), and a net.Conn
// ([Worker.DialConn], [Worker.ListenConn]) for programs that know nothing of all this.
//
// Each operation has two forms. X(ctx, …) returns when it is done. StartX(…) returns a
// [Request] at once, to wait for with [Request.Wait] or [Request.Done].
//
// # Memory
//
// A [View] names memory for one operation: [Bytes] and [Of] view slices, [Buffer] views
// counted memory of package mem (mapped, pinned, device memory, pools), [Holder] and
// [FromArrayInterface] what other libraries own. Nothing is copied but small Go slices.
//
// A slice is borrowed until a blocking call returns, or until the Request is done. A
// mem.Buffer is retained by the operation itself. After a blocking call has returned,
// for whatever reason, nothing of UCX touches the memory any more.
//
// # Errors, deadlines, cancellation
//
// Errors are *[OpError] around a [Status], [ErrClosed], or the context's error; errors.Is
// relates them to net.ErrClosed, context.Canceled and os.ErrDeadlineExceeded. A
// message that is too long is a *[TruncatedError] with both lengths.
//
// UCX can take back only a receive that nothing has matched. When the context of a
// blocking call ends in any other state and UCX holds the caller's memory, the
// endpoint is force-closed: the call returns at once, the memory is the caller's, and
// [Endpoint.Err] says why the endpoint is gone. Small sends are copied and are simply
// given up. [Request.Wait] only stops waiting.
//
// [Endpoint.Done] is closed when an endpoint has failed or was closed; every operation
// of it ends with the same reason. [Endpoint.Close] flushes, within five seconds or the
// deadline given to [Endpoint.CloseContext].
//
// # Progress
//
// There is nothing to call. A goroutine that waits drives UCX itself, spins for as
// long as recent waits make sensible, and then sleeps in Go's poller; an idle worker
// costs no CPU. [WorkerConfig].Progress chooses spinning without sleep ([Polling]) or a
// thread of the worker's own ([Thread]). Everything is safe for any number of
// goroutines.
//
// # Settings
//
// UCX_* variables of the user are never overridden ([Config].Options loses against them,
// with a log line). One exception: UCX_ERROR_SIGNALS is emptied, because UCX 1.13 would
// take Go's signal handlers away. Millstream's own variables:
//
//	MILLSTREAM_UCX_LIBRARY  path of libucp.so.0; default: searched for, see [Library]
//	MILLSTREAM_IFNAME       interface that [Address] looks at; UCXPY_IFNAME works too
//
// Active-message ids 1024 to 1039 are Millstream's; UCXX uses 0.
//
// # When it is slow
//
// [Endpoint.Transports] says which lanes are used, [Worker.Stats] what the worker did.
// `millstream doctor` finds what keeps UCX from a faster lane, `millstream bench ucx
// --peers` compares with ucx_perftest on the same host.
package ucx

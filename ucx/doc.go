// Package ucx moves host and GPU memory between processes over the fastest lanes
// there are: shared memory, CUDA IPC, InfiniBand, TCP. It is a binding to UCX
// (https://openucx.org), whose library libucp it opens at run time: no header and no
// library is needed to build, and one binary works with UCX 1.13 to 1.22.
//
// # From zero to a message
//
// Two processes on one host:
//
//	// server
//	l, err := ucx.Listen(ctx, "127.0.0.1:7300")
//	ep, err := l.Accept(ctx)
//	info, err := ep.Recv(ctx, ucx.Bytes(buf), 42, ucx.FullMask)
//
//	// client
//	ep, err := ucx.Dial(ctx, "127.0.0.1:7300")
//	err = ep.Send(ctx, ucx.Bytes(msg), 42)
//	err = ep.Close()
//
// The address is only where the two meet. Data goes over shared memory here, and
// over whatever UCX finds best elsewhere; [Endpoint.Transports] lists what is used.
//
// A [Context] is a choice of transports, a [Worker] a set of connections that make
// progress together, an [Endpoint] one connection. [Dial] and [Listen] use the worker of
// [Default], a [Network] that makes its context and worker on first use;
// [NewContext] and [Context.NewWorker] make others.
//
// One context and one worker are enough for most programs. Everything is safe for any
// number of goroutines; several workers only mean that busy goroutines share less.
// [Available] says whether there is a UCX at all, and how to get one.
//
// # Three ways to connect
//
//   - [Worker.Dial] and [Worker.Listen], between Millstream programs: the socket stays
//     open as a lifeline, so that a peer's death is noticed within milliseconds and a
//     close loses nothing. Addresses are "host:port", "unix:///path" or "unix:@name";
//     [Worker.Attach] takes a connection that exists.
//   - [Worker.DialSocket] and [Worker.ListenSocket]: UCX's own client and server
//     connections, for other UCX programs. [Listener.Next] shows who comes before
//     anyone is let in. [Worker.DialUCXX] and [Worker.ListenUCXX] speak the protocol
//     of UCXX, the Python library, on top.
//   - [Worker.Connect] with a [WorkerAddress], exchanged by file, DNS or anything else:
//     no IP address at all. A peer's death is noticed by UCX's keepalive only.
//
// # What can be sent, and how
//
// Each operation has two forms. X(ctx, …) returns when it is done. StartX(…) returns a
// [Request] at once, to wait for with [Request.Wait] or [Request.Done].
//
// Tagged messages are matched by the receiver, by the bits of a mask. Tags belong to the
// worker: give each connection tags of its own where that matters. [Endpoint.Recv] fails
// with its endpoint, [Worker.Recv] waits for anyone:
//
//	err := ep.Send(ctx, ucx.Of(floats), 7)                      // done when floats may be reused
//	err = ep.SendSync(ctx, ucx.Of(floats), 7)                   // … when the peer has begun to receive
//	info, err := w.Recv(ctx, ucx.Bytes(buf), 0, ucx.AnyTag)     // from anyone, with any tag
//	data, info, err := w.RecvAlloc(ctx, 7, ucx.FullMask, 1<<20) // of unknown length, up to 1 MiB
//
// Active messages come to the worker that opened their id, with a header and, for large ones,
// the receiver's choice of memory. They can be gathered from several views and answered:
//
//	err := w.HandleAM(ctx, 1, func(ctx context.Context, m *ucx.AM) {
//		data, err := m.Bytes(ctx, 1<<20) // or m.Buffer(ctx, pool)
//		err = m.ReplyTo.SendAM(ctx, 2, nil, ucx.AMOptions{}, ucx.Bytes(answer))
//	})
//	err = ep.SendAM(ctx, 1, []byte("header"), ucx.AMOptions{Reply: true}, ucx.Bytes(a), ucx.Bytes(b))
//
// Many buffers travel as one message, each keeping its length and its kind of memory:
//
//	err := ep.SendFrames(ctx, ucx.Bytes(header), ucx.Buffer(deviceColumn))
//	frames, err := ep.RecvFrames(ctx, ucx.Allocators{Device: devicePool})
//
// Remote memory is read and written without the peer's program. What [Endpoint.Put] has
// written is visible to the peer after [Endpoint.Flush]:
//
//	m, err := c.Register(ucx.Buffer(buf))    // owner; m.Key() travels to the user
//	rk, err := ep.Unpack(key)                // user
//	err = ep.Put(ctx, ucx.Bytes(b), rk, off) // also Get, AtomicAt, NewRemoteFile
//	err = ep.Flush(ctx)
//
// [Worker.DialConn] and [Worker.ListenConn] give a net.Conn and a net.Listener, with
// back-pressure, to programs that know nothing of all this. The raw byte stream of an
// endpoint, [Endpoint.SendStream], is for peers that expect one.
//
// # Memory
//
// A [View] names memory for one operation: [Bytes] and [Of] view slices, [Buffer] views
// counted memory of package mem (mapped, pinned, device memory, pools), [FromTensor]
// and [FromArrayInterface] what other libraries own. Nothing is copied but small Go slices.
//
// A slice is borrowed until a blocking call returns, or until the Request is done. A
// mem.Buffer is retained by the operation itself. After a blocking call has returned,
// for whatever reason, nothing of UCX touches the memory any more. What was received
// belongs to the receiver: buffers and frames are released, a message ([AM], [Message])
// is received once or released.
//
// Memory that is sent often should come from a mem.Pool: its regions are registered with
// the network once. Device memory works the same way; import go.millstream.dev/cuda. A
// send waits for the buffer's ready event, without stopping a stream or a device.
//
// # Errors, deadlines, cancellation
//
// Errors are *[OpError] around a [Status], [ErrClosed], [ErrPeerClosed] or the context's
// error; errors.Is relates them to net.ErrClosed, io.EOF, context.Canceled and
// os.ErrDeadlineExceeded. A message that is too long is a *[TruncatedError] with both
// lengths; the messages behind it are untouched.
//
// UCX can take back only a receive that nothing has matched. When the context of a
// blocking call ends in any other state and UCX holds the caller's memory, the
// endpoint is force-closed: the call returns at once, the memory is the caller's, and
// [Endpoint.Err] says why the endpoint is gone. Small sends are copied and are simply
// given up. [Request.Wait] only stops waiting: the request keeps its memory until it is
// done, and [Request.Cancel] asks UCX to hurry.
//
// [Endpoint.Done] is closed when an endpoint has failed or was closed; every operation
// of it ends with the same reason. What had arrived before can still be received with
// [Worker.Recv].
//
// [Endpoint.Close] flushes, within five seconds or the deadline given to
// [Endpoint.Shutdown], and then cuts off; its error says whether data may be lost.
// Close endpoints, then the worker, then the context. Closing twice does no harm.
//
// # Progress
//
// There is nothing to call. A goroutine that waits drives UCX itself, spins for as
// long as recent waits make sensible, and then sleeps in Go's poller; an idle worker
// costs no CPU. [WorkerConfig].Progress chooses spinning without sleep ([Polling], one
// core for each waiting worker) or a thread of the worker's own ([Thread]).
//
// # Settings
//
// UCX_* variables of the user are never overridden ([Config].Options loses against them,
// with a log line). One exception: UCX_ERROR_SIGNALS is emptied, because UCX 1.13 would
// take Go's signal handlers away. Everything is read at first use, nothing when the
// program starts. Millstream's own variables:
//
//	MILLSTREAM_UCX_LIBRARY  path of libucp.so.0; default: searched for, see Library
//	MILLSTREAM_IFNAME       interface that Address looks at; UCXPY_IFNAME works too
//
// Active-message ids 1024 to 1039 are Millstream's; UCXX uses 0.
//
// Connections between processes of one host use shared memory and still report errors:
// Millstream sets the options that UCX wants for it. [Config].PlainLanes leaves them out,
// for peers that do not have them.
//
// # When it is slow
//
//   - [Endpoint.Transports] says which lanes are used. tcp between two processes of one
//     host means that something keeps shared memory away; `millstream doctor` says what.
//   - Keep several operations in flight: StartX, or more goroutines.
//   - Take memory that is sent more than once from a mem.Pool, and large receives from
//     [Endpoint.Recv], which receives in place ([Worker.Recv] copies).
//   - [Worker.Stats] counts operations, spins and sleeps. Many SpinsLost with small
//     messages: try [Polling], or a larger [WorkerConfig].MaxSpin.
//   - All cores busy computing: a sleeping goroutine wakes late. Leave one to the worker.
//   - `millstream bench ucx --peers` compares with ucx_perftest on the same host: what that
//     cannot do, nothing here can.
package ucx

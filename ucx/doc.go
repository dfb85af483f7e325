// Package ucx moves host and GPU memory between processes over the fastest transports available: shared memory, CUDA
// IPC, InfiniBand, TCP. It is a binding to UCX (https://openucx.org), whose library libucp it loads at run time:
// building needs no header and no library, and one binary works with UCX 1.13 to 1.22.
//
// # Getting started
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
// The address is only used for the handshake. Data is sent over shared memory here, and over the best transport that
// UCX finds elsewhere; [Endpoint.Transports] lists the transports in use.
//
// A [Context] is a set of transports, a [Worker] a set of connections that make progress together, an [Endpoint] one
// connection. [Dial] and [Listen] use the worker of [Default], a [Network] that creates its context and worker on first
// use; [NewContext] and [Context.NewWorker] create others.
//
// One context and one worker are enough for most programs. All types are safe for concurrent use unless documented
// otherwise; several workers only reduce contention. [Available] reports whether UCX can be loaded, and how to install
// it.
//
// # Connections
//
//   - [Worker.Dial] and [Worker.Listen], between Millstream programs: the socket stays open as a lifeline, so that a
//     peer's death is detected within milliseconds and a close loses no data. Addresses are "host:port", "unix:///path"
//     or "unix:@name"; [Worker.Attach] takes an existing connection.
//   - [Worker.DialSocket] and [Worker.ListenSocket]: UCX's own client and server connections, for other UCX programs.
//     [Listener.Next] returns connection requests before they are accepted. [Worker.DialUCXX] and [Worker.ListenUCXX]
//     add the protocol of UCXX, the Python library.
//   - [Worker.Connect] with a [WorkerAddress], exchanged by file, DNS or any other means: no IP address is needed. A
//     peer's death is detected by UCX's keepalive only.
//
// # Operations
//
// Each operation has two forms. X(ctx, …) returns when it is complete. StartX(…) returns a [Request] immediately, to
// wait for with [Request.Wait] or [Request.Done].
//
// Tagged messages are matched by the receiver, by the bits of a mask. Tags belong to the worker: give each connection
// distinct tags where that matters. [Endpoint.Recv] fails with its endpoint, [Worker.Recv] receives from any peer:
//
//	err := ep.Send(ctx, ucx.Of(floats), 7)                      // done when floats may be reused
//	err = ep.SendSync(ctx, ucx.Of(floats), 7)                   // done when the peer has begun to receive
//	info, err := w.Recv(ctx, ucx.Bytes(buf), 0, ucx.AnyTag)     // from anyone, with any tag
//	data, info, err := w.RecvAlloc(ctx, 7, ucx.FullMask, 1<<20) // of unknown length, up to 1 MiB
//
// Active messages are delivered to the worker that opened their id, with a header and, for large ones, into memory that
// the receiver chooses. They can be gathered from several views and answered:
//
//	err := w.HandleAM(ctx, 1, func(ctx context.Context, m *ucx.AM) {
//		data, err := m.Bytes(ctx, 1<<20) // or m.Buffer(ctx, pool)
//		err = m.ReplyTo.SendAM(ctx, 2, nil, ucx.AMOptions{}, ucx.Bytes(answer))
//	})
//	err = ep.SendAM(ctx, 1, []byte("header"), ucx.AMOptions{Reply: true}, ucx.Bytes(a), ucx.Bytes(b))
//
// Many buffers can be sent as one message, each with its length and kind of memory:
//
//	err := ep.SendFrames(ctx, ucx.Bytes(header), ucx.Buffer(deviceColumn))
//	frames, err := ep.RecvFrames(ctx, ucx.Allocators{Device: devicePool})
//
// Remote memory is read and written without involving the peer's program. Data written by [Endpoint.Put] is visible to
// the peer after [Endpoint.Flush]:
//
//	m, err := c.Register(ucx.Buffer(buf))    // owner; m.Key() travels to the user
//	rk, err := ep.Unpack(key)                // user
//	err = ep.Put(ctx, ucx.Bytes(b), rk, off) // also Get, AtomicAt, NewRemoteFile
//	err = ep.Flush(ctx)
//
// [Worker.DialConn] and [Worker.ListenConn] return a net.Conn and a net.Listener, with back-pressure, for programs
// written for sockets. The raw byte stream of an endpoint, [Endpoint.SendStream], is for peers that expect one.
//
// # Memory
//
// A [View] names memory for one operation: [Bytes] and [Of] view slices, [Buffer] views reference-counted memory of
// package mem (mapped, pinned, device memory, pools), [FromTensor] and [FromArrayInterface] view memory of other
// libraries. Only small Go slices are copied.
//
// A slice is borrowed until a blocking call returns, or until the Request is done. A mem.Buffer is retained by the
// operation itself. After a blocking call has returned, for whatever reason, UCX no longer accesses the memory.
// Received data belongs to the receiver: buffers and frames are released, a message ([AM], [Message]) is received once
// or released.
//
// Memory that is sent often should come from a mem.Pool: its regions are registered with the network once. Device
// memory works the same way; import go.millstream.dev/cuda. A send waits for the buffer's ready event, without blocking
// a stream or a device.
//
// # Errors, deadlines and cancellation
//
// Errors are *[OpError] around a [Status], [ErrClosed], [ErrPeerClosed] or the context's error; errors.Is relates them
// to net.ErrClosed, io.EOF, context.Canceled and os.ErrDeadlineExceeded. A message longer than its buffer returns a
// *[TruncatedError] with both lengths; the messages after it are not affected.
//
// UCX can cancel only a receive that no message has matched. When the context of a blocking call ends in any other
// state and UCX holds the caller's memory, the endpoint is force-closed: the call returns immediately, the caller owns
// the memory again, and [Endpoint.Err] returns the reason. Small sends are copied and are abandoned without closing the
// endpoint. [Request.Wait] only stops waiting: the request keeps its memory until it is done, and [Request.Cancel] asks
// UCX to cancel it.
//
// [Endpoint.Done] is closed when an endpoint has failed or was closed; all its operations end with the same reason.
// Data that had arrived before can still be received with [Worker.Recv].
//
// [Endpoint.Close] flushes, within five seconds or the deadline given to [Endpoint.Shutdown], and then disconnects; its
// error says whether data may be lost. Close endpoints, then the worker, then the context. Closing twice is allowed.
//
// # Progress
//
// Progress needs no calls. A goroutine that waits drives UCX itself, spins for a time learned from recent waits, and
// then sleeps in Go's poller; an idle worker uses no CPU. [WorkerConfig].Progress selects spinning without sleep
// ([Polling], one core for each waiting worker) or a dedicated thread ([Thread]).
//
// # Settings
//
// UCX_* environment variables are never overridden ([Config].Options has lower precedence, and conflicts are logged),
// with one exception: UCX_ERROR_SIGNALS is set to empty, because UCX 1.13 would replace Go's signal handlers. Settings
// are read at first use, not when the program starts. Millstream's own variables:
//
//	MILLSTREAM_UCX_LIBRARY  path of libucp.so.0; default: searched for, see Library
//	MILLSTREAM_IFNAME       interface that Address looks at; UCXPY_IFNAME works too
//
// Active-message ids 1024 to 1039 are reserved for Millstream; UCXX uses 0.
//
// Connections between processes of one host use shared memory and still report errors: Millstream sets the options that
// UCX requires for it. Over tcp it sends segments of 64 KiB (UCX_TCP_TX_SEG_SIZE; the default of UCX is 8 KiB), unless
// the user set the size of sent or received segments. [Config].PlainTransports leaves these options out, for peers that
// do not set them.
//
// # Performance
//
//   - [Endpoint.Transports] lists the transports in use. tcp between two processes of one host means that shared memory
//     is not usable; `millstream doctor` reports why.
//   - Keep several operations in flight: use StartX, or more goroutines.
//   - Take memory that is sent more than once from a mem.Pool, and receive large messages with [Endpoint.Recv], which
//     receives in place ([Worker.Recv] copies).
//   - [Worker.Stats] counts operations, spins and sleeps. If SpinsLost is high with small messages, try [Polling], or a
//     larger [WorkerConfig].MaxSpin.
//   - If all cores are busy computing, a sleeping goroutine wakes late. Leave one core to the worker.
//   - `millstream bench ucx --peers` compares with ucx_perftest on the same host, which is the upper bound.
package ucx

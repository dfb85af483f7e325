// Package ucxcomm implements comms over UCX: the schemes ucx:// and ucxx://, which Python's distributed-ucxx serves
// under the same names. Import it to register them, and tcp:// and tls:// with them:
//
//	import _ "go.millstream.dev/comm/ucxcomm"
//
//	c, err := comm.Dial(ctx, "ucxx://10.0.0.1:8786", comm.DialConfig{})
//
// To Python it speaks distributed-ucxx's format. Two Millstream programs detect each other in the handshake and
// continue over a data connection: shared memory on one host, NVLink, InfiniBand, with back-pressure and detection of
// the peer's death within milliseconds.
//
// UCX has no encryption: anyone who can read the network can read the messages. Where that matters, use tls:// for
// control and admit UCX comms with ListenConfig.Admit.
package ucxcomm

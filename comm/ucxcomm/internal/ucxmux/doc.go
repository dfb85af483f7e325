// Package ucxmux connects processes by UCX worker address alone: without IP address and socket. A listening process
// writes an [Invitation] with its address to a place where others find it, mostly a file; a process that has read the
// invitation connects, and both get a [Conn], a net.Conn for handshakes and for the detection of the other's end. A
// conn carries no payload: package ucx makes an endpoint over it (Worker.Attach), as over any other connection.
//
// The messages of all conns between two workers use one pair of endpoints. UCX pairs endpoints by the order of their
// creation, so that one pair per conn could be connected crosswise.
//
// A process on the same machine is watched through a pidfd: its death ends its conns immediately. The death of others
// is detected by UCX's keepalive, after some 20 s (UCX_KEEPALIVE_INTERVAL).
package ucxmux

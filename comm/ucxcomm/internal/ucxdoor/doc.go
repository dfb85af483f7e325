// Package ucxdoor lets processes meet by UCX worker address alone: no IP address, no socket. A process that listens
// leaves a [Card] with its address where the others find it, in a file mostly; who has read the card knocks, and both
// have a [Line], a net.Conn for handshakes and for word of the other's end. Payload does not belong on it: package ucx
// makes an endpoint over a line (Worker.Attach), as over any other connection.
//
// The messages of all lines between two workers go over one pair of endpoints. UCX pairs endpoints by the order in
// which they are made, so that one for each line could meet crosswise.
//
// A process of the same machine is watched through a pidfd: its death ends its lines at once. Of others UCX's keepalive
// tells, after some 20 s (UCX_KEEPALIVE_INTERVAL).
package ucxdoor

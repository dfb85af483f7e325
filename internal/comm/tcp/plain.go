package tcp

import (
	"net"
	"time"
)

// plainAlert is a TLS record, the fatal alert protocol_version, for peers without TLS. crypto/tls closes such
// connections without an answer, and the peer could not report the cause.
var plainAlert = []byte{recordAlert, 3, 1, 0, 2, 2, alertProtocolVersion}

const (
	recordAlert          = 0x15
	alertProtocolVersion = 70
)

// answerPlain sends plainAlert. It fits into the socket's buffer, as nothing else was sent.
func answerPlain(nc net.Conn) {
	if nc.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = nc.Write(plainAlert)
	}
}

// alerted reports whether the first bytes of the peer are a TLS alert. No message starts like this: the bytes would
// announce one of 512 TiB.
func (c *conn) alerted() bool {
	got := c.in.buf[c.in.r:c.in.w]
	return len(got) >= 5 && got[0] == recordAlert && got[1] == 3 && got[3] == 0 && got[4] == 2
}

package ucxcomm

import (
	"bytes"
	"context"
	"errors"
	"testing"
)

func TestStripeMessages(t *testing.T) {
	for _, want := range []stripeMessage{
		{kind: stripesDeclined}, {kind: stripesRequest}, {kind: stripesJoined},
		{kind: stripesOffer, port: 40_000, token: [stripeToken]byte{1, 2, 3}},
		{kind: stripesDelivered, count: 1 << 40},
	} {
		b := want.append(nil)
		if got, err := parseStripeMessage(b); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		for _, bad := range [][]byte{b[:len(b)-1], append(bytes.Clone(b), 0)} {
			if got, err := parseStripeMessage(bad); !errors.Is(err, errControl) {
				t.Errorf("%d bytes: got %+v, %v, want %v", len(bad), got, err, errControl)
			}
		}
	}
	if _, err := parseStripeMessage([]byte{stripesDelivered + 1}); !errors.Is(err, errControl) {
		t.Errorf("unknown kind: got %v, want %v", err, errControl)
	}
}

func FuzzStripeMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add(stripeMessage{kind: stripesRequest}.append(nil))
	f.Add(stripeMessage{kind: stripesOffer, port: 1, token: [stripeToken]byte{9}}.append(nil))
	f.Add(stripeMessage{kind: stripesDelivered, count: 3}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseStripeMessage(b)
		if err != nil {
			return
		}
		if again := m.append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x became %x", b, again)
		}
	})
}

// FuzzStripeStates: whatever a peer sends, on either side and in any state, stripes open only by an offer, and messages
// of this side count as delivered only if they were sent.
func FuzzStripeStates(f *testing.F) {
	f.Add(true, uint64(2), []byte{stripesRequest, stripesJoined, stripesDelivered, stripesDeclined})
	f.Add(false, uint64(0), []byte{stripesOffer, stripesOffer, stripesDeclined, stripesDelivered})
	f.Fuzz(func(t *testing.T, listens bool, sent uint64, kinds []byte) {
		var door *stripeListener
		if listens {
			door = &stripeListener{host: "127.0.0.1", closed: true}
		}
		h := newHostStripes(2, "127.0.0.1", door)
		h.cancel() // goroutines end at once: there is no comm
		h.send = func(context.Context, stripeMessage) error { return nil }
		h.sent = sent
		for i, k := range kinds {
			err := h.handle(stripeMessage{kind: k % (stripesDelivered + 1), count: uint64(i)})
			if err != nil {
				break
			}
		}
		if h.delivered > h.sent || h.isOpen() {
			t.Errorf("delivered %d of %d, open: %v", h.delivered, h.sent, h.isOpen())
		}
		h.wait()
	})
}

// Messages of the wrong side, or out of order, end the comm.
func TestStripeMessagesOutOfOrder(t *testing.T) {
	for _, tc := range []struct {
		about   string
		listens bool
		state   stripeState
		m       stripeMessage
		ok      bool
		refused bool // the answer is a refusal
	}{
		{"request", true, stripesFailed, stripeMessage{kind: stripesRequest}, true, false},
		{"request to the dialing side", false, stripesIdle, stripeMessage{kind: stripesRequest}, false, false},
		{"offer to the listening side", true, stripesIdle, stripeMessage{kind: stripesOffer}, false, false},
		{"offer after a refusal", false, stripesFailed, stripeMessage{kind: stripesOffer}, true, true},
		{"second offer", false, stripesJoining, stripeMessage{kind: stripesOffer}, false, false},
		{"offer after the stripes", false, stripesOpen, stripeMessage{kind: stripesOffer}, false, false},
		{"joined without an offer", true, stripesOffered, stripeMessage{kind: stripesJoined}, false, false},
		{"joined by the listening side", false, stripesJoining, stripeMessage{kind: stripesJoined}, false, false},
		{"declined", true, stripesRequested, stripeMessage{kind: stripesDeclined}, true, false},
		{"declined after the stripes", true, stripesOpen, stripeMessage{kind: stripesDeclined}, false, false},
		{"delivered", true, stripesOpen, stripeMessage{kind: stripesDelivered, count: 2}, true, false},
		{"delivered again", true, stripesOpen, stripeMessage{kind: stripesDelivered, count: 1}, false, false},
		{"delivered and not sent", true, stripesOpen, stripeMessage{kind: stripesDelivered, count: 4}, false, false},
		{"after the end", true, stripesEnded, stripeMessage{kind: stripesOffer}, true, false},
	} {
		var door *stripeListener
		if tc.listens {
			door = &stripeListener{host: "127.0.0.1", closed: true}
		}
		h := newHostStripes(2, "127.0.0.1", door)
		answers := make(chan stripeMessage, 2)
		h.send = func(_ context.Context, m stripeMessage) error { answers <- m; return nil }
		h.state, h.sent, h.delivered = tc.state, 3, 1
		if tc.state >= stripesOpen {
			close(h.decided)
		}
		if err := h.handle(tc.m); (err == nil) != tc.ok {
			t.Errorf("%s: got %v, want success: %v", tc.about, err, tc.ok)
		}
		if tc.refused {
			if err := h.handle(tc.m); err == nil {
				t.Errorf("%s, again: got no error", tc.about)
			}
		}
		h.wait()
		if refused := len(answers) == 1 && (<-answers).kind == stripesDeclined; refused != tc.refused {
			t.Errorf("%s: got declined %v, want %v", tc.about, refused, tc.refused)
		}
	}
}

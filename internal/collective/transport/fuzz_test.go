package transport

import "testing"

func FuzzParseControl(f *testing.F) {
	var h [9]byte
	putHead(&h, msgData, 1<<52-1)
	f.Add(h[:])
	f.Add(appendAbort(&RankError{Rank: 1, Reason: "why"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if kind, _, err := parseHead(b); err == nil && (kind < msgData || kind > msgLeave) {
			t.Fatal(kind)
		}
		if e, err := parseAbort(b, 4); err == nil && (e.Rank < 0 || e.Rank > 3 || len(e.Reason) > maxReason) {
			t.Fatalf("%+v", e)
		}
	})
}

package msgpack

import "testing"

func TestBorrow(t *testing.T) {
	b := []byte("0123456789")
	if Borrow(b[2:4]) != "23" || Borrow(nil) != "" {
		t.Error("Borrow")
	}
}

package history

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// The newest computations are kept, each with distinct pieces of code.
func TestComputationsAreBounded(t *testing.T) {
	var s Computations
	for i := range maxComputations + 10 {
		buf := []byte(fmt.Sprintf("code %d", i))
		s.Note(time.Now(), true, buf) // idle: each starts a computation
		clear(buf)                    // the buffer belongs to a message
	}
	rows := s.Rows()
	if len(rows) != maxComputations {
		t.Fatalf("computations: got %d, want maxComputations", len(rows))
	}
	code, _ := rows[0].(msgpack.Map).Get("code")
	if got := fmt.Sprintf("%s", code); got != "[code 10]" {
		t.Errorf("code of the oldest: got %s, want code 10", got)
	}
	last, ids := s.list[len(s.list)-1], map[string]bool{}
	for _, c := range s.list {
		ids[c.id] = true
	}
	if len(ids) != maxComputations {
		t.Errorf("IDs: got %d, want %d", len(ids), maxComputations)
	}
	for i := range maxCodes + 10 {
		last.add([]byte(fmt.Sprint(i)))
		last.add([]byte(fmt.Sprint(i)))
	}
	last.add(nil)
	if len(last.code) != maxCodes {
		t.Errorf("pieces of code: got %d, want maxCodes", len(last.code))
	}
}

package history

import (
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// The newest computations are kept, each with code that is its own and not there twice.
func TestComputationsAreBounded(t *testing.T) {
	var s Computations
	for i := range maxComputations + 10 {
		buf := []byte(fmt.Sprintf("code %d", i))
		s.Note(time.Now(), true, buf) // nothing is on its way: each begins one
		clear(buf)                    // it belongs to a message
	}
	rows := s.Rows()
	if len(rows) != maxComputations {
		t.Fatalf("%d computations are kept", len(rows))
	}
	code, _ := rows[0].(msgpack.Map).Get("code")
	if got := fmt.Sprintf("%s", code); got != "[code 10]" {
		t.Errorf("the oldest one's code is %s", got)
	}
	last, ids := s.list[len(s.list)-1], map[string]bool{}
	for _, c := range s.list {
		ids[c.id] = true
	}
	if len(ids) != maxComputations {
		t.Errorf("%d ids for %d computations", len(ids), maxComputations)
	}
	for i := range maxCodes + 10 {
		last.add([]byte(fmt.Sprint(i)))
		last.add([]byte(fmt.Sprint(i)))
	}
	last.add(nil)
	if len(last.code) != maxCodes {
		t.Errorf("%d pieces of code are kept", len(last.code))
	}
}

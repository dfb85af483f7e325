package hooks

import "testing"

func TestHooks(t *testing.T) {
	if h, ok := Get(); ok {
		t.Errorf("got hooks %+v before Register, want none", h)
	}
	Register(Hooks{SetCurrent: 1, EventQuery: 2})
	if h, ok := Get(); !ok || h.SetCurrent != 1 || h.EventQuery != 2 {
		t.Errorf("got hooks %+v, %v; want those that were registered", h, ok)
	}
}

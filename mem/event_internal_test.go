package mem

import "testing"

func TestHooks(t *testing.T) {
	defer hooks.Store(hooks.Load())
	hooks.Store(nil)
	if _, ok := Hooks(); ok {
		t.Fatal("hooks without a device package")
	}
	RegisterDeviceHooks(DeviceHooks{SetCurrent: 1, EventQuery: 2})
	if h, ok := Hooks(); !ok || h.SetCurrent != 1 || h.EventQuery != 2 {
		t.Errorf("%+v %v", h, ok)
	}
}

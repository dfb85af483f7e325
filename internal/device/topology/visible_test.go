package topology_test

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/topology"
)

func TestVisible(t *testing.T) {
	list, err := topology.ParseVisible(" 0, GPU-abc,MIG-1/2/3 ,0")
	if err != nil || fmt.Sprint(list) != "[0 GPU-abc MIG-1/2/3 0]" {
		t.Errorf("%v, %v", list, err)
	}
	for i, want := range []string{"0,GPU-abc,MIG-1/2/3", "GPU-abc,MIG-1/2/3,0", "MIG-1/2/3,0,GPU-abc",
		"0,GPU-abc,MIG-1/2/3"} {
		if got, err := topology.Rotate(list, i); err != nil || got != want {
			t.Errorf("worker %d sees %s, %v; want %s", i, got, err, want)
		}
	}
	if _, err := topology.Rotate(list, 4); err == nil || !strings.Contains(err.Error(), "list one twice") {
		t.Errorf("a worker too many: %v", err)
	}
	if _, err := topology.Rotate(nil, 0); err == nil {
		t.Error("no GPU at all")
	}
	if list, err := topology.ParseVisible(" "); err != nil || list != nil {
		t.Errorf("nothing: %v, %v", list, err)
	}
	for _, bad := range []string{"-1", "0,,1", "0,gpu1", "NoDevFiles"} {
		if list, err := topology.ParseVisible(bad); err == nil ||
			!strings.Contains(err.Error(), "CUDA_VISIBLE_DEVICES="+bad) {
			t.Errorf("%q gave %v, %v", bad, list, err)
		}
	}
}

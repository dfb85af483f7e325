package hostid

import (
	"strings"
	"testing"
)

func TestIdentities(t *testing.T) {
	boot := Boot()
	if len(boot) != 36 || strings.TrimSpace(boot) != boot {
		t.Fatalf("the machine is %q", boot)
	}
	pid, net := In("pid"), In("net")
	if !strings.HasPrefix(pid, boot+" pid:[") || !strings.HasPrefix(net, boot+" net:[") {
		t.Errorf("namespaces %q and %q", pid, net)
	}
	if got := In("nothing"); got != "" {
		t.Errorf("a namespace that there is not: %q", got)
	}
}

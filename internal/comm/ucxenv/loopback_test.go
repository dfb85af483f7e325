package ucxenv

import (
	"maps"
	"testing"
)

func TestOnLoopback(t *testing.T) {
	lo := LoopbackDevice()
	if lo == "" {
		t.Fatal("got no loopback interface, want one")
	}
	for name, c := range map[string]struct {
		env           map[string]string
		options, want map[string]string
	}{
		"default": {want: map[string]string{"NET_DEVICES": lo}},
		"tcp named": {options: map[string]string{"TLS": "tcp,self"},
			want: map[string]string{"TLS": "tcp,self", "NET_DEVICES": lo}},
		"all": {options: map[string]string{"TLS": "all"},
			want: map[string]string{"TLS": "all", "NET_DEVICES": lo}},
		"without tcp": {options: map[string]string{"TLS": "sm,self"}, want: map[string]string{"TLS": "sm,self"}},
		"all but tcp": {options: map[string]string{"TLS": "^tcp"}, want: map[string]string{"TLS": "^tcp"}},
		"not all":     {options: map[string]string{"TLS": "^all"}, want: map[string]string{"TLS": "^all"}},
		"devices named": {options: map[string]string{"NET_DEVICES": "eth0"},
			want: map[string]string{"NET_DEVICES": "eth0"}},
		"variable": {env: map[string]string{"UCX_NET_DEVICES": "eth0"}},
		"transports by env": {env: map[string]string{"UCX_TLS": "sm"}, options: map[string]string{"TLS": "tcp"},
			want: map[string]string{"TLS": "tcp"}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			before := maps.Clone(c.options)
			if got := OnLoopback(c.options); !maps.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if !maps.Equal(c.options, before) {
				t.Errorf("the argument has become %v, want %v", c.options, before)
			}
		})
	}
}

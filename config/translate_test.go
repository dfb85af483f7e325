package config

import (
	"strings"
	"testing"
)

// A switch that is off keeps its transport out, whatever the others are.
func TestTranslateKeepsOut(t *testing.T) {
	for _, c := range []struct {
		name          string
		u             UCX
		tls, priority string
	}{
		{"nothing", UCX{}, "", ""},
		{"tcp off", UCX{TCP: Off}, "^tcp", ""},
		{"nvlink off", UCX{NVLink: Off}, "^cuda_ipc", ""},
		{"infiniband off", UCX{InfiniBand: Off}, "^ib", ""},
		{"all off", UCX{TCP: Off, NVLink: Off, InfiniBand: Off, CUDACopy: Off, RDMACM: Off},
			"^tcp,cuda_ipc,ib,cuda_copy", "tcp"},
		{"rdmacm off", UCX{RDMACM: Off}, "", "tcp"},
		{"rdmacm off beside infiniband", UCX{RDMACM: Off, InfiniBand: On}, "rc,tcp,cuda_copy", "tcp"},
		{"tcp off beside nvlink", UCX{TCP: Off, NVLink: On}, "self,sm,cuda_copy,cuda_ipc", "tcp"},
		{"tcp off beside infiniband", UCX{TCP: Off, InfiniBand: On}, "rc,cuda_copy", "tcp"},
		{"tcp off beside both", UCX{TCP: Off, InfiniBand: On, NVLink: On, RDMACM: On}, "rc,cuda_copy,cuda_ipc",
			"rdmacm"},
		{"nvlink off beside tcp", UCX{TCP: On, NVLink: Off}, "tcp", "tcp"},
		{"own list", UCX{TCP: Off, Environment: map[string]string{"tls": "self,sm"}}, "self,sm", ""},
		{"own exclusion", UCX{TCP: Off, Environment: map[string]string{"UCX_TLS": "^tcp,ib"}}, "^tcp,ib", ""},
	} {
		options, warnings, err := c.u.Translate()
		if err != nil || len(warnings) > 0 || options["TLS"] != c.tls ||
			options["SOCKADDR_TLS_PRIORITY"] != c.priority {
			t.Errorf("%s: %v, %v, %v", c.name, options, warnings, err)
		}
	}
}

// What contradicts a switch that is off is an error that names both.
func TestTranslateContradictions(t *testing.T) {
	for _, c := range []struct {
		yaml string
		env  string
		want string
	}{
		{"{tcp: false, environment: {tls: 'tcp,self'}}", "", "distributed-ucxx.tcp is false, and " +
			"distributed-ucxx.environment.tls=tcp,self allows tcp: remove tcp from it, or unset distributed-ucxx.tcp"},
		{"{nvlink: false, environment: {tls: '^tcp'}}", "", "allows cuda_ipc"},
		{"{nvlink: false, environment: {tls: cuda}}", "", "allows cuda_ipc"},
		{"{infiniband: false, environment: {tls: 'rc_x,self'}}", "", "allows ib"},
		{"{tcp: false}", "UCX_TLS=tcp,self", "distributed-ucxx.tcp is false, and UCX_TLS=tcp,self allows tcp"},
		{"{infiniband: false}", "UCX_TLS=all", "allows ib"},
		{"{nvlink: true, cuda-copy: false}", "", "distributed-ucxx.nvlink needs distributed-ucxx.cuda-copy"},
	} {
		var env []string
		if c.env != "" {
			env = []string{c.env}
		}
		_, err := load(t, "distributed-ucxx: "+c.yaml+"\n", env...).Settings(Overrides{})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ".yaml:1: ") {
			t.Errorf("%s %s: %v", c.yaml, c.env, err)
		}
	}
	for _, ok := range []string{"UCX_TLS=self,sm", "UCX_TLS=^tcp,cuda,ib", "UCX_TLS=ud:aux,self"} {
		if _, err := load(t, "distributed-ucxx: {tcp: false, nvlink: false, infiniband: false}\n",
			ok).Settings(Overrides{}); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
}

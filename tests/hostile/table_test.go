package hostile

import "context"

// targets are the settings that an attack runs in: protocols, and with or without a journal.
type targets uint

const (
	onTCP targets = 1 << iota
	onTLS
	onUCXX
	journaled // scheduler --journal
	plain     // without it

	anyProtocol = onTCP | onTLS | onUCXX
	everywhere  = anyProtocol | journaled | plain
)

// attack is one entry of the table.
type attack struct {
	// name of the subtest.
	name string
	// targets are the settings of the long form. The short form uses the first of them.
	targets targets
	// long keeps the attack out of the short form.
	long bool
	// named makes the rig look for the attacker (an address or a name that the attack used) in the logs.
	named bool
	// ends says that the attack may end workers by requests that have that purpose: the rig replaces them.
	ends bool
	// memory bounds the growth of each process' peak resident memory, in bytes. Default 512 MiB.
	memory int64
	// run makes the attack. Its error fails the test.
	run func(ctx context.Context, r *Rig) error
}

// attacks is the table.
var attacks []attack

// register adds attacks to the table. It is for init functions.
func register(list ...attack) { attacks = append(attacks, list...) }

// setting is what one rig is.
type setting struct {
	protocol string
	journal  bool
}

func (s setting) String() string {
	if s.journal {
		return s.protocol + "+journal"
	}
	return s.protocol
}

// bits are the targets that a setting is.
func (s setting) bits() targets {
	t := plain
	if s.journal {
		t = journaled
	}
	return t | map[string]targets{"tcp": onTCP, "tls": onTLS, "ucxx": onUCXX}[s.protocol]
}

// in reports whether an attack runs in a setting.
func (a attack) in(s setting) bool { return a.targets&s.bits() == s.bits() }

// settings in their order; the short form of an attack runs in the first that it has.
var settings = []setting{{"tcp", true}, {"tcp", false}, {"tls", true}, {"tls", false}, {"ucxx", true}, {"ucxx", false}}

// selected are the attacks of a setting in the short or the long form.
func selected(s setting, full bool) (out []attack) {
	for _, a := range attacks {
		switch {
		case !a.in(s):
		case full:
			out = append(out, a)
		case a.long:
		default:
			for _, first := range settings {
				if a.in(first) {
					if first == s {
						out = append(out, a)
					}
					break
				}
			}
		}
	}
	return out
}

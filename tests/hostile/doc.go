// Package hostile attacks live processes: schedulers over tcp, tls and ucxx, with and without a journal, their workers,
// nannies and Python helpers. Each attack is an entry of a table. After each of them the rig checks that
//
//   - an honest client that was connected before, and one that connects now, are served,
//   - the peak memory of each process has stayed within the attack's bound,
//   - the log of the attacked process names the attacker, where the attack can be detected,
//   - a scheduler with a journal, killed and started again on its folder, has what it had promised.
//
// `go test ./tests/hostile` runs the short form. `make hostile` (MILLSTREAM_HOSTILE=full) runs every attack in every
// setting and prints the counts; HOSTILE=regexp selects attacks by name.
//
// # Adding an attack
//
// Write a file attack_SUBJECT_test.go with an init function that calls register:
//
//	func init() {
//		register(attack{
//			name:    "half a handshake",
//			targets: onTCP | onTLS | plain,
//			named:   true, // the log must have the address of a connection that the attack made
//			run: func(ctx context.Context, r *Rig) error {
//				c, err := r.Raw(ctx, r.Scheduler.Address)
//				if err != nil {
//					return err
//				}
//				_, err = c.Write([]byte{1, 2, 3})
//				return err
//			},
//		})
//	}
//
// run returns an error when the attack succeeded or could not be made. An error that the attacked process answers is
// what a refused attacker gets: look at it, and return nil when it is the right one.
package hostile

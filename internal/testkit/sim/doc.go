// Package sim simulates a network in memory, for tests of users of package comm: named hosts, addresses such as
// sim://worker-1:8786, latency, bandwidth, and faults between machines.
//
//	net := sim.New(sim.Config{Seed: 1, Latency: time.Millisecond})
//	l, _ := net.Host("scheduler").Listen(ctx, "sim://scheduler:8786", comm.ListenConfig{})
//	c, _ := net.Host("worker").Dial(ctx, "sim://scheduler:8786", comm.DialConfig{})
//	net.Partition("worker", "scheduler")
//
// Each host is a separate comm.Network: a server gets that of its host. Messages are passed without a copy, in order,
// after the delay of the link between the two hosts.
//
// # Time
//
// All waiting uses package time, so that it is virtual inside a testing/synctest bubble. The network has no goroutine:
// nothing has to be closed for a bubble to end.
//
// Random behavior (jitter, whether the writer of a lost message gets an error) is a pure function of the seed, the link
// and the number of messages on the connection, independent of the order in which goroutines run. With
// Config.Deterministic every event also has a distinct instant of virtual time: the clock of a bubble stands still
// until all its goroutines are blocked, so that all effects of one event have occurred before the next one, and the
// seed repeats a run.
//
// # Faults
//
// Partition, PartitionOneWay and Heal cut links as a switch does: nothing is lost, messages are delayed, and a
// connection that stays cut for Config.Timeout ends. Drop resets connections, DropAfter resets one in the middle of a
// message. Refuse, Stall, Resume, Kill, Crash and Revive change the state of hosts; SetLink makes a link slow (for a
// slow loris, a few bytes per second); HalfOpen connects without a handshake.
package sim
